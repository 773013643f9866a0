//! Every case of the data path, for a moment, so that none stops working unseen: the answers are
//! counted and must be what they should be. What it measures here means nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use policy_bench::report::Document;
use std::process::Command;

/// Ten thousand rules take a while to be read without optimisation, and are the same case.
const LEFT_OUT: [&str; 2] = ["rules-1000", "rules-10000"];

#[test]
fn every_case_of_the_data_path_runs() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("data-path.json");
    let bench = env!("CARGO_BIN_EXE_data-path-bench");
    let listed = Command::new(bench).arg("--list").output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    let cases: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    let cases: Vec<&str> = cases.into_iter().filter(|case| !LEFT_OUT.contains(case)).collect();
    let output = Command::new(bench)
        .args(["--cases", &cases.join(","), "--peers", "portcullis,bare", "--no-pin"])
        .args(["--rounds", "1", "--seconds", "0.1", "--no-latency"])
        .args(["--proxy", env!("CARGO_BIN_EXE_bench-proxy-under-test")])
        .args(["--bare", env!("CARGO_BIN_EXE_bench-bare-under-test")])
        .args(["--controller", env!("CARGO_BIN_EXE_bench-controller-under-test")])
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = Document::read(&json).unwrap();
    assert_eq!(document.tables.first().unwrap().rows.len(), cases.len());
    assert_eq!(document.tables.len(), cases.len() + 1);
}
