//! What `up` refuses to run, and why.

use super::{example, portcullis};
use std::process::Command;

fn refused(arguments: &[&str]) -> String {
    let output = portcullis().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_cannot_be_run_says_why() {
    let missing = refused(&["up", "/no/such/directory"]);
    assert!(missing.contains("cannot read `/no/such/directory`"), "{missing}");
    let empty = tempfile::tempdir().unwrap();
    let nothing = refused(&["up", empty.path().to_str().unwrap()]);
    assert!(nothing.contains("no .yaml, .yml or .json file"), "{nothing}");
    let elsewhere = refused(&["up", "--subnet", "10.0.0.0/16", empty.path().to_str().unwrap()]);
    assert!(elsewhere.contains("no part of 127.0.0.0/8"), "{elsewhere}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let directory = example("audit-mode");
    let taken =
        (150..250).find_map(|n| std::net::TcpListener::bind((format!("127.{n}.64.1"), 8080)).ok());
    let taken = taken.expect("a free subnet");
    let address = taken.local_addr().unwrap();
    let subnet = address.ip().to_string().replace("64.1", "0.0/16");
    let message = refused(&["up", "--subnet", &subnet, directory.path().to_str().unwrap()]);
    assert!(message.contains(&format!("`{address}` is in use")), "{message}");
}

#[test]
fn a_pipe_is_read_and_without_pods_in_it_there_is_nothing_to_run() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writes = format!("echo '# nothing' > '{}'", pipe.display());
    let mut writer = Command::new("sh").arg("-c").arg(writes).spawn().unwrap();
    let message = refused(&["up", pipe.to_str().unwrap()]);
    assert!(message.contains("describes no pods"), "{message}");
    assert!(writer.wait().unwrap().success());
}
