//! The rendered chart, compared with files that `PORTCULLIS_WRITE_CHART=1` writes anew.

use crate::helm;
use policy_tests::chart::{KUBE_VERSION, examples, folder, succeeded};
use policy_tests::sources::root;
use std::collections::BTreeSet;

/// A rendered text without the schemas of definitions: they are compared as files of the chart.
fn shortened(rendered: &str) -> String {
    let mut texts = Vec::new();
    for document in rendered.split("---\n") {
        let definition = document.lines().any(|line| line == "kind: CustomResourceDefinition");
        let document = match document.split_once("\nspec:\n").filter(|_| definition) {
            Some((head, _)) => format!("{head}\nspec: …\n"),
            None => document.to_owned(),
        };
        texts.push(document);
    }
    texts.join("---\n")
}

#[test]
fn the_chart_is_linted_with_every_example() {
    let Some(helm) = helm() else { return };
    for (name, values) in examples().unwrap() {
        let (chart, values) = (folder().display().to_string(), values.display().to_string());
        let arguments = ["lint", "--strict", &chart, "--values", &values];
        let output = helm.call(&[&arguments[..], &["--kube-version", KUBE_VERSION]].concat());
        let said = succeeded(&output.unwrap()).unwrap();
        assert!(said.contains("0 chart(s) failed"), "{name}: {said}");
    }
}

#[test]
fn every_example_renders_what_is_expected() {
    let Some(helm) = helm() else { return };
    let folder = root().join("tests/tests/chart/golden");
    let write = std::env::var_os("PORTCULLIS_WRITE_CHART").is_some();
    let mut expected = BTreeSet::new();
    for (name, values) in examples().unwrap() {
        let output = helm.template(&["--values", values.to_str().unwrap()]).unwrap();
        let rendered = shortened(&succeeded(&output).unwrap());
        let path = folder.join(format!("{name}.yaml"));
        if write {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &rendered).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if golden != rendered {
            let differs = golden.lines().zip(rendered.lines()).find(|(before, now)| before != now);
            panic!(
                "{name}: {differs:?} of {} and {} lines; if it is meant so, run the test with \
                 PORTCULLIS_WRITE_CHART=1",
                golden.lines().count(),
                rendered.lines().count()
            );
        }
        expected.insert(path);
    }
    let found: BTreeSet<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found, expected);
}

#[test]
fn an_older_cluster_is_told_one_address_of_the_node_and_one_too_old_is_refused() {
    let Some(helm) = helm() else { return };
    let rendered = succeeded(&helm.template(&["--kube-version", "1.28.4"]).unwrap()).unwrap();
    assert!(rendered.contains("fieldPath: status.hostIP}") && !rendered.contains("hostIPs"));
    let output = helm.template(&["--kube-version", "1.27.9"]).unwrap();
    let refusal = String::from_utf8_lossy(&output.stderr);
    assert!(refusal.contains("requires kubeVersion: >=1.28.0-0"), "{refusal}");
}

#[test]
fn policies_of_the_control_plane_are_objects_once_every_kind_is_known() {
    let kinds = [
        "policy.linkerd.io/v1alpha1/MeshTLSAuthentication",
        "policy.linkerd.io/v1alpha1/NetworkAuthentication",
        "policy.linkerd.io/v1beta3/Server",
        "policy.linkerd.io/v1alpha1/AuthorizationPolicy",
        "policy.linkerd.io/v1beta1/ServerAuthorization",
        "gateway.networking.k8s.io/v1/GRPCRoute",
    ];
    let Some(helm) = helm() else { return };
    let servers = |kinds: &[&str]| {
        let known: Vec<_> = kinds.iter().flat_map(|kind| ["--api-versions", kind]).collect();
        let rendered = succeeded(&helm.template(&known).unwrap()).unwrap();
        rendered.matches("\nkind: Server\n").count()
    };
    assert_eq!(servers(&kinds), 4);
    for left_out in 0..kinds.len() {
        let mut kinds = kinds.to_vec();
        let kind = kinds.remove(left_out);
        assert_eq!(servers(&kinds), 0, "without {kind}");
    }
}
