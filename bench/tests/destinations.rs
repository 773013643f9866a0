//! Every case of destination discovery with few clients, so that none stops working unseen. What it
//! measures here means nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use policy_bench::report::Document;
use serde_json::Value;
use std::process::Command;

#[test]
fn every_client_is_answered_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("destinations.json");
    let output = Command::new(env!("CARGO_BIN_EXE_destinations-bench"))
        .args(["--clients", "3", "--lookups", "5", "--rounds", "1", "--answers", "7"])
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = Document::read(&json).unwrap();
    let cases: Vec<(&str, u64, u64)> = document
        .raw
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            let of = |name: &str| case.get(name).and_then(Value::as_u64).unwrap();
            let way = case.get("way").and_then(Value::as_str).unwrap();
            assert_eq!(case.get("rounds").unwrap().as_array().unwrap().len(), 1);
            (way, of("send_buffer_bytes"), of("subscriptions"))
        })
        .collect();
    let expected = [
        ("a stream per name", 65_536, 15),
        ("a stream per client", 65_536, 15),
        ("a stream per name", 4096, 15),
        ("a stream per client", 4096, 15),
    ];
    assert_eq!(cases, expected);
}
