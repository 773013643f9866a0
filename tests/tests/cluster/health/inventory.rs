//! Every command that `health` and `preflight` propose: the function of these tests that executes it after it
//! has broken something, or the reason why nobody can.

use policy_tests::sources::root;
use std::collections::BTreeSet;

/// A command is executed by a function, or looks at something.
enum Proof {
    Executed(&'static str),
    Reads,
    Needs(&'static str),
}

use Proof::{Executed, Needs, Reads};

/// File below `policy-cli/src`, command as the source spells it, and proof.
const COMMANDS: [(&str, &str, Proof); 26] = [
    ("diagnostics/definition_owners.rs", "helm uninstall {LINKERD_RELEASE}", Reads),
    (
        "diagnostics/definition_owners.rs",
        "kubectl --namespace {place} delete secret --selector owner=helm,name={LINKERD_RELEASE}",
        Executed("a_release_that_still_has_the_definitions"),
    ),
    (
        "diagnostics/definitions.rs",
        "helm get manifest {} --namespace {} | kubectl apply --server-side --force-conflicts -f -",
        Executed("the_manifest_brings_definitions_back"),
    ),
    (
        "diagnostics/release.rs",
        "helm upgrade {name} charts/portcullis --namespace {namespace} --reset-then-reuse-values",
        Executed("definitions_are_back"),
    ),
    (
        "diagnostics/security.rs",
        "kubectl create namespace {wanted}",
        Executed("a_namespace_that_does_not_exist"),
    ),
    (
        "diagnostics/security.rs",
        "kubectl label namespace {namespace} {ENFORCE_LABEL}=privileged --overwrite",
        Executed("a_level_of_pod_security"),
    ),
    ("health/accounts.rs", "helm upgrade", Executed("the_upgrade_brings_back_what_it_renders")),
    ("health/ca_bundle.rs", "helm upgrade", Executed("the_upgrade_brings_back_what_it_renders")),
    (
        "health/failed_create.rs",
        "kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged --overwrite",
        Executed("a_refused_pod"),
    ),
    ("health/ready.rs", "kubectl describe pod", Reads),
    ("health/ready.rs", "kubectl describe replicaset", Reads),
    ("health/sidecars.rs", "kubectl describe pod", Reads),
    ("health/sidecars.rs", "kubectl logs POD -c {SIDECAR}", Reads),
    (
        "health/sidecars.rs",
        "kubectl rollout restart",
        Needs("controllers of workloads: e2e::removal"),
    ),
    ("health/sidecars.rs", "portcullis status", Reads),
    (
        "health/versions.rs",
        "kubectl rollout restart",
        Needs("controllers of workloads: e2e::removal"),
    ),
    ("health/versions.rs", "kubectl rollout status", Reads),
    (
        "health/webhook_configurations.rs",
        "helm upgrade",
        Executed("the_upgrade_brings_back_what_it_renders"),
    ),
    ("preflight/leftovers.rs", "--take-ownership", Executed("objects_of_nobody")),
    ("preflight/leftovers.rs", "kubectl delete {}", Executed("a_webhook_without_its_service")),
    ("preflight/leftovers.rs", "portcullis health", Reads),
    (
        "preflight/linkerd.rs",
        "--set crds.policy=false --set crds.workload=false",
        Executed("definitions_of_others"),
    ),
    (
        "preflight/linkerd.rs",
        "--set injector.linkerdInject=true",
        Executed("an_annotation_that_asks_no_more"),
    ),
    (
        "preflight/linkerd.rs",
        "kubectl annotate namespace {first} portcullis.dev/inject=enabled",
        Executed("namespaces_that_asked_by_linkerds_annotation"),
    ),
    (
        "preflight/linkerd.rs",
        "kubectl label namespace {first} portcullis.dev/inject-",
        Executed("namespaces_that_asked_by_linkerds_annotation"),
    ),
    ("preflight/network.rs", "portcullis check --outbound", Reads),
];

#[test]
fn every_command_that_is_proposed_is_executed_by_a_test() {
    let known: BTreeSet<(String, String)> =
        COMMANDS.iter().map(|(file, command, _)| (file.to_string(), command.to_string())).collect();
    assert_eq!(known.len(), COMMANDS.len());
    assert_eq!(proposed(), known);
    let tests: String = ["health", "health/commands", "health/helm", "health/proposals"]
        .map(|name| read(&format!("tests/tests/cluster/{name}.rs")))
        .concat();
    for (file, command, proof) in &COMMANDS {
        match proof {
            Executed(name) => {
                assert!(tests.contains(&format!("fn {name}(")), "{file}: {command}: {name}");
            }
            // It changes nothing, or says what not to do.
            Reads => {}
            Needs(what) => assert!(what.contains("e2e::"), "{file}: {command}"),
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The commands between backticks in the texts of the sources.
fn proposed() -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for folder in ["diagnostics", "health", "preflight"] {
        for entry in std::fs::read_dir(root().join("policy-cli/src").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.ends_with(".rs") {
                continue;
            }
            let file = format!("{folder}/{name}");
            let text = std::fs::read_to_string(&path).unwrap();
            for command in commands(&text) {
                // In a message that passes, it names a way to go on.
                if (file.as_str(), command.as_str()) != ("preflight/leftovers.rs", "helm upgrade") {
                    found.insert((file.clone(), command));
                }
            }
        }
    }
    found
}

fn commands(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap();
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut text = String::new();
    for line in lines {
        // A text that goes on in the next line.
        let part = if text.ends_with('\\') {
            text.pop();
            line.trim_start()
        } else {
            text.push('\n');
            line
        };
        text.push_str(part);
    }
    let beginnings = ["helm ", "kubectl ", "--", "portcullis "];
    let mut found = Vec::new();
    for literal in text.split('"').skip(1).step_by(2) {
        let all = literal.split('`').skip(1).step_by(2);
        found.extend(
            all.filter(|it| beginnings.iter().any(|b| it.starts_with(b))).map(str::to_owned),
        );
        // The command of a release is a text of its own.
        found.extend(literal.starts_with("helm upgrade ").then(|| literal.to_owned()));
    }
    found
}
