//! A directory that changes.

mod kept;

use super::*;
use crate::source::Change;
use policy_crds::{Body, Claims, Kind, Resource};
use std::fs;

struct Fixture {
    root: tempfile::TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), store: Store::default() }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root.path().join(name), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.root.path().join(name)).unwrap();
    }

    /// Changes as `+kind name` and `-kind name`, and diagnostics.
    fn apply_scan(&mut self) -> (Vec<String>, Vec<String>) {
        let inputs = [Manifests::Path(self.root.path().to_owned())];
        let scan = scan(&inputs, 1_000_000).unwrap();
        let (batch, diagnostics) = apply_scan(&inputs, &mut self.store, scan);
        let root = format!("{}/", self.root.path().display());
        let diagnostics = diagnostics.iter().map(|d| d.to_string().replace(&root, "")).collect();
        (batch.changes.iter().map(describe).collect(), diagnostics)
    }

    fn body(&self, kind: Kind, name: &str) -> Body {
        let mut all = self.store.objects();
        let object = all.find(|o| o.meta.key.kind == kind && &*o.meta.key.name == name);
        object.unwrap().body.clone()
    }
}

fn describe(change: &Change) -> String {
    match change {
        Change::Apply(object) => {
            let mark = if matches!(object.body, Body::Valid(_)) { '+' } else { '!' };
            format!("{mark}{}", object.meta.key)
        }
        Change::Delete(key) => format!("-{key}"),
        Change::Keep(key) => format!("={key}"),
        Change::Synced => "synced".to_owned(),
    }
}

const SERVER: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080}
";

const POLICY: &str = "
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: all, namespace: shop}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, requiredAuthenticationRefs: []}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {config.linkerd.io/default-inbound-policy: audit}}
    spec: {containers: [{name: app, ports: [{containerPort: 8080}], readinessProbe: {httpGet: {path: /r, port: 8081}}}]}
";

#[test]
fn files_come_change_move_and_go() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &format!("{SERVER}---{POLICY}"));
    assert_eq!(
        fixture.apply_scan(),
        (vec!["+Server shop/web".into(), "+AuthorizationPolicy shop/all".into()], vec![])
    );
    assert_eq!(fixture.apply_scan(), (vec![], vec![]));
    fixture.write("a.yaml", SERVER);
    assert_eq!(fixture.apply_scan().0, ["-AuthorizationPolicy shop/all"]);
    fs::rename(fixture.root.path().join("a.yaml"), fixture.root.path().join("b.yml")).unwrap();
    assert_eq!(fixture.apply_scan(), (vec![], vec![]));
    fixture.write("b.yml", &SERVER.replace("8080", "8081"));
    assert_eq!(fixture.apply_scan().0, ["+Server shop/web"]);
    fixture.remove("b.yml");
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["-Server shop/web"]);
    assert!(diagnostics[0].contains("warning: no .yaml, .yml or .json file"), "{diagnostics:?}");
}

#[test]
fn json_lists_and_workloads_are_read() {
    let mut fixture = Fixture::new();
    fixture.write(
        "list.json",
        r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}]}"#,
    );
    fixture.write("deployment.yaml", DEPLOYMENT);
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Pod shop/web-0", "+Pod shop/web-1", "+Namespace shop"]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
}

#[test]
fn a_file_that_stops_parsing_keeps_claims_and_loses_grants() {
    let mut fixture = Fixture::new();
    let good = format!("{SERVER}---{POLICY}---{DEPLOYMENT}");
    fixture.write("a.yaml", &good);
    fixture.apply_scan();
    fixture.write("a.yaml", &format!("{good}---\n{{ broken: ["));
    let (changes, diagnostics) = fixture.apply_scan();
    assert!(changes.is_empty(), "what can still be read is in force: {changes:?}");
    assert!(diagnostics[0].starts_with("a.yaml:"), "{diagnostics:?}");

    fixture.write("a.yaml", "kind: [");
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(
        changes,
        ["!Server shop/web", "!AuthorizationPolicy shop/all", "+Pod shop/web-0", "+Pod shop/web-1"]
    );
    assert!(diagnostics.iter().any(|d| d.contains("4 earlier object(s)")), "{diagnostics:?}");
    assert!(diagnostics[0].starts_with("a.yaml:1:"), "{diagnostics:?}");
    let Body::Invalid(server) = fixture.body(Kind::Server, "web") else { panic!() };
    assert!(matches!(server.claims, Claims::Server { workloads: Some(_), port: Some(_) }));
    let Body::Valid(Resource::Pod(pod)) = fixture.body(Kind::Pod, "web-0") else { panic!() };
    assert!(pod.probes.is_empty());
    assert_eq!(pod.ports.iter().map(|p| p.number.get()).collect::<Vec<_>>(), [8080, 8081]);
    let denied = fixture.store.objects().find(|o| &*o.meta.key.name == "web-0").unwrap();
    assert_eq!(&*denied.meta.annotations["config.linkerd.io/default-inbound-policy"], "deny");

    fixture.write("a.yaml", "kind: [ still");
    assert_eq!(fixture.apply_scan().0, Vec::<String>::new(), "kept through every further mistake");
    fixture.write("a.yaml", &good);
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes.len(), 4);
    assert!(diagnostics.is_empty());
    assert!(matches!(fixture.body(Kind::Server, "web"), Body::Valid(_)));
}

#[test]
fn an_unreadable_object_in_a_readable_file_keeps_what_it_said() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &format!("{SERVER}---{POLICY}"));
    fixture.apply_scan();
    fixture
        .write("a.yaml", &format!("{}---{POLICY}", SERVER.replace("kind: Server", "kind: Sever")));
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["!Server shop/web"]);
    assert!(diagnostics[0].contains("kind"), "{diagnostics:?}");
}

#[test]
fn a_workload_that_becomes_invalid_keeps_its_pods_without_grants() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", DEPLOYMENT);
    fixture.apply_scan();
    fixture.write("a.yaml", &DEPLOYMENT.replace("containerPort: 8080", "containerPort: 808080"));
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Pod shop/web-0", "+Pod shop/web-1"]);
    assert!(diagnostics[0].contains("containerPort"), "{diagnostics:?}");
    fixture.write("a.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 1"));
    assert_eq!(fixture.apply_scan().0, ["-Pod shop/web-1", "+Pod shop/web-0"]);
}

#[test]
fn a_file_that_never_parsed_says_so_loudly() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", "kind: [");
    let (changes, diagnostics) = fixture.apply_scan();
    assert!(changes.is_empty());
    assert!(diagnostics.iter().any(|d| d.contains("restricts nothing")), "{diagnostics:?}");
}

#[test]
fn invalid_utf8_and_size_are_named() {
    let mut fixture = Fixture::new();
    fs::write(fixture.root.path().join("a.yaml"), b"kind: \xff").unwrap();
    fs::write(fixture.root.path().join("b.yaml"), vec![b'#'; 1_000_001]).unwrap();
    let (_, diagnostics) = fixture.apply_scan();
    assert!(diagnostics.iter().any(|d| d.contains("a.yaml:1:7") && d.contains("UTF-8")));
    assert!(diagnostics.iter().any(|d| d.starts_with("b.yaml: ") && d.contains("1000000 bytes")));
}

#[test]
fn of_two_declarations_the_first_by_path_counts_and_both_are_named() {
    let mut fixture = Fixture::new();
    fixture.write("b.yaml", SERVER);
    fixture.write("c.yaml", &SERVER.replace("8080", "8081"));
    fixture.apply_scan();
    fixture.write("a.yaml", &format!("\n{}", SERVER.replace("8080", "8082")));
    let (changes, diagnostics) = fixture.apply_scan();
    // What the others claim they keep.
    assert_eq!(changes, ["+Server shop/web", "!Server shop/web#2", "!Server shop/web#3"]);
    assert_eq!(diagnostics.len(), 2);
    assert!(diagnostics[0].contains("a.yaml:3 counts"), "{diagnostics:?}");
    assert!(diagnostics[0].contains("b.yaml:2 does not"), "{diagnostics:?}");
    let Body::Valid(Resource::Server(server)) = fixture.body(Kind::Server, "web") else { panic!() };
    assert_eq!(server.port, policy_crds::resource::PortRef::Number(8082.try_into().unwrap()));
}

#[test]
fn annotations_that_cannot_be_read_are_placed_in_the_template() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &DEPLOYMENT.replace("audit", "audits"));
    let (_, diagnostics) = fixture.apply_scan();
    assert_eq!(diagnostics.len(), 1);
    assert!(diagnostics[0].contains("a.yaml:9:"), "{diagnostics:?}");
    assert!(diagnostics[0].contains("spec.template.metadata.annotations"), "{diagnostics:?}");
}

#[test]
fn a_directory_out_of_sight_keeps_claims_and_loses_grants() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", SERVER);
    fixture.apply_scan();
    let (batch, diagnostics) = fixture.store.withdraw_grants("gone");
    assert_eq!(batch.changes.iter().map(describe).collect::<Vec<_>>(), ["!Server shop/web"]);
    assert!(!diagnostics.is_empty());
    assert_eq!(fixture.apply_scan().0, ["+Server shop/web"]);
}

#[test]
fn a_link_to_a_directory_that_leads_nowhere_any_more_keeps_claims() {
    let mut fixture = Fixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(elsewhere.path().join("mounted")).unwrap();
    fs::write(elsewhere.path().join("mounted/a.yaml"), format!("{SERVER}---{POLICY}")).unwrap();
    let link = fixture.root.path().join("policies");
    std::os::unix::fs::symlink(elsewhere.path().join("mounted"), link).unwrap();
    assert_eq!(fixture.apply_scan().0, ["+Server shop/web", "+AuthorizationPolicy shop/all"]);
    fs::remove_dir_all(elsewhere.path().join("mounted")).unwrap();
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["!Server shop/web", "!AuthorizationPolicy shop/all"]);
    assert!(diagnostics.iter().any(|d| d.contains("keep what they claim")), "{diagnostics:?}");
}

#[test]
fn a_route_with_a_misspelt_field_permits_nothing_more_than_was_written() {
    let mut fixture = Fixture::new();
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {type: Exact, value: /a}}]}]
";
    fixture.write("a.yaml", route);
    assert_eq!(fixture.apply_scan(), (vec!["+HTTPRoute shop/web".into()], vec![]));
    for (right, wrong) in [("rules:", "rulez:"), ("matches:", "match:"), ("value:", "valeu:")] {
        fixture.write("a.yaml", &route.replace(right, wrong));
        let (changes, diagnostics) = fixture.apply_scan();
        assert_eq!(changes, ["!HTTPRoute shop/web"], "{wrong}");
        assert!(diagnostics[0].contains("did you mean"), "{diagnostics:?}");
        fixture.write("a.yaml", route);
        fixture.apply_scan();
    }
    // A field that is near none may be of a later version.
    fixture.write("a.yaml", &route.replace("  rules:", "  extension: {}\n  rules:"));
    assert_eq!(fixture.apply_scan().0, Vec::<String>::new());
    let others = route.replace("group: policy.linkerd.io, kind: Server", "kind: Gateway");
    fixture.write("a.yaml", &others.replace("rules:", "rulez:"));
    assert_eq!(fixture.apply_scan().0, ["+HTTPRoute shop/web"]);
}

const CHART: &str = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";

#[test]
fn a_chart_is_passed_over_with_one_note_and_its_plain_objects_are_read() {
    let mut fixture = Fixture::new();
    let root = fixture.root.path().to_owned();
    for folder in ["shop/templates", "shop/charts/db/templates", "shop/crds"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fixture.write("shop/Chart.yaml", CHART);
    fixture.write("shop/values.yaml", "replicas: 2\n");
    fixture.write("shop/values-prod.yaml", "replicas: 3\n");
    fixture.write("shop/templates/web.yaml", "{{- if .Values.web }}\nkind: Pod\n{{- end }}\n");
    fixture.write("shop/charts/db/Chart.yaml", CHART);
    fixture.write("shop/charts/db/values.yaml", "a: [\n");
    fixture.write("shop/charts/db/templates/db.yaml", "kind: {{ .Values.kind }}\n");
    fixture.write("shop/crds/plain.yaml", SERVER);
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Server shop/web"]);
    let shop = root.join("shop").display().to_string();
    let note = format!(
        "shop: note: a Helm chart: its values and templates are passed over; `helm template {shop}` \
         renders them"
    );
    assert_eq!(diagnostics, [note.replace(&format!("{}/", root.display()), "")]);
}

#[test]
fn only_beneath_a_chart_are_values_and_templates_passed_over() {
    let mut fixture = Fixture::new();
    fs::create_dir(fixture.root.path().join("templates")).unwrap();
    fixture.write("values.yaml", SERVER);
    fixture.write("templates/a.yaml", "kind: {{ .Values.kind }}\n");
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Server shop/web"], "what has apiVersion and kind is read");
    assert!(diagnostics[0].starts_with("templates/a.yaml:1:"), "{diagnostics:?}");
    assert!(diagnostics[0].contains(": error: "), "{diagnostics:?}");
}

#[test]
fn an_input_inside_a_chart_is_a_part_of_it() {
    let fixture = Fixture::new();
    let root = fixture.root.path();
    fs::create_dir(root.join("templates")).unwrap();
    fixture.write("Chart.yaml", CHART);
    fixture.write("templates/a.yaml", "kind: {{ .Values.kind }}\n");
    for input in ["templates", "templates/a.yaml"] {
        let scan = scan(&[Manifests::Path(root.join(input))], 1_000_000).unwrap();
        assert_eq!(scan.files().count(), 0, "{input}");
        assert_eq!(scan.notes().count(), 1, "{input}");
        assert_eq!(scan.problems().count(), 0, "{input}");
    }
}

#[test]
fn a_kustomization_is_passed_over_with_a_note_and_what_else_has_its_name_is_read() {
    let mut fixture = Fixture::new();
    let root = fixture.root.path().to_owned();
    fs::create_dir(root.join("base")).unwrap();
    fixture.write("base/kustomization.yaml", "resources: [web.yaml]\n");
    fixture.write(
        "kustomization.yml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
    );
    fixture.write("base/web.yaml", SERVER);
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Server shop/web"]);
    assert_eq!(diagnostics.len(), 2, "{diagnostics:?}");
    let base = root.join("base").display().to_string();
    let rendered = format!("`kustomize build {base}`");
    let rendered = rendered.replace(&format!("{}/", root.display()), "");
    assert!(diagnostics[0].contains(&rendered), "{diagnostics:?}");

    fixture.write("base/kustomization.yaml", POLICY);
    assert_eq!(fixture.apply_scan().0, ["+AuthorizationPolicy shop/all"]);
}

#[test]
fn several_inputs_are_read_as_one_and_a_file_of_two_of_them_once() {
    let fixture = Fixture::new();
    fixture.write("a.yaml", SERVER);
    let path = |name: &str| Manifests::Path(fixture.root.path().join(name));
    let text = Manifests::Text { name: "-".into(), bytes: POLICY.as_bytes().into() };
    let inputs = [path("a.yaml"), text, path("")];
    let loaded = load_linting(&inputs, crate::ControllerConfig::default().limits, None).unwrap();
    let keys: Vec<_> = loaded.objects.iter().map(|object| object.meta.key.to_string()).collect();
    assert_eq!(keys, ["Server shop/web", "AuthorizationPolicy shop/all"]);
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(loaded.files.len(), 2);
}

#[test]
fn pods_of_other_kinds_are_read_and_their_errors_name_their_kind() {
    let mut fixture = Fixture::new();
    let rollout =
        DEPLOYMENT.replace("apps/v1", "argoproj.io/v1alpha1").replace("Deployment", "Rollout");
    fixture.write("a.yaml", &rollout);
    assert_eq!(
        fixture.apply_scan(),
        (vec!["+Pod shop/web-0".into(), "+Pod shop/web-1".into()], vec![])
    );
    fixture.write("a.yaml", &rollout.replace("containerPort: 8080", "containerPort: x"));
    let (_, diagnostics) = fixture.apply_scan();
    assert!(diagnostics[0].contains("Rollout shop/web: "), "{diagnostics:?}");
}

#[test]
fn workloads_of_one_name_have_pods_of_different_names() {
    let mut fixture = Fixture::new();
    let rollout =
        DEPLOYMENT.replace("apps/v1", "argoproj.io/v1alpha1").replace("Deployment", "Rollout");
    fixture.write("a.yaml", DEPLOYMENT);
    fixture.write("b.yaml", &rollout);
    let names = ["web-0", "web-1", "web-rollout-0", "web-rollout-1"];
    let expected: Vec<String> = names.iter().map(|name| format!("+Pod shop/{name}")).collect();
    assert_eq!(fixture.apply_scan(), (expected, vec![]));
    // Both declare the same workload.
    fixture.write("b.yaml", DEPLOYMENT);
    let (_, diagnostics) = fixture.apply_scan();
    assert!(diagnostics[0].contains("Pod shop/web-0 is declared twice"), "{diagnostics:?}");
}

#[test]
fn a_pod_beside_its_workload_is_read_once_as_it_is_written() {
    let mut fixture = Fixture::new();
    let stateful = DEPLOYMENT.replace("kind: Deployment", "kind: StatefulSet");
    fixture.write("a.yaml", &stateful);
    fixture.write(
        "b.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-0\n  namespace: shop\n  ownerReferences:\n  \
         - {apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true, uid: a}\n\
         spec: {containers: [{name: a}]}\n",
    );
    let expected = ["+Pod shop/web-0", "+Pod shop/web-1"].map(str::to_owned).to_vec();
    assert_eq!(fixture.apply_scan(), (expected, vec![]));
    // A pod of nobody keeps its name.
    fixture.write(
        "b.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web-0, namespace: shop}\n\
         spec: {containers: [{name: a}]}\n",
    );
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Pod shop/web-0", "+Pod shop/web-statefulset-0"]);
    assert_eq!(diagnostics, [] as [&str; 0]);
}
