//! Claims that stay although their declaration breaks, loses its place or is passed over.

use super::*;

/// The port of a Server that grants nothing.
fn claimed_port(fixture: &Fixture, name: &str) -> Option<u16> {
    let Body::Invalid(server) = fixture.body(Kind::Server, name) else { panic!() };
    let Claims::Server { port, .. } = server.claims else { panic!() };
    match port? {
        policy_crds::resource::PortRef::Number(port) => Some(port.get()),
        policy_crds::resource::PortRef::Name(_) => None,
    }
}

#[test]
fn a_kustomization_takes_no_manifest_of_another_folder_away() {
    let mut fixture = Fixture::new();
    for folder in ["policy", "team"] {
        fs::create_dir(fixture.root.path().join(folder)).unwrap();
    }
    fixture.write("policy/server.yaml", SERVER);
    fixture.write("policy/all.yaml", POLICY);
    fixture.apply_scan();
    fixture.write(
        "team/kustomization.yaml",
        "patches: [{path: ../policy/server.yaml}]\n\
         configMapGenerator: [{name: a, files: [../policy/all.yaml]}]\n",
    );
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, [] as [&str; 0]);
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
}

#[test]
fn a_manifest_that_becomes_a_part_of_a_kustomization_keeps_its_claims() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", SERVER);
    fixture.apply_scan();
    fixture.write("kustomization.yaml", "patches: [{path: a.yaml}]\n");
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["!Server shop/web"]);
    let note = |text: &String| text.starts_with("a.yaml: note: a part of a kustomization");
    assert!(diagnostics.iter().any(note), "{diagnostics:?}");
    assert!(diagnostics.iter().any(|d| d.contains("keep what they claim")), "{diagnostics:?}");
    assert_eq!(fixture.apply_scan().0, [] as [&str; 0], "they stay");
    // A resource is a manifest.
    fixture.write("kustomization.yaml", "resources: [a.yaml]\npatches: [{path: a.yaml}]\n");
    assert_eq!(fixture.apply_scan().0, ["+Server shop/web"]);
}

#[test]
fn an_input_that_is_a_part_of_a_kustomization_is_read() {
    let fixture = Fixture::new();
    fixture.write("a.yaml", SERVER);
    fixture.write("kustomization.yaml", "patches: [{path: a.yaml}]\n");
    let root = fixture.root.path();
    let inputs = [root.join("a.yaml"), root.to_owned()].map(Manifests::Path);
    assert_eq!(scan(&inputs, 1_000_000).unwrap().files().count(), 1);
    assert_eq!(scan(&inputs[1..], 1_000_000).unwrap().files().count(), 0);
}

#[test]
fn an_invalid_workload_takes_no_pod_of_another_that_has_its_name() {
    let mut fixture = Fixture::new();
    let stateful = DEPLOYMENT.replace("kind: Deployment", "kind: StatefulSet");
    let one = |text: &str| text.replace("replicas: 2", "replicas: 1");
    fixture.write("a.yaml", &one(DEPLOYMENT));
    fixture.write("b.yaml", &one(&stateful));
    // The pods of a StatefulSet have these names in a cluster.
    assert_eq!(fixture.apply_scan().0, ["+Pod shop/web-0", "+Pod shop/web-deployment-0"]);
    let deployments = fixture.body(Kind::Pod, "web-deployment-0");
    fixture.write("b.yaml", &one(&stateful).replace("containerPort: 8080", "containerPort: x"));
    assert_eq!(fixture.apply_scan().0, ["+Pod shop/web-0"]);
    assert_eq!(fixture.body(Kind::Pod, "web-deployment-0"), deployments);
    let Body::Valid(Resource::Pod(pod)) = fixture.body(Kind::Pod, "web-0") else { panic!() };
    assert_eq!(pod.owner.as_deref(), Some("statefulset/web"));
    assert!(pod.probes.is_empty(), "a tombstone");
}

#[test]
fn a_declaration_that_breaks_keeps_its_claims_beside_another_of_its_name() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", SERVER);
    fixture.write("b.yaml", &SERVER.replace("8080", "9090"));
    fixture.apply_scan();
    assert_eq!(claimed_port(&fixture, "web#2"), Some(9090));
    fixture.write("a.yaml", "kind: [");
    fixture.apply_scan();
    assert!(matches!(fixture.body(Kind::Server, "web"), Body::Valid(_)));
    assert_eq!(claimed_port(&fixture, "web#2"), Some(8080));
    // Where the other claims the same, nothing is lost.
    fixture.write("b.yaml", SERVER);
    assert_eq!(fixture.apply_scan().0, ["-Server shop/web#2", "+Server shop/web"]);
}

#[test]
fn two_declarations_of_a_file_that_breaks_keep_both_claims() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &format!("{SERVER}---{}", SERVER.replace("8080", "9090")));
    fixture.apply_scan();
    for text in ["kind: [", "kind: [ still"] {
        fixture.write("a.yaml", text);
        fixture.apply_scan();
        assert_eq!(claimed_port(&fixture, "web"), Some(8080));
        assert_eq!(claimed_port(&fixture, "web#2"), Some(9090));
    }
}

#[test]
fn a_further_declaration_takes_nothing_from_the_first() {
    let mut fixture = Fixture::new();
    let of = |time: &str, rest: &str| {
        let metadata = format!("namespace: shop, creationTimestamp: '{time}', {rest}}}");
        SERVER.replace("namespace: shop}", &metadata)
    };
    fixture.write("a.yaml", &of("2026-01-31T12:00:00Z", "uid: a"));
    // Metadata that policy does not read makes no difference.
    fixture.write("b.yaml", &of("2026-01-01T12:00:00Z", "uid: b"));
    assert_eq!(fixture.apply_scan().0, ["+Server shop/web"]);
    fixture.write("b.yaml", &of("2026-01-01T12:00:00Z", "uid: b").replace("8080", "9090"));
    assert_eq!(fixture.apply_scan().0, ["!Server shop/web#2"]);
    let created: Vec<_> = fixture.store.objects().map(|object| object.meta.created).collect();
    assert_eq!((created.len(), created[0]), (2, created[1]));
    fixture.write(
        "b.yaml",
        &of("2026-01-01T12:00:00Z", "annotations: {portcullis.dev/path-normalization: raw}"),
    );
    assert_eq!(fixture.apply_scan().0, ["!Server shop/web#2"], "policy reads this annotation");
}

#[test]
fn what_a_kustomization_patches_with_is_no_manifest() {
    let mut fixture = Fixture::new();
    for folder in ["base", "overlay", "overlay/patches"] {
        fs::create_dir(fixture.root.path().join(folder)).unwrap();
    }
    fixture.write("base/kustomization.yaml", "resources: [web.yaml]\n");
    fixture.write("base/web.yaml", SERVER);
    fixture.write(
        "overlay/kustomization.yaml",
        "resources: [../base]\n\
         patches: [{path: patches/port.yaml}, {path: ops.json, target: {kind: Server}}, {patch: \"[]\"}]\n\
         patchesStrategicMerge: [replicas.yaml]\n\
         configMapGenerator: [{name: a, files: [app.json=data.json]}]\n",
    );
    fixture.write("overlay/patches/port.yaml", "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web}\nspec: {port: 1}\n");
    fixture.write("overlay/ops.json", "[{\"op\": \"remove\", \"path\": \"/spec/port\"}]");
    fixture.write("overlay/replicas.yaml", "kind: Deployment\nspec: {replicas: 2}\n");
    fixture.write("overlay/data.json", "{\"a\": 1}");
    let (changes, diagnostics) = fixture.apply_scan();
    assert_eq!(changes, ["+Server shop/web"]);
    let notes = |about: &str| diagnostics.iter().filter(|text| text.contains(about)).count();
    assert_eq!(notes(": note: a kustomization is passed over"), 2, "{diagnostics:?}");
    assert_eq!(notes(": note: a part of a kustomization"), 4, "each is named: {diagnostics:?}");
    assert_eq!(diagnostics.len(), 6, "{diagnostics:?}");
}
