//! `portcullis inject` as people run it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {annotations: {portcullis.dev/inject: enabled}}
    spec: {containers: [{name: web, image: example.com/web, ports: [{containerPort: 80}]}]}
";

fn inject(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.arg("inject").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn standard_input_is_injected_and_a_second_time_changes_nothing() {
    let (code, once, told) = texts(&inject(&["-"], DEPLOYMENT));
    assert_eq!((code, told.as_str()), (Some(0), "Deployment shop/web: injected\n"));
    assert!(once.contains("image: \"ghcr.io/portcullis/proxy:0.1.0\""), "{once}");
    let (code, twice, told) = texts(&inject(&["-"], &once));
    assert_eq!((code, &twice), (Some(0), &once));
    let why =
        "Deployment shop/web: not injected: the pod has a sidecar already, of version 0.1.0\n";
    assert_eq!(told, why);
}

#[test]
fn files_are_injected_with_the_settings_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yaml");
    std::fs::write(&path, DEPLOYMENT).unwrap();
    let file = path.to_str().unwrap();
    let (code, yaml, _) = texts(&inject(&["--set", "proxy-version=v9", file], ""));
    assert_eq!(code, Some(0));
    assert!(yaml.contains("image: \"ghcr.io/portcullis/proxy:v9\""), "{yaml}");
    let (code, out, told) = texts(&inject(&["--set", "proxy-versoin=v9", file], ""));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(told.contains("did you mean `proxy-version`?"), "{told}");
    let (code, out, told) = texts(&inject(&["absent.yaml"], ""));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(told.contains("cannot read `absent.yaml`"), "{told}");
}

#[test]
fn where_something_is_refused_nothing_is_written() {
    let wrong =
        DEPLOYMENT.replace("portcullis.dev/inject: enabled", "portcullis.dev/inejct: enabled");
    let input = format!("{DEPLOYMENT}---\n{wrong}");
    let (code, out, told) = texts(&inject(&["-"], &input));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let words = "Deployment shop/web: metadata.annotations[\"portcullis.dev/inejct\"]: there is no \
                 such annotation; did you mean `portcullis.dev/inject`?";
    assert!(told.contains(words), "{told}");
    assert_eq!(texts(&inject(&[], DEPLOYMENT)).0, Some(2), "standard input is read if asked for");
}

#[test]
fn the_outbound_half_is_added_where_it_is_asked_for() {
    let (_, plain, _) = texts(&inject(&["-"], DEPLOYMENT));
    assert!(!plain.contains("OUTBOUND") && !plain.contains("--outbound"), "{plain}");
    assert!(plain.contains(r#"\"outbound\":\"none\""#), "{plain}");
    let (code, once, told) = texts(&inject(&["--set", "outbound=enabled", "-"], DEPLOYMENT));
    assert_eq!((code, told.as_str()), (Some(0), "Deployment shop/web: injected\n"));
    let identity = "default.shop.serviceaccount.identity.portcullis.cluster.local";
    for part in [
        "--outbound-port=4140",
        "name: PORTCULLIS_OUTBOUND_MODE",
        r#"\"outbound\":\"on\""#,
        &format!(r#"\"identity\":\"{identity}\""#),
    ] {
        assert!(once.contains(part), "{part} is not in {once}");
    }
    // What is there already stays, whatever the default of another run.
    let (code, twice, _) = texts(&inject(&["-"], &once));
    assert_eq!((code, twice), (Some(0), once));
    let anywhere = DEPLOYMENT.replace(", namespace: shop", "");
    let (_, anywhere, _) = texts(&inject(&["-"], &anywhere));
    assert!(!anywhere.contains(r#"\"identity\""#), "{anywhere}");
    let strict = DEPLOYMENT
        .replace("inject: enabled", "inject: enabled, portcullis.dev/outbound: mesh-only");
    let (code, out, told) = texts(&inject(&["--sidecar", "container", "-"], &strict));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(told.contains("`mesh-only` needs a native sidecar"), "{told}");
}

#[test]
fn a_folder_is_read_whole_and_an_address_is_answered_with_the_pipe() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let other = DEPLOYMENT.replace("name: web, namespace", "name: api, namespace");
    std::fs::write(folder.path().join("a.yaml"), DEPLOYMENT).unwrap();
    std::fs::write(folder.path().join("sub/b.yml"), other).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "a: [").unwrap();
    let (code, _, told) = texts(&inject(&[folder.path().to_str().unwrap()], ""));
    let both = "Deployment shop/web: injected\nDeployment shop/api: injected\n";
    assert_eq!((code, told.as_str()), (Some(0), both));
    let (code, _, told) = texts(&inject(&["https://example.com/a.yaml"], ""));
    assert_eq!(code, Some(1));
    let pipe = "curl -fsSL https://example.com/a.yaml | portcullis inject -";
    assert!(told.contains(pipe), "{told}");
}

#[test]
fn nothing_read_is_no_success() {
    let (code, written, told) = texts(&inject(&["-"], "# nothing\n"));
    assert_eq!((code, written.as_str()), (Some(1), ""));
    assert!(told.contains("nothing was read from -"), "{told}");
}

#[test]
fn an_annotation_of_the_workload_is_told_to_belong_to_its_template() {
    let opts_out = DEPLOYMENT.replace(
        "metadata: {name: web, namespace: shop}",
        "metadata: {name: web, namespace: shop, annotations: {linkerd.io/inject: disabled}}",
    );
    let (code, _, told) = texts(&inject(&["-"], &opts_out));
    assert_eq!(code, Some(0));
    let remark = "Deployment shop/web: metadata.annotations[\"linkerd.io/inject\"]: has no effect \
                  here: it is read from the pod template; write it in spec.template.metadata.annotations";
    assert!(told.contains(remark), "{told}");
}
