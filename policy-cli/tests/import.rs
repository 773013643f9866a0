//! `portcullis import` as people run it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use prost::Message;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The services of the issuer's API, compiled.
fn identity_api() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let source = folder.join("linkerd/identity.proto");
    protox::compile([source], [folder]).unwrap().encode_to_vec()
}

fn import(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["import", "grpc"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const YAML: &str = "\
apiVersion: portcullis.dev/v1alpha1
kind: GrpcService
metadata:
  name: io.linkerd.proxy.identity.identity
  namespace: shop
spec:
  methods:
  - name: Certify
  service: io.linkerd.proxy.identity.Identity
";

#[test]
fn a_file_and_standard_input_become_manifests_that_check_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.binpb");
    std::fs::write(&path, identity_api()).unwrap();
    let file = path.to_str().unwrap();
    let expected = (Some(0), YAML.to_owned(), String::new());
    assert_eq!(texts(&import(&["-n", "shop", file], b"")), expected);
    assert_eq!(texts(&import(&["-n", "shop", "-"], &identity_api())), expected);
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("identity.yaml"), YAML).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let (code, told, _) = texts(&check.arg("check").arg(manifests.path()).output().unwrap());
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("1 object read: 0 errors, "), "{told}");
}

#[test]
fn json_is_one_list() {
    let (code, json, told) = texts(&import(&["-o", "json", "--name", "ca", "-"], &identity_api()));
    assert_eq!((code, told.as_str()), (Some(0), ""));
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    let item = serde_json::json!({
        "apiVersion": "portcullis.dev/v1alpha1",
        "kind": "GrpcService",
        "metadata": {"name": "ca"},
        "spec": {
            "service": "io.linkerd.proxy.identity.Identity",
            "methods": [{"name": "Certify"}],
        },
    });
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [item]});
    assert_eq!(found, list);
}

#[test]
fn where_something_is_wrong_nothing_is_written() {
    let fails = |arguments: &[&str], input: &[u8], expected: (i32, &str)| {
        let (code, out, told) = texts(&import(arguments, input));
        assert_eq!((code, out.as_str()), (Some(expected.0), ""), "{told}");
        assert!(told.contains(expected.1), "{told}");
    };
    let set = identity_api();
    let absent = "nothing was written:\nstandard input: declares no service `Identity`; did you mean \
                  `io.linkerd.proxy.identity.Identity`?";
    fails(&["--service", "Identity", "-"], &set, (1, absent));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/linkerd/identity.proto");
    fails(&[source], b"", (1, "it looks like text: compile `.proto` files first, with `protoc "));
    fails(&["absent.binpb"], b"", (1, "cannot read `absent.binpb`"));
    fails(&[env!("CARGO_MANIFEST_DIR")], b"", (1, "cannot read `"));
    fails(&["-n", "Shop", "-"], &set, (2, "expected up to 63 lower-case letters"));
    fails(&["--name", "a_b", "-"], &set, (2, "expected lower-case letters, digits, `-` and `.`"));
    fails(&[], &set, (2, "<FILE>"));
}
