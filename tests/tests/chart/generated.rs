//! The chart's `files`, which are made from the code: RBAC rules, webhooks, definitions, policies.
//! `PORTCULLIS_WRITE_CHART=1 cargo test -p policy-tests --test chart` writes them anew.

use policy_kube::rbac;
use policy_tests::sources::root;
use policy_webhooks::admission;
use policy_webhooks::admission::{Installation, Target, WEBHOOK_CONFIGURATION};
use policy_webhooks::injector::{INJECTOR_CONFIGURATION, injector_configuration};
use policy_webhooks::linkerd_redirect;
use policy_webhooks::linkerd_redirect::BESIDE_CONFIGURATION;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Stands for the namespace of a release.
const NAMESPACE: &str = "RELEASE-NAMESPACE";

const WRITTEN: &str =
    "# Written by `PORTCULLIS_WRITE_CHART=1 cargo test -p policy-tests --test chart`;\n";

/// A text by its path in the chart's folder `files`.
fn files() -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([
        ("rbac.yaml".to_owned(), rules()),
        ("webhooks.yaml".to_owned(), webhooks()),
        (
            "control-plane.yaml".to_owned(),
            read(&root().join("policy-controller/manifests/control-plane.yaml")),
        ),
    ]);
    for entry in std::fs::read_dir(root().join("crds/yaml")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.insert(format!("crds/{name}"), read(&path));
        }
    }
    files
}

fn rules() -> String {
    let (cluster, control_plane) = rbac::provisioning_rules();
    // What people need who look at policies; see policy_controller::access.
    let viewer =
        json!([{"apiGroups": ["portcullis.dev"], "resources": ["policies"], "verbs": ["get"]}]);
    let rules = json!({
        "controller": {
            "cluster": rbac::cluster_rules(),
            "clusterProvisioning": cluster,
            "discovery": rbac::discovery_rules(),
            "injector": rbac::injector_rules(false),
            "injectorProvisioning": rbac::injector_rules(true),
            "besideLinkerdProvisioning": rbac::beside_linkerd_rules(),
            "namespace": rbac::namespace_rules(),
            "controlPlane": rbac::control_plane_rules(),
            "controlPlaneProvisioning": control_plane,
        },
        "issuer": {
            "cluster": rbac::issuer_cluster_rules(),
            "reviews": rbac::token_review_rules(),
            "namespace": rbac::issuer_namespace_rules(),
            "controlPlane": rbac::issuer_control_plane_rules(),
            "controlPlaneProvisioning": rbac::issuer_provisioning_rules(),
        },
        "viewer": viewer,
        "people": {"view": rbac::viewing_rules(), "write": rbac::writing_rules()},
    });
    format!("{WRITTEN}# changes are made in policy-controller/kube/src/rbac.rs.\n{}", yaml(&rules))
}

fn webhooks() -> String {
    let installation = |name: &str| Installation {
        name: name.to_owned(),
        namespace: NAMESPACE.to_owned(),
        target: Target::Service { name: "policy-admission".to_owned(), port: 443 },
        ca_bundle: None,
    };
    let injector = |reads_linkerd: bool| {
        injector_configuration(&installation(INJECTOR_CONFIGURATION), reads_linkerd).webhooks
    };
    let webhooks = json!({
        "validating": admission::configuration(&installation(WEBHOOK_CONFIGURATION)).webhooks,
        "wholeCluster": [admission::cluster_webhook(&installation(WEBHOOK_CONFIGURATION))],
        "linkerdCompatible": [admission::outbound_webhook(&installation(WEBHOOK_CONFIGURATION))],
        "injector": injector(false),
        "injectorReadingLinkerd": injector(true),
        "besideLinkerd": linkerd_redirect::configuration(&installation(BESIDE_CONFIGURATION)).webhooks,
    });
    format!("{WRITTEN}# changes are made in policy-controller/webhooks/src.\n{}", yaml(&webhooks))
}

fn yaml(value: &Value) -> String {
    policy_crds::render::yaml(value)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_the_chart_copies_is_current() {
    let folder = root().join("charts/portcullis/files");
    let files = files();
    if std::env::var_os("PORTCULLIS_WRITE_CHART").is_some() {
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir_all(folder.join("crds")).unwrap();
        for (name, text) in &files {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let mut found = BTreeMap::new();
    for part in ["", "crds"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, read(&path));
            }
        }
    }
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&files), "run the test with PORTCULLIS_WRITE_CHART=1");
    for (name, text) in files {
        assert_eq!(found[&name], text, "{name}: run the test with PORTCULLIS_WRITE_CHART=1");
    }
}
