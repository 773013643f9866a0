//! The table of kinds is complete: what a row promises is there, in what a cluster is given and in
//! what people read; and knowledge of a kind stays in few files.

use policy_crds::spec::{Admission, Conditions, Watched};
use policy_crds::{Body, Field, Kind, Object, document};
use policy_engine::{ControllerConfig, compile_objects};
use policy_tests::sources::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use xtask::structure::{kind_files, kind_table, workspace_structure};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    document::read(&read(path)).remove(0).value.unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn has(list_of: &Value, text: &str) -> bool {
    list(list_of).any(|one| one == text)
}

/// Definitions and pages beside the table of kinds.
struct World {
    /// One object at least of each kind.
    examples: Vec<Object>,
    /// These, and the objects of all scenarios.
    objects: Vec<Object>,
    /// The kinds of objects that always have conditions, as the controller computes them.
    conditioned: BTreeSet<Kind>,
    /// The rules of the chart for the controller.
    rights: Value,
    /// The webhooks of the chart that judge.
    webhooks: Value,
    /// All that people read.
    documents: String,
}

impl World {
    fn read() -> Self {
        let examples = document::read(&read("crds/tests/rules/good.yaml"));
        let examples =
            examples.into_iter().map(|it| policy_crds::parse(&it.value.unwrap()).unwrap());
        let examples: Vec<Object> = examples.collect();
        let scenarios = fs::read_dir(root().join("tests/scenarios")).unwrap();
        let scenarios = scenarios.map(|folder| folder.unwrap().path().join("manifests"));
        let files = scenarios.flat_map(|folder| fs::read_dir(folder).unwrap());
        let files: Vec<String> =
            files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        let documents = files.iter().flat_map(|file| document::read(file));
        let scenarios = documents.filter_map(|it| policy_crds::parse(&it.value.ok()?).ok());
        let objects = examples.iter().cloned().chain(scenarios).collect();
        let compiled = compile_objects(examples.clone(), &ControllerConfig::default());
        let pages = fs::read_dir(root().join("docs")).unwrap().map(|page| page.unwrap().path());
        let pages = pages.filter(|page| page.extension().is_some_and(|name| name == "md"));
        let rules = yaml("charts/portcullis/files/rbac.yaml");
        let webhooks = yaml("charts/portcullis/files/webhooks.yaml");
        Self {
            conditioned: compiled.conditions.keys().map(|key| key.kind).collect(),
            rights: ["cluster", "discovery"]
                .into_iter()
                .flat_map(|part| list(&rules["controller"][part]).cloned().collect::<Vec<Value>>())
                .collect(),
            webhooks: ["validating", "wholeCluster"]
                .into_iter()
                .flat_map(|part| list(&webhooks[part]).cloned().collect::<Vec<Value>>())
                .collect(),
            documents: pages.map(|page| fs::read_to_string(page).unwrap()).collect(),
            examples,
            objects,
        }
    }

    /// The versions of the installed definition; none where there is none.
    fn defined(&self, kind: Kind) -> BTreeSet<String> {
        let name = format!("{}_{}.yaml", kind.group(), kind.plural());
        let path = format!("charts/portcullis/files/crds/{name}");
        if !root().join(&path).exists() {
            return BTreeSet::new();
        }
        let definition = yaml(&path);
        let versions = list(&definition["spec"]["versions"]).map(|version| &version["name"]);
        versions.map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    fn may(&self, kind: Kind, verb: &str, part: &str) -> bool {
        let resource = format!("{}{part}", kind.plural());
        list(&self.rights).any(|rule| {
            has(&rule["apiGroups"], kind.group())
                && has(&rule["resources"], &resource)
                && has(&rule["verbs"], verb)
        })
    }

    /// Admission rule of a kind that the API server asks a webhook about; none if it asks none.
    fn judged(&self, kind: Kind) -> Option<&str> {
        let asks = |webhook: &&Value| {
            list(&webhook["rules"]).any(|rule| {
                has(&rule["apiGroups"], kind.group()) && has(&rule["resources"], kind.plural())
            })
        };
        list(&self.webhooks).find(asks).and_then(|webhook| webhook["failurePolicy"].as_str())
    }

    /// Everything about a kind that is not as its row says.
    fn lacks(&self, kind: Kind) -> Vec<&'static str> {
        let spec = kind.spec();
        let (watched, written) = (spec.watched != Watched::Never, spec.status.is_some());
        let versions: BTreeSet<String> = match spec.is_defined_here() {
            true => kind.versions().iter().map(|version| (*version).to_owned()).collect(),
            false => BTreeSet::new(),
        };
        let mut examples = self.examples.iter().filter(|it| it.meta.key.kind == kind);
        let of_kind = self.objects.iter().filter(|it| it.meta.key.kind == kind);
        let of_kind: Vec<&Object> = of_kind.collect();
        let names_clients = of_kind.iter().any(|it| !it.clients().is_empty());
        // A Server is told by its conditions. What is of no ports is found by reference.
        let matches = spec.contributes && spec.of_ports && kind != Kind::Server;
        let is_told = of_kind.iter().any(|it| it.idle().is_some());
        let judged = match spec.admission {
            Admission::Policy | Admission::Route | Admission::Grant => Some("Fail"),
            Admission::Workload => Some("Ignore"),
            // Its webhook is not in the configuration of the default flags.
            Admission::Outbound | Admission::Foreign => None,
        };
        let told = spec.conditions == Conditions::Always;
        let own = kind.group().contains('.');
        [
            ("a definition of its versions", self.defined(kind) == versions),
            ("a reader of its example", examples.any(|it| matches!(it.body, Body::Valid(_)))),
            ("its conditions", self.conditioned.contains(&kind) == told),
            ("its rule at admission", self.judged(kind) == judged),
            ("the right to list it", self.may(kind, "list", "") == watched),
            ("the right to watch it", self.may(kind, "watch", "") == watched),
            ("the right to write its status", self.may(kind, "patch", "/status") == written),
            ("its clients", names_clients == spec.reference(&[Field::Client]).is_some()),
            ("what it is told while it matches nothing", is_told == matches),
            ("a page that explains it", !own || self.documents.contains(kind.as_str())),
        ]
        .into_iter()
        .filter_map(|(what, is_there)| (!is_there).then_some(what))
        .collect()
    }
}

#[test]
fn every_kind_has_what_its_row_promises_and_nothing_else() {
    let world = World::read();
    let lacking: Vec<_> = Kind::ALL
        .into_iter()
        .flat_map(|kind| world.lacks(kind).into_iter().map(move |what| format!("{kind:?}: {what}")))
        .collect();
    assert!(lacking.is_empty(), "not as the table of kinds says:\n{}", lacking.join("\n"));
}

/// Routes name EgressNetworks, for outbound traffic, and one file says that they have no effect; beside
/// that nothing is done with them.
#[test]
fn a_kind_of_which_nothing_is_used_is_known_in_few_files() {
    let crates = workspace_structure(&root()).unwrap();
    let files = kind_files(&root(), &crates).unwrap();
    let egress = files.iter().find(|of| of.kind == Kind::EgressNetwork).unwrap();
    let known = [
        "crds/src/kind.rs",
        "crds/src/kinds.rs",
        "crds/src/kinds/egress_network.rs",
        "crds/src/kinds/route/definition.rs",
        "crds/src/kinds/route/parent.rs",
        "policy-cli/src/diagnostics/outbound_policy.rs",
    ];
    let all: Vec<&String> =
        egress.elsewhere.iter().chain(&egress.model).chain(&egress.sidecar).collect();
    assert_eq!(all, known, "{}", kind_table(&files));
}
