//! Tests of decoding and projection, which need no API server.
#![allow(
    clippy::wildcard_enum_match_arm,
    clippy::too_many_lines,
    reason = "a test names what it expects, and lists it"
)]

mod batcher;
mod discovered;
mod faults;
mod reconnect;

use super::api::{ApiError, Lines};
use super::decode::{self, KindVersion, Version, WatchEvent};
use super::projection::{self, ProjectionSeed};
use super::watch::replace;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use policy_crds::{Body, Claims, Kind, Object};
use policy_engine::source::Change;
use proptest::prelude::*;
use serde::de::DeserializeSeed;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

const SERVERS: KindVersion = KindVersion { kind: Kind::Server, version: "v1beta3" };

fn pruned(kind: Kind, text: &str) -> Value {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    ProjectionSeed::new(projection::mask_of(kind)).deserialize(&mut deserializer).unwrap()
}

/// Adds the fields that only the API server writes.
fn lived(mut value: Value) -> Value {
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata
            .insert("managedFields".to_owned(), json!([{"manager": "m", "fieldsV1": {"f": {}}}]));
        metadata.insert("ownerReferences".to_owned(), json!([{"kind": "X", "name": "x"}]));
        metadata.insert("resourceVersion".to_owned(), json!("7"));
    }
    value
}

fn manifests(folder: &Path, found: &mut Vec<Value>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            manifests(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let documents = policy_crds::document::read(&text);
            found.extend(documents.into_iter().filter_map(|document| document.value.ok()));
        }
    }
}

#[test]
fn a_pruned_object_is_parsed_like_the_whole_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut values = Vec::new();
    for folder in ["tests/scenarios", "examples"] {
        if root.join(folder).is_dir() {
            manifests(&root.join(folder), &mut values);
        }
    }
    let mut kinds = HashSet::new();
    for value in values.iter().flat_map(policy_crds::parts) {
        let Ok(object) = policy_crds::parse(&value.value) else { continue };
        let kind = object.meta.key.kind;
        kinds.insert(kind);
        let text = lived(value.value.into_owned()).to_string();
        let whole = match kind.is_for_discovery() {
            true => discovered::as_read(Ok(object)),
            false => Ok(object),
        };
        assert_eq!(policy_crds::parse(&pruned(kind, &text)), whole, "{text}");
    }
    for kind in [Kind::Pod, Kind::Server, Kind::GatewayHttpRoute, Kind::GrpcRoute, Kind::Namespace]
    {
        assert!(kinds.contains(&kind), "no manifest of {kind:?} was found");
    }
}

/// Generates JSON in the shape of the fields that the parser of pods reads, and of some that it does
/// not.
fn pod_part() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-z]{1,3}", Just("10.0.0.1".to_owned()), Just("TCP".to_owned())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..70_000_i64).prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "name",
        "port",
        "ports",
        "containerPort",
        "protocol",
        "httpGet",
        "grpc",
        "tcpSocket",
        "path",
        "scheme",
        "host",
        "httpHeaders",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "preStop",
        "postStart",
        "exec",
        "env",
        "image",
        "containers",
        "initContainers",
        "nodeName",
        "serviceAccountName",
        "serviceAccount",
        "volumes",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "ip",
        "phase",
        "conditions",
        "labels",
        "annotations",
        "deletionTimestamp",
        "creationTimestamp",
        "generation",
        "uid",
        "addresses",
        "address",
        "podCIDR",
        "podCIDRs",
        "namespace",
        "managedFields",
        "ownerReferences",
        "controller",
        "kind",
        "hostNetwork",
        "startTime",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn pods_and_nodes_of_any_shape_are_parsed_like_the_whole_ones(
        metadata in pod_part(), spec in pod_part(), status in pod_part(), node in any::<bool>(),
    ) {
        let kind = if node { Kind::Node } else { Kind::Pod };
        let mut value = json!({
            "apiVersion": "v1", "kind": kind.as_str(), "metadata": metadata, "spec": spec,
            "status": status, "other": 1,
        });
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.insert("name".to_owned(), "x".into());
        }
        let text = value.to_string();
        let whole: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(policy_crds::parse(&pruned(kind, &text)), policy_crds::parse(&whole));
    }

    #[test]
    fn lines_are_the_same_however_they_arrive(
        lines in prop::collection::vec("[a-z ]{0,9}", 0..20), cuts in prop::collection::vec(1..7_usize, 1..60),
    ) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let (mut rest, mut chunks) = (text.as_bytes(), Vec::new());
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, more) = rest.split_at(cut.min(rest.len()));
            chunks.push(Ok::<_, std::io::Error>(Frame::data(Bytes::copy_from_slice(chunk))));
            rest = more;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(async {
            let mut body = Lines::new(StreamBody::new(futures_util::stream::iter(chunks)));
            let mut found = Vec::new();
            while body.more().await.unwrap() {
                while let Some(line) = body.next() {
                    found.push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
                }
            }
            found
        });
        let expected: Vec<String> = lines.into_iter().filter(|l| !l.trim().is_empty()).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn what_policy_does_not_need_of_a_pod_is_not_kept() {
    let text = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "managedFields": [{}], "ownerReferences": [
            {"controller": true, "kind": "Job", "name": "j", "uid": "u"}], "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}},
        "spec": {"hostNetwork": true, "nodeName": "n", "volumes": [{}], "containers": [{"name": "c", "env": [{}],
            "command": ["x"], "ports": [{"containerPort": 1}],
            "livenessProbe": {"periodSeconds": 1, "httpGet": {"port": 1, "httpHeaders": []}}}],
            "initContainers": [{"name": "portcullis-init", "args": ["--skip-inbound-ports=25"],
                "env": [{}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "startTime": "2026-01-31T12:00:00Z",
            "containerStatuses": [{}]},
    });
    let kept = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "annotations": {"a": "b"},
            "ownerReferences": [{"controller": true, "kind": "Job", "name": "j"}]},
        "spec": {"hostNetwork": true, "nodeName": "n", "containers": [
            {"name": "c", "ports": [{"containerPort": 1}], "livenessProbe": {"httpGet": {"port": 1}}}],
            "initContainers": [{"name": "portcullis-init", "args": ["--skip-inbound-ports=25"]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "startTime": "2026-01-31T12:00:00Z"},
    });
    assert_eq!(pruned(Kind::Pod, &text.to_string()), kept);
}

#[test]
fn one_object_that_is_nested_too_deeply_does_not_hide_a_list() {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let list = format!(
        "{{\"metadata\": {{\"resourceVersion\": \"9\", \"continue\": \"\"}}, \"items\": [\
         {{\"metadata\": {{\"name\": \"a\", \"namespace\": \"n\"}}, \"spec\": {{\"x\": {deep}}}}},\
         {{\"metadata\": {{\"name\": \"b\", \"namespace\": \"n\"}}, \"spec\": \
           {{\"podSelector\": {{}}, \"port\": 80}}}}, {{\"metadata\": {{}}}}]}}"
    );
    let page = decode::page(&SERVERS, list.as_bytes()).unwrap();
    let valid = |object: &Object| matches!(object.body, Body::Valid(_));
    let found: Vec<_> = page.objects.iter().map(|o| (o.meta.key.to_string(), valid(o))).collect();
    assert_eq!(found, [("Server n/a".to_owned(), false), ("Server n/b".to_owned(), true)]);
    assert_eq!(page.nameless, 1);
    assert_eq!(page.version.and_then(|v| v.number()), Some(9));
    assert_eq!(page.next, None);
}

#[test]
fn an_object_that_is_not_one_is_invalid_and_claims_what_it_might() {
    let object = SERVERS.object(json!({"metadata": {"name": "A_b", "namespace": "n"}})).unwrap();
    assert_eq!(object.meta.key.to_string(), "Server n/A_b");
    let Body::Invalid(invalid) = object.body else { panic!("it is valid") };
    assert_eq!(invalid.claims, Claims::Server { workloads: None, port: None });
    assert_eq!(invalid.errors[0].field, "metadata.name");
    let other = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let object = SERVERS.object(other).unwrap();
    assert_eq!(object.meta.key.to_string(), "Server default/p");
    assert!(SERVERS.object(json!([])).is_none() && SERVERS.object(json!({})).is_none());
}

#[test]
fn events_say_what_happened_and_up_to_which_version() {
    let read = |json: Value| decode::event(&SERVERS, json.to_string().as_bytes());
    let server = |version: &str| {
        json!({"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
               "metadata": {"name": "s", "namespace": "n", "resourceVersion": version},
               "spec": {"podSelector": {}, "port": 80}})
    };
    let number = |version: Option<Version>| version.and_then(|v| v.number());
    match read(json!({"object": server("5"), "type": "ADDED"})).unwrap() {
        WatchEvent::Added(object, version) => {
            assert!(matches!(object.body, Body::Valid(_)));
            assert_eq!(number(version), Some(5));
        }
        event => panic!("{event:?}"),
    }
    match read(json!({"type": "DELETED", "object": server("6")})).unwrap() {
        WatchEvent::Deleted(key, version) => {
            assert_eq!((key.to_string().as_str(), number(version)), ("Server n/s", Some(6)));
        }
        event => panic!("{event:?}"),
    }
    let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "x7"}}});
    match read(bookmark).unwrap() {
        WatchEvent::Bookmark(Some(version)) => {
            assert_eq!((version.as_str(), version.number()), ("x7", None));
        }
        event => panic!("{event:?}"),
    }
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "ApiError",
        "code": 410, "message": "too old", "reason": "Expired"}});
    for kind in [Kind::Server, Kind::Pod, Kind::Namespace, Kind::Node] {
        let resource = KindVersion { kind, version: "v1" };
        match decode::event(&resource, gone.to_string().as_bytes()).unwrap() {
            WatchEvent::Error(failure) => {
                assert!(failure.is_gone());
                assert_eq!(failure.to_string(), "the API server responded with 410: too old");
            }
            event => panic!("{event:?}"),
        }
    }
    assert!(matches!(
        read(json!({"type": "NEW", "object": {}})).unwrap(),
        WatchEvent::Nameless(None)
    ));
    assert!(matches!(read(json!(["ADDED"])), Err(ApiError::Malformed(_))));
    assert!(decode::event(&SERVERS, b"{\"type\": \"ADDED\"").is_err());
}

pub(super) fn server(name: &str) -> Object {
    let value = json!({"metadata": {"name": name, "namespace": "n"},
                       "spec": {"podSelector": {}, "port": 80}});
    SERVERS.object(value).unwrap()
}

#[test]
fn a_list_tells_what_is_gone_together_with_what_there_is() {
    let mut keys = HashSet::new();
    let apply = |name: &str| Change::Apply(Arc::new(server(name)));
    let delete = |name: &str| Change::Delete(server(name).meta.key);
    assert_eq!(replace(&mut keys, vec![server("a"), server("b")]), [apply("a"), apply("b")]);
    let changes = replace(&mut keys, vec![server("c"), server("b")]);
    assert_eq!(changes, [delete("a"), apply("c"), apply("b")]);
    assert_eq!(replace(&mut keys, vec![]), [delete("b"), delete("c")]);
    assert_eq!(replace(&mut keys, vec![]), []);
}
