//! Every scenario twice: by the evaluator alone, and through controller, gRPC, sidecar and a real
//! client. A scenario is a folder: its name is the promise, `manifests/` the objects,
//! `requests.yaml` what is asked and what must become of it.

use policy_cli::expect::{run_evaluator, run_pipeline, run_pipeline_direct};
use policy_tests::sources::root;
use std::fs;
use std::path::PathBuf;

/// The folders below `tests/scenarios`, sorted.
fn scenarios() -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(root().join("tests/scenarios"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    assert!(found.len() >= 270, "scenarios are missing: {}", found.len());
    found
}

#[test]
fn scenarios_are_decided_as_promised_by_the_evaluator() {
    let mut broken = Vec::new();
    for folder in scenarios() {
        match run_evaluator(&folder.join("manifests"), &folder.join("requests.yaml")) {
            Ok(report) if report.is_as_expected() => {}
            Ok(report) => broken.push(format!("{}\n{report}", folder.display())),
            Err(error) => broken.push(format!("{}: {error}", folder.display())),
        }
    }
    assert!(broken.is_empty(), "{} broken promises\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn scenarios_are_decided_as_promised_through_the_pipeline() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut broken = Vec::new();
    for folder in scenarios() {
        let (manifests, requests) = (folder.join("manifests"), folder.join("requests.yaml"));
        match runtime.block_on(run_pipeline(&manifests, &requests)) {
            Ok(report) if report.is_as_expected() => {}
            Ok(report) => broken.push(format!("{}\n{report}", folder.display())),
            Err(error) => broken.push(format!("{}: {error}", folder.display())),
        }
    }
    assert!(broken.is_empty(), "{} broken promises\n{}", broken.len(), broken.join("\n"));
}

/// The same decisions, whichever way a meshed client comes.
#[test]
fn scenarios_are_decided_as_promised_on_the_direct_path() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut broken = Vec::new();
    let mut meshed = 0;
    for folder in scenarios() {
        let requests = folder.join("requests.yaml");
        let asked = fs::read_to_string(&requests).unwrap();
        if !["identity", "serviceAccount"].iter().any(|who| asked.contains(who)) {
            continue; // Nobody of the mesh asks.
        }
        meshed += 1;
        match runtime.block_on(run_pipeline_direct(&folder.join("manifests"), &requests)) {
            Ok(report) if report.is_as_expected() => {}
            Ok(report) => broken.push(format!("{}\n{report}", folder.display())),
            Err(error) => broken.push(format!("{}: {error}", folder.display())),
        }
    }
    assert!(meshed >= 20, "only {meshed} scenarios have a client of the mesh");
    assert!(broken.is_empty(), "{} broken promises\n{}", broken.len(), broken.join("\n"));
}

/// The folders of `examples` with expectations that need no cluster.
const EXAMPLES: [&str; 5] =
    ["emojivoto", "audit-mode", "per-route", "delegation", "request-policies"];

#[test]
fn examples_are_decided_as_they_say_by_the_evaluator() {
    for name in EXAMPLES {
        let folder = root().join("examples").join(name);
        let report = run_evaluator(&folder, &folder.join("expectations.yaml")).unwrap();
        assert!(report.is_as_expected(), "{name}\n{report}");
    }
}

#[test]
fn examples_are_decided_as_they_say_through_the_pipeline() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for name in EXAMPLES {
        let folder = root().join("examples").join(name);
        let expectations = folder.join("expectations.yaml");
        let report = runtime
            .block_on(run_pipeline(&folder, &expectations))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(report.is_as_expected(), "{name}\n{report}");
    }
}
