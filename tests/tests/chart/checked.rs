//! The rendered chart passes the check that its users are advised to run.

use policy_tests::chart::{examples, succeeded};
use std::process::Command;

/// The kinds that have to be known before policies of the control plane are rendered.
const KINDS: [&str; 6] = [
    "policy.linkerd.io/v1alpha1/MeshTLSAuthentication",
    "policy.linkerd.io/v1alpha1/NetworkAuthentication",
    "policy.linkerd.io/v1beta3/Server",
    "policy.linkerd.io/v1alpha1/AuthorizationPolicy",
    "policy.linkerd.io/v1beta1/ServerAuthorization",
    "gateway.networking.k8s.io/v1/GRPCRoute",
];

#[test]
fn the_charts_own_objects_pass_check_without_a_warning() {
    let Some(helm) = super::helm() else { return };
    for (name, values) in examples().unwrap() {
        let values = values.display().to_string();
        let known = KINDS.iter().flat_map(|kind| ["--api-versions", kind]);
        let arguments: Vec<&str> = ["--values", &values].into_iter().chain(known).collect();
        let rendered = succeeded(&helm.template(&arguments).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rendered.yaml"), &rendered).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis-under-test"));
        let output =
            command.args(["check", "--deny-warnings"]).arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        assert!(said.contains(" read: 0 errors, 0 warnings"), "{name}: {said}");
        let servers = rendered.matches("\nkind: Server\n").count();
        assert_eq!(servers > 0, name != "supplied", "{name} renders policies of its own");
    }
}
