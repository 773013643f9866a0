//! Fields that no schema has: `check`, `up`'s reader and `inject` find them in every kind, and say what an
//! API server makes of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use policy_crds::document;
use policy_crds::unknown::{join_index, join_key};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Mappings whose keys are free.
const FREE: [&str; 8] =
    ["labels", "annotations", "matchLabels", "data", "set", "add", "selector", "nodeSelector"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The documents of a file whose kind is read.
fn documents(path: &Path) -> Vec<Value> {
    let documents = document::read_bytes(&fs::read(path).unwrap()).into_iter();
    let values: Vec<Value> = documents.map(|document| document.value.unwrap()).collect();
    let parts = values.iter().flat_map(policy_crds::parts).map(|part| part.value.into_owned());
    parts.filter(|value| policy_crds::parse(value).is_ok()).collect()
}

/// The valid objects that this repository shows.
fn examples() -> Vec<Value> {
    let mut found = documents(&root().join("crds/tests/rules/good.yaml"));
    for folder in fs::read_dir(root().join("examples")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            let is_manifest = file.extension().is_some_and(|extension| extension == "yaml");
            if is_manifest && !file.ends_with("expectations.yaml") {
                found.extend(documents(&file));
            }
        }
    }
    found
}

/// The findings of `check` in these texts, by the number of the text: severity, field and message.
fn check(texts: &[String]) -> BTreeMap<usize, Vec<[String; 3]>> {
    let folder = tempfile::tempdir().unwrap();
    for (number, text) in texts.iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.yaml")), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.args(["check", "-o", "json"]).arg(folder.path()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found: BTreeMap<usize, Vec<[String; 3]>> = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        let Some(file) = finding["file"].as_str() else { continue };
        let number = Path::new(file).file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        let line = [text("severity"), text("field"), text("message")];
        found.entry(number).or_default().push(line);
    }
    found
}

/// An object with one of its fields renamed, the path of the field, and its old path.
struct Renamed {
    object: Value,
    field: String,
    before: String,
}

/// Every object that results from renaming one field by one letter.
fn renamed(object: &Value) -> Vec<Renamed> {
    let mut places = Vec::new();
    mappings(object, "", "", &mut places);
    let mut found = Vec::new();
    for (pointer, path) in places {
        let keys: Vec<String> = map_at(object, &pointer).keys().cloned().collect();
        for key in keys {
            let new = format!("{key}q");
            let mut object = object.clone();
            let map = object.pointer_mut(&pointer).unwrap().as_object_mut().unwrap();
            let value = map.remove(&key).unwrap();
            map.insert(new.clone(), value);
            let (field, before) = (join_key(&path, &new), join_key(&path, &key));
            found.push(Renamed { object, field, before });
        }
    }
    found
}

fn map_at<'a>(object: &'a Value, pointer: &str) -> &'a Map<String, Value> {
    object.pointer(pointer).unwrap().as_object().unwrap()
}

/// The mappings whose fields have names of a schema, by pointer and path.
fn mappings(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            found.push((pointer.to_owned(), path.to_owned()));
            for (key, value) in map {
                let plain = value.as_object().is_some_and(|map| {
                    !map.contains_key("matchLabels") && map.values().all(Value::is_string)
                });
                if FREE.contains(&key.as_str()) && plain {
                    continue;
                }
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                mappings(value, &pointer, &join_key(path, key), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                // In SMI the names of headers are the fields.
                if path.ends_with(".headers") && item.get("name").is_none() {
                    continue;
                }
                let pointer = format!("{pointer}/{index}");
                mappings(item, &pointer, &join_index(path, index), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_field_of_every_example_is_found_when_one_letter_of_it_is_wrong() {
    let all: Vec<Renamed> = examples().iter().flat_map(renamed).collect();
    assert!(all.len() > 1000, "{}", all.len());
    let texts: Vec<String> = all.iter().map(|one| one.object.to_string()).collect();
    let found = check(&texts);
    let mut missed = Vec::new();
    for (number, Renamed { object, field, before }) in all.iter().enumerate() {
        // An object without a name or a kind is reported by what it lacks.
        let tells = |[severity, about, _]: &[String; 3]| {
            about == field || (severity == "error" && about == before)
        };
        if !found.get(&number).is_some_and(|lines| lines.iter().any(tells)) {
            missed.push(format!("{} {field}", object["kind"]));
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn no_example_has_an_unknown_field() {
    let texts: Vec<String> = examples().iter().map(Value::to_string).collect();
    let found = check(&texts);
    let unknown = found.into_values().flatten().filter(|[_, _, message]| {
        message.starts_with("unknown field") || message.contains("nothing here acts on")
    });
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<[String; 3]>::new());
}

const DROPS: &str = "An API server drops it";

/// A manifest, what it is misspelt in, and the finding: severity, field, name that was meant, effect.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// Objects begin with their kind; `$` stands for the beginning of every route.
const ROWS: &[Row] = &[
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {rulez: []}}",
        "error",
        "spec.rulez",
        "rules",
        "the route then matches every request",
    ),
    (
        "gateway.networking.k8s.io/v1 GRPCRoute {spec: {rulez: []}}",
        "error",
        "spec.rulez",
        "rules",
        "the route then matches no request",
    ),
    (
        "policy.linkerd.io/v1beta3 HTTPRoute {spec: {rulez: []}}",
        "error",
        "spec.rulez",
        "rules",
        "the route then matches every request",
    ),
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {hostname: [a.example]}}",
        "error",
        "spec.hostname",
        "hostnames",
        "the route is then for every host",
    ),
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {parentRef: []}}",
        "error",
        "spec.parentRef",
        "parentRefs",
        "the route is then attached to nothing",
    ),
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {rules: [{match: []}]}}",
        "error",
        "spec.rules[0].match",
        "matches",
        "the rule then matches every request",
    ),
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {rules: [{filter: []}]}}",
        "error",
        "spec.rules[0].filter",
        "filters",
        "requests then pass without these filters",
    ),
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {rules: [{matches: [{header: []}]}]}}",
        "error",
        "spec.rules[0].matches[0].header",
        "headers",
        "the match then asks for no header",
    ),
    (
        "gateway.networking.k8s.io/v1 GRPCRoute {spec: {rules: [{matches: [{headrs: []}]}]}}",
        "error",
        "spec.rules[0].matches[0].headrs",
        "headers",
        "the match then asks for no header",
    ),
    (
        "gateway.networking.k8s.io/v1 HTTPRoute {spec: {rules: [{backendRefs: [{name: a, port: 1, \
         filter: []}]}]}}",
        "error",
        "spec.rules[0].backendRefs[0].filter",
        "filters",
        "",
    ),
    (
        "gateway.networking.k8s.io/v1 ReferenceGrant {spec: {from: [{group: g, kind: K, namespace: \
         n}], to: [{group: g, kind: K, nam: x}]}}",
        "error",
        "spec.to[0].nam",
        "name",
        "the grant then offers every object of the kind",
    ),
    (
        "policy.linkerd.io/v1beta3 Server {spec: {port: 80, podSelector: {matchLables: {a: b}}}}",
        "error",
        "spec.podSelector.matchLables",
        "matchLabels",
        "the selector is then empty and selects everything",
    ),
    (
        "policy.linkerd.io/v1alpha1 NetworkAuthentication {spec: {networks: [{cidr: 10.0.0.0/8, \
         excepts: [10.1.0.0/16]}]}}",
        "error",
        "spec.networks[0].excepts",
        "except",
        "the whole network then counts",
    ),
    (
        "portcullis.dev/v1alpha1 HttpRouteGroup {spec: {routes: [{path: /a, method: [GET]}]}}",
        "error",
        "spec.routes[0].method",
        "methods",
        "the route then matches every method",
    ),
    (
        "v1 Service {spec: {selectr: {a: b}}}",
        "error",
        "spec.selectr",
        "selector",
        "the Service then selects no pods",
    ),
    (
        "v1 Pod {spec: {containers: [{name: a, port: [{containerPort: 80}]}]}}",
        "error",
        "spec.containers[0].port",
        "ports",
        "the container then declares no ports",
    ),
    (
        "apps/v1 Deployment {spec: {template: {metadata: {lables: {a: b}}, spec: {containers: \
         [{name: a}]}}}}",
        "error",
        "spec.template.metadata.lables",
        "labels",
        "no selector then finds the pods by these labels",
    ),
    (
        "batch/v1 CronJob {spec: {jobTemplate: {spec: {template: {spec: {serviceAcountName: a, \
         containers: [{name: a}]}}}}}}",
        "error",
        "spec.jobTemplate.spec.template.spec.serviceAcountName",
        "serviceAccountName",
        "the pods then run as the ServiceAccount `default`",
    ),
    ("v1 Namespace {spec: {finalizer: []}}", "error", "spec.finalizer", "finalizers", ""),
    ("apps/v1 StatefulSet {spec: {replica: 2}}", "error", "spec.replica", "replicas", ""),
    ("gateway.networking.k8s.io/v1 HTTPRoute {spec: {tier: 1}}", "warning", "spec.tier", "", ""),
    ("v1 Pod {spec: {containers: [], qqqqqqqqq: 1}}", "warning", "spec.qqqqqqqqq", "", ""),
];

#[test]
fn a_misspelt_field_is_reported_with_what_is_lost_when_it_is_dropped() {
    let text = |(number, (object, ..)): (usize, &Row)| {
        let (api, rest) = object.split_once(' ').unwrap();
        let (kind, rest) = rest.split_once(' ').unwrap();
        let rest = rest.strip_prefix('{').unwrap();
        format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: o{number}}}, {rest}")
    };
    let texts: Vec<String> = ROWS.iter().enumerate().map(text).collect();
    let found = check(&texts);
    for (number, (object, severity, field, near, loss)) in ROWS.iter().enumerate() {
        let about = match *near {
            "" => "unknown field; an API server drops it".to_owned(),
            near => format!("unknown field, did you mean `{near}`? {DROPS}"),
        };
        let about = if loss.is_empty() { about } else { format!("{about}: {loss}") };
        let expected = [(*severity).to_owned(), (*field).to_owned(), about];
        let unknown: Vec<_> =
            found[&number].iter().filter(|line| line[2].starts_with("unknown")).collect();
        assert_eq!(unknown, [&expected], "{object}");
    }
}

#[test]
fn a_known_field_without_effect_is_a_note() {
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\n\
                 spec: {useDefaultGateways: All, rules: [{retry: {attempts: 2}, sessionPersistence: \
                 {type: Cookie}}]}\n";
    let found = check(&[route.to_owned()]);
    let notes = found[&0].iter().filter(|[severity, ..]| severity == "note");
    let fields: Vec<&str> = notes.map(|[_, field, _]| field.as_str()).collect();
    let expected =
        ["spec.useDefaultGateways", "spec.rules[0].retry", "spec.rules[0].sessionPersistence"];
    assert_eq!(fields.iter().copied().collect::<std::collections::BTreeSet<_>>(), expected.into());
    assert!(!found[&0].iter().any(|[_, _, message]| message.starts_with("unknown")), "{found:?}");
}

#[test]
fn what_is_misspelt_in_a_template_of_a_kind_that_is_not_read_is_reported() {
    let rollout = |metadata: &str, containers: &str| {
        format!(
            "{{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {{name: web}}, spec: \
             {{template: {{metadata: {metadata}, spec: {{containers: [{containers}]}}}}}}}}"
        )
    };
    let texts = [
        rollout("{lables: {app: web}}", "{name: a}"),
        rollout("{labels: {app: web}}", "{name: a, port: [{containerPort: 80}]}"),
        rollout("{annotations: {config.linkerd.io/default-inbound-polcy: deny}}", "{name: a}"),
    ];
    let found = check(&texts);
    let annotation =
        "spec.template.metadata.annotations[\"config.linkerd.io/default-inbound-polcy\"]";
    for (number, (field, near)) in [
        ("spec.template.metadata.lables", "`labels`?"),
        ("spec.template.spec.containers[0].port", "`ports`?"),
        (annotation, "`config.linkerd.io/default-inbound-policy`?"),
    ]
    .into_iter()
    .enumerate()
    {
        let is_it = |[severity, about, message]: &&[String; 3]| {
            severity == "error"
                && about == field
                && message.starts_with("Rollout default/web: ")
                && message.contains(near)
        };
        assert_eq!(found[&number].iter().filter(is_it).count(), 1, "{field}: {:?}", found[&number]);
    }
}

#[test]
fn an_annotation_that_nothing_reads_is_an_error_where_it_is_misspelt() {
    let meta = |kind: &str, annotations: &str| {
        format!("{{apiVersion: v1, kind: {kind}, metadata: {{name: shop, {annotations}}}}}")
    };
    let deny = "config.linkerd.io/default-inbound-policy: deny";
    let texts = [
        meta("Namespace", "annotations: {config.linkerd.io/default-inbound-polcy: deny}"),
        meta("Namespace", "annotations: {policy.portcullis.dev/default-allow: deny}"),
        meta("Namespace", &format!("labels: {{{deny}}}")),
        meta("ServiceAccount", &format!("annotations: {{{deny}}}")),
        meta("Namespace", &format!("annotations: {{{deny}}}")),
    ];
    let found = check(&texts);
    let severities: Vec<Vec<&str>> = (0..texts.len())
        .map(|number| {
            let lines = found.get(&number).into_iter().flatten();
            let about = lines.filter(|line| line[2].starts_with("nothing reads"));
            about.map(|line| line[0].as_str()).collect()
        })
        .collect();
    let expected: [&[&str]; 5] = [&["error"], &["error"], &["error"], &["warning"], &[]];
    assert_eq!(severities, expected);
}

#[test]
fn inject_warns_of_unknown_fields_on_standard_error_alone() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replica: 2\n  \
                template:\n    spec: {containers: [{name: web, image: w}]}\n---\n\
                apiVersion: v1\nkind: ReplicationController\nmetadata: {name: old}\n\
                spec: {replca: 1, template: {spec: {containers: [{name: web, image: w}]}}}\n";
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("web.yaml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.current_dir(folder.path()).args(["inject", "web.yaml"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let warned: Vec<&str> = errors.lines().filter(|line| line.contains("unknown field")).collect();
    let expected = [
        "web.yaml:5:12: warning: spec.replica: unknown field, did you mean `replicas`? An API server \
         drops it",
        "web.yaml:12:16: warning: spec.replca: unknown field, did you mean `replicas`? An API server \
         drops it",
    ];
    assert_eq!(warned, expected);
    let written = String::from_utf8(output.stdout).unwrap();
    assert!(written.contains("replica: 2") && !written.contains("unknown"), "{written}");
}
