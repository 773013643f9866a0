//! The definitions that a cluster is given, and what its API server then lets through, against what
//! the parser says of the same objects.

mod changes;

use futures_util::stream::{self, StreamExt as _};
use policy_crds::{Body, Kind, Object, document, parse};
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip};
use policy_tests::sources::root;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Number of requests at a time.
const AT_ONCE: usize = 16;

/// Creates an object, unknown fields being errors; returns it as the API server has it.
async fn create(client: &kube::Client, object: &Value, dry_run: bool) -> Result<Value, String> {
    let mut path = path_of(object, version_of(object));
    path.push_str("?fieldValidation=Strict");
    if dry_run {
        path.push_str("&dryRun=All");
    }
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object).unwrap())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(created) => Ok(created),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{object}: {error}"),
    }
}

/// The object as a version of its kind.
async fn read(client: &kube::Client, object: &Value, version: &str) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap();
    let path = format!("{}/{name}", path_of(object, version));
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

fn path_of(object: &Value, version: &str) -> String {
    let kind = kind_of(object).unwrap();
    let (group, plural) = (kind.group(), kind.plural());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/apis/{group}/{version}/{plural}"),
    }
}

fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap().split_once('/').unwrap().1
}

/// The kind of a custom resource; absent: another kind of object.
fn kind_of(object: &Value) -> Option<Kind> {
    let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
    let kind = Kind::find(group, object["kind"].as_str()?)?;
    group.contains('.').then_some(kind)
}

fn is_ours(kind: Kind) -> bool {
    kind.spec().is_defined_here()
}

/// The custom resources of a text, those in namespaces moved into `namespace`.
fn resources(text: &str, namespace: &str) -> Vec<Value> {
    let documents = document::read(text).into_iter().filter_map(|document| document.value.ok());
    let resources = documents.filter(|value| kind_of(value).is_some());
    resources
        .map(|mut value| {
            if kind_of(&value).is_some_and(Kind::is_namespaced) {
                value["metadata"]["namespace"] = json!(namespace);
            }
            // Gateway API serves v1 from 1.5 on, with the same schema.
            if kind_of(&value) == Some(Kind::ReferenceGrant) {
                value["apiVersion"] = json!("gateway.networking.k8s.io/v1beta1");
            }
            value
        })
        .collect()
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

/// Every custom resource of the repository's manifests, with the file it is in.
fn manifests(namespace: &str) -> Vec<(PathBuf, Value)> {
    let mut files = vec![root().join("crds/tests/rules/good.yaml")];
    yaml_files(&root().join("tests/scenarios"), &mut files);
    yaml_files(&root().join("examples"), &mut files);
    files.sort();
    let mut manifests = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let found = resources(&text, namespace);
        manifests.extend(found.into_iter().map(|value| (file.clone(), value)));
    }
    manifests
}

fn is_valid(object: &Value) -> bool {
    matches!(parse(object), Ok(Object { body: Body::Valid(_), .. }))
}

fn body(object: &Value) -> Body {
    parse(object).unwrap().body
}

/// Conditions of definitions that are not as they should be.
async fn definitions_not_in_order(objects: &Objects, folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    yaml_files(&root().join("crds/yaml").join(folder), &mut files);
    let files: BTreeSet<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
    let mut wrong = Vec::new();
    for file in files {
        let path = root().join("crds/yaml").join(folder).join(file);
        let definition = resources_of_any_kind(&path);
        let found = objects.get(&definition).await.unwrap().unwrap();
        let conditions: BTreeMap<&str, &str> = found["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
            .collect();
        // A NonStructuralSchema, KubernetesAPIApprovalPolicyConformant or Terminating would be here.
        if conditions != BTreeMap::from([("Established", "True"), ("NamesAccepted", "True")]) {
            wrong.push(format!("{}: {}", path.display(), found["status"]));
        }
        let stored = &found["status"]["storedVersions"];
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let storage = versions.iter().find(|version| version["storage"] == true).unwrap();
        if *stored != json!([storage["name"]]) {
            wrong.push(format!("{}: stored as {stored}", path.display()));
        }
    }
    wrong
}

fn resources_of_any_kind(path: &Path) -> Value {
    let mut documents = document::read(&fs::read_to_string(path).unwrap());
    documents.remove(0).value.unwrap()
}

#[tokio::test]
async fn our_definitions_are_established_as_they_are_written() {
    let Some(cluster) = crate::shared().await else { return };
    assert_eq!(definitions_not_in_order(&cluster.objects(), "").await, [""; 0]);
}

#[tokio::test]
async fn linkerds_definitions_are_established_and_ours_take_their_place_with_the_objects_kept() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_linkerd_crds().await.unwrap();
    assert_eq!(definitions_not_in_order(&cluster.objects(), "linkerd").await, [""; 0]);
    let namespace = cluster.namespace("kept").await.unwrap();
    let client = cluster.client();
    let good = fs::read_to_string(root().join("crds/tests/rules/good.yaml")).unwrap();
    let ours = |object: &Value| kind_of(object).is_some_and(is_ours);
    let own = |object: &Value| kind_of(object).is_some_and(|kind| kind.group() == "portcullis.dev");
    let objects = resources(&good, &namespace).into_iter().filter(ours);
    let (new, mut kept): (Vec<Value>, Vec<Value>) = objects.partition(own);
    for object in &kept {
        create(&client, object, false).await.unwrap();
    }
    assert!(kept.len() >= 10, "{}", kept.len());
    cluster.install_crds().await.unwrap();
    // Linkerd has no such kinds.
    for object in &new {
        create(&client, object, false).await.unwrap();
    }
    kept.extend(new);
    assert_eq!(definitions_not_in_order(&cluster.objects(), "").await, [""; 0]);
    for object in kept {
        let found = read(&client, &object, version_of(&object)).await;
        assert_eq!(body(&found), body(&object), "{object}");
    }
}

#[tokio::test]
async fn what_the_parser_calls_valid_is_admitted_and_means_the_same_afterwards() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("valid").await.unwrap();
    let client = cluster.client();
    // The definitions of SMI are those of others, and `smi` installs them.
    let is_smi = |kind: Kind| kind.group().ends_with(".smi-spec.io");
    let is_meant = |object: &Value| is_valid(object) && !kind_of(object).is_some_and(is_smi);
    let valid: Vec<_> =
        manifests(&namespace).into_iter().filter(|(_, object)| is_meant(object)).collect();
    assert!(valid.len() > 150, "{}", valid.len());
    let kinds: BTreeSet<Kind> = valid.iter().filter_map(|(_, object)| kind_of(object)).collect();
    let defined = Kind::ALL.into_iter().filter(|kind| kind.group().contains('.') && !is_smi(*kind));
    assert_eq!(kinds, defined.collect());
    let asked = stream::iter(valid).map(|(file, object)| {
        let client = client.clone();
        async move {
            let file = file.display();
            match create(&client, &object, true).await {
                Err(message) => Some(format!("{file}: refused: {message}")),
                // The defaults of the schema are those of the parser.
                Ok(created) if body(&created) != body(&object) => {
                    Some(format!("{file}: {object}\nis read as {created}"))
                }
                Ok(_) => None,
            }
        }
    });
    let wrong: Vec<String> =
        asked.buffer_unordered(AT_ONCE).filter_map(async |wrong| wrong).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn what_the_schema_refuses_the_parser_refuses_and_what_it_is_laxer_about_is_known() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("laxer").await.unwrap();
    let client = cluster.client();
    let good = fs::read_to_string(root().join("crds/tests/rules/good.yaml")).unwrap();
    let ours = |object: &Value| kind_of(object).is_some_and(is_ours);
    let mut cases = Vec::new();
    for object in resources(&good, &namespace).iter().filter(|object| ours(object)) {
        cases.extend(changes::of(object));
    }
    assert!(cases.len() > 1_000, "{}", cases.len());
    let asked = stream::iter(cases).map(|case| {
        let client = client.clone();
        async move {
            let admitted = create(&client, &case.object, true).await;
            (case, admitted)
        }
    });
    let mut stricter = BTreeSet::new();
    let mut changed = Vec::new();
    let mut laxer: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (case, admitted) in asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match (is_valid(&case.object), admitted) {
            (true, Err(message)) => {
                stricter.insert((case.field, case.value, message));
            }
            // An empty list stays an empty list, and an absent field an absent one.
            (true, Ok(created)) if body(&created) != body(&case.object) => {
                changed.push(format!(
                    "{} {}: {}\nis read as {created}",
                    case.field, case.value, case.object
                ));
            }
            // Refused by the parser, and stored by the API server as it is.
            (false, Ok(created)) if !is_valid(&created) => {
                laxer.entry(case.field).or_default().insert(case.value);
            }
            _ => {}
        }
    }
    stricter.retain(|(field, value, _)| !only_in_files(field, value));
    assert!(stricter.is_empty(), "{stricter:#?}");
    assert!(changed.is_empty(), "{}", changed.join("\n\n"));
    let mut found = String::new();
    for (field, values) in laxer {
        let values: Vec<String> = values.into_iter().collect();
        found.push_str(&format!("{field}: {}\n", values.join(" ")));
    }
    let known = fs::read_to_string(root().join("tests/tests/cluster/crds/laxer.txt")).unwrap();
    assert!(found == known, "tests/tests/cluster/crds/laxer.txt is not what was found:\n{found}");
}

/// True for values that the parser reads and no API server lets through, so that only a file can have
/// them: an empty namespace of a reference is the object's own, and a parent of an impossible kind is
/// another controller's.
fn only_in_files(field: &str, value: &str) -> bool {
    match field {
        "HTTPLocalRateLimitPolicy v1alpha1 spec.overrides.0.clientRefs.0.namespace"
        | "ServerAuthorization v1beta1 spec.client.meshTLS.serviceAccounts.0.namespace" => {
            value == r#""""#
        }
        "HTTPRoute v1beta3 spec.parentRefs.0.kind" => true,
        _ => false,
    }
}

/// One object per version that is served, with nothing in it that another version lacks; of a kind
/// with one version, its examples.
fn in_every_version(namespace: &str) -> Vec<(Kind, Value)> {
    let specs = [
        (Kind::Server, "{podSelector: {matchLabels: {a: b}}, port: http, proxyProtocol: HTTP/1}"),
        (
            Kind::ServerAuthorization,
            "{server: {name: a}, client: {unauthenticated: true, networks: [{cidr: 10.0.0.0/8}]}}",
        ),
        (
            Kind::PolicyHttpRoute,
            "{parentRefs: [{group: policy.linkerd.io, kind: Server, name: a}], rules: [{matches: [{path: {value: /a}}]}]}",
        ),
    ];
    let good = fs::read_to_string(root().join("crds/tests/rules/good.yaml")).unwrap();
    let examples = resources(&good, namespace).into_iter();
    let examples = examples.filter_map(|value| kind_of(&value).map(|kind| (kind, value)));
    let only = |kind: Kind| is_ours(kind) && kind.versions().len() == 1;
    let mut objects: Vec<(Kind, Value)> = examples.filter(|(kind, _)| only(*kind)).collect();
    for (kind, spec) in specs {
        for version in kind.versions() {
            objects.push((kind, object(kind, version, namespace, spec)));
        }
    }
    for (version, mesh) in [("v1alpha1", "meshTls"), ("v1beta1", "meshTLS")] {
        let spec = format!(
            "{{{mesh}: {{identity: a.b, serverName: a.b}}, ports: [{{port: 80}}], workloadIPs: [{{ip: 192.0.2.1}}]}}"
        );
        let kind = Kind::ExternalWorkload;
        objects.push((kind, object(kind, version, namespace, &spec)));
    }
    objects
}

fn object(kind: Kind, version: &str, namespace: &str, spec: &str) -> Value {
    let text = format!(
        "apiVersion: {}/{version}\nkind: {}\nmetadata: {{name: {version}, namespace: {namespace}}}\nspec: {spec}\n",
        kind.group(),
        kind.as_str()
    );
    document::read(&text).remove(0).value.unwrap()
}

#[tokio::test]
async fn every_served_version_is_written_and_reads_back() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("versions").await.unwrap();
    let client = cluster.client();
    let objects = in_every_version(&namespace);
    let kinds: BTreeSet<Kind> = objects.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, Kind::ALL.into_iter().filter(|kind| is_ours(*kind)).collect());
    // One of the cluster would count for other tests; it is written where Linkerd's definitions are
    // replaced.
    for (kind, object) in objects.into_iter().filter(|(kind, _)| kind.is_namespaced()) {
        assert!(is_valid(&object), "{object}");
        create(&client, &object, false).await.unwrap();
        let written = version_of(&object);
        for version in kind.versions() {
            let found = read(&client, &object, version).await;
            let spelt_differently = [written, version].contains(&"v1alpha1");
            if kind == Kind::ExternalWorkload && spelt_differently {
                // The versions spell a field differently, and nothing converts between them: the
                // object stands for nobody.
                assert!(!is_valid(&found), "{found}");
            } else {
                assert_eq!(body(&found), body(&object), "{kind:?} {written} as {version}");
            }
        }
    }
}
