//! Golden tests of `check`: each folder of `tests/check` has manifests, and in `expected.txt` the
//! exit code and the output. `PORTCULLIS_WRITE_CHECK=1 cargo test -p policy-cli --test check`
//! rewrites them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::process::{Command, Stdio};

/// Compares the output of `check` on a folder with the expected one.
#[track_caller]
fn golden(name: &str, flags: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check");
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.current_dir(&root).arg("check").args(flags).arg(name).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (code, errors) = (output.status.code().unwrap(), text(output.stderr));
    assert_eq!(errors, "", "nothing else is said");
    let now = format!("exit code {code}\n\n{}", text(output.stdout));
    let flags: String =
        flags.iter().map(|flag| flag.replace("--", "-").replace('=', "-")).collect();
    let path = root.join(name).join(format!("expected{flags}.txt"));
    if std::env::var_os("PORTCULLIS_WRITE_CHECK").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(now, expected, "{} differs", path.display());
}

#[test]
fn annotations_that_the_webhook_refuses_are_errors_and_those_it_warns_of_are_warnings() {
    golden("annotations", &[]);
}

#[test]
fn a_service_account_that_is_not_among_those_given_is_reported_with_the_one_that_was_meant() {
    golden("clients", &[]);
}

#[test]
fn an_identity_of_another_mesh_is_reported_with_the_spelling_of_this_one() {
    golden("identities", &[]);
    golden("identities", &["--control-plane-namespace=linkerd"]);
}

#[test]
fn an_authentication_without_a_user_is_reported() {
    golden("unused", &[]);
}

#[test]
fn a_kind_of_two_groups_is_named_with_its_group_and_the_other_one_is_reported() {
    golden("namesakes", &[]);
}

#[test]
fn a_server_that_grants_nobody_is_reported_unless_it_says_that_it_denies() {
    golden("grants", &[]);
}

#[test]
fn a_route_without_which_more_is_granted_is_a_note_that_fails_nothing() {
    golden("only-route", &["--deny-warnings"]);
}

#[test]
fn a_route_that_takes_from_a_grant_of_its_server_is_a_warning_that_says_what_is_left() {
    golden("routes", &[]);
}

#[test]
fn a_probe_that_policy_or_its_protocol_refuses_is_an_error_at_the_probe() {
    golden("probes", &[]);
}

#[test]
fn a_namespace_or_label_that_was_mistyped_is_reported_with_the_one_that_was_meant() {
    golden("mistyped", &[]);
}

#[test]
fn a_route_without_rules_is_a_warning_and_no_error() {
    golden("rules", &[]);
}

#[test]
fn a_filter_that_is_not_supported_is_a_warning_where_the_schema_of_the_route_has_it() {
    golden("filters", &[]);
}

#[test]
fn grants_that_permit_much_are_warned_of_and_unused_ones_noted() {
    golden("references", &[]);
}

#[test]
fn delegations_that_are_refused_and_rules_and_policies_without_effect_are_warned_of() {
    golden("delegation", &[]);
    golden("delegation", &["-n", "other"]);
}

#[test]
fn each_object_with_outbound_policy_that_has_no_effect_is_warned_of_once() {
    golden("outbound-policy", &[]);
    golden("outbound-policy", &["--beside-linkerd"]);
}

#[test]
fn an_annotation_that_may_be_of_a_later_version_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, annotations: \
               {portcullis.dev/not-invented-yet: x}}\nspec: {containers: [{name: web}]}\n";
    std::fs::write(folder.path().join("pod.yaml"), pod).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.arg("check").arg(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("warning: metadata.annotations[")
            && text.contains("has no effect: this version"),
        "{text}"
    );
    assert!(text.ends_with("0 errors, 1 warning\n"), "{text}");
}

#[test]
fn a_server_on_what_no_sidecar_guards_is_reported_with_the_reason() {
    golden("unguarded", &[]);
}

#[test]
fn an_annotation_where_nothing_reads_it_is_told_where_it_belongs() {
    golden("misplaced", &[]);
}

#[test]
fn a_route_of_other_controllers_alone_is_not_judged() {
    golden("of-others", &[]);
}

#[test]
fn labels_that_kubernetes_adds_to_pods_are_known() {
    golden("labels", &[]);
}

#[test]
fn a_namespace_whose_pod_security_refuses_sidecars_is_an_error_where_one_is_asked_for() {
    golden("pod-security", &[]);
}

#[test]
fn what_people_report_of_labels_ports_references_and_names_is_told_rightly() {
    golden("reports", &[]);
}

#[test]
fn durations_are_read_as_the_api_of_their_field_reads_them() {
    golden("durations", &[]);
}

/// One parse of the file per finding took a minute here.
#[test]
fn two_thousand_findings_in_one_file_take_seconds() {
    use std::fmt::Write;
    let mut manifests = String::new();
    for number in 0..2_000 {
        let _ = write!(
            manifests,
            "---\napiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {{name: s{number}}}\n\
             spec: {{podSelector: {{matchLabels: {{app: a{number}}}}}, port: 80, accessPolicy: deny}}\n"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, manifests).unwrap();
    let begin = std::time::Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let output = command.arg("check").arg(&file).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("2000 objects read: 0 errors, 2000 warnings\n"));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

#[test]
fn annotations_of_linkerds_injector_are_named_where_its_annotation_opts_in() {
    golden("linkerds", &[]);
}
