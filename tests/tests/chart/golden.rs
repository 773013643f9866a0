//! What the chart renders, against files that `PORTCULLIS_WRITE_CHART=1` writes anew.

use crate::helm::{chart, examples, helm, succeeded, template};
use policy_tests::sources::root;
use std::collections::BTreeSet;

/// A rendered text without the schemas of definitions: they are compared as files of the chart.
fn shortened(rendered: &str) -> String {
    let mut texts = Vec::new();
    for document in rendered.split("---\n") {
        let definition = document.lines().any(|line| line == "kind: CustomResourceDefinition");
        let document = match document.find("\nspec:\n").filter(|_| definition) {
            Some(spec) => format!("{}\nspec: …\n", &document[..spec]),
            None => document.to_owned(),
        };
        texts.push(document);
    }
    texts.join("---\n")
}

#[test]
fn the_chart_is_linted_with_every_example() {
    for (name, values) in examples() {
        let Some(mut command) = helm() else { return };
        command.args(["lint", "--strict"]).arg(chart()).arg("--values").arg(&values);
        command.args(["--kube-version", crate::helm::KUBE_VERSION]);
        let output = command.output().unwrap();
        assert!(succeeded(&output).contains("0 chart(s) failed"), "{name}");
    }
}

#[test]
fn every_example_renders_what_is_expected() {
    let folder = root().join("tests/tests/chart/golden");
    let write = std::env::var_os("PORTCULLIS_WRITE_CHART").is_some();
    let mut expected = BTreeSet::new();
    for (name, values) in examples() {
        let Some(output) = template(&["--values", values.to_str().unwrap()]) else { return };
        let rendered = shortened(&succeeded(&output));
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
    let older = ["--kube-version", "1.28.4"];
    let Some(output) = template(&older) else { return };
    let rendered = succeeded(&output);
    assert!(rendered.contains("fieldPath: status.hostIP}") && !rendered.contains("hostIPs"));
    let output = template(&["--kube-version", "1.27.9"]).unwrap();
    let refusal = String::from_utf8_lossy(&output.stderr);
    assert!(refusal.contains("requires kubeVersion: >=1.28.0-0"), "{refusal}");
}

#[test]
fn policies_of_the_control_plane_are_objects_once_every_kind_is_known() {
    let kinds = [
        "policy.linkerd.io/v1alpha1/MeshTLSAuthentication",
        "policy.linkerd.io/v1beta3/Server",
        "policy.linkerd.io/v1alpha1/AuthorizationPolicy",
        "policy.linkerd.io/v1beta1/ServerAuthorization",
        "gateway.networking.k8s.io/v1/GRPCRoute",
    ];
    let rendered = |kinds: &[&str]| {
        let known: Vec<_> = kinds.iter().flat_map(|kind| ["--api-versions", kind]).collect();
        template(&known).map(|output| succeeded(&output).matches("\nkind: Server\n").count())
    };
    let Some(servers) = rendered(&kinds) else { return };
    assert_eq!(servers, 4);
    for left_out in 0..kinds.len() {
        let mut kinds = kinds.to_vec();
        let kind = kinds.remove(left_out);
        assert_eq!(rendered(&kinds), Some(0), "without {kind}");
    }
}
