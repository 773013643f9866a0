//! A published document of thousands of kilobytes, there and back: Kubernetes' own API.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use policy_import::{Fidelity, GroupChoice, ImportFile, open_api};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The Go module, and the hash of its content as Go's checksum database has it.
const MODULE: &str = "k8s.io/kubernetes@v1.34.3";
const SUM: &str = "h1:0TfljWbhEF5DBks+WFMSrvKfxBLo4vnZuqORjLMiyT4=";

/// The document, from the cache of Go's modules, which downloads what is not there.
fn document() -> Vec<u8> {
    let outside = tempfile::tempdir().unwrap();
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", MODULE]).current_dir(outside.path());
    let output = go.output().unwrap_or_else(|error| panic!("Go is needed: {error}"));
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(found["Sum"], SUM, "{found}");
    let folder = Path::new(found["Dir"].as_str().unwrap());
    std::fs::read(folder.join("api/openapi-spec/swagger.json")).unwrap()
}

/// A path without the names of its parameters and without a slash at its end.
fn shape(path: &str) -> String {
    let segment = |text: &str| match text.starts_with(['{', ':']) {
        true => ":".to_owned(),
        false => text.to_owned(),
    };
    path.trim_end_matches('/').split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[test]
fn every_operation_of_kubernetes_is_a_route_and_nothing_else_is() {
    let bytes = document();
    let api: Value = serde_json::from_slice(&bytes).unwrap();
    let mut operations = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "delete", "options", "head", "patch"] {
            if let Some(operation) = item.get(method) {
                let id = operation["operationId"].as_str().unwrap().to_owned();
                operations.insert((method.to_uppercase(), shape(path), id));
            }
        }
    }
    assert!(operations.len() > 1000, "{}", operations.len());
    let file = ImportFile::read("swagger.json", &bytes).unwrap();
    let imported = open_api(&file, &GroupChoice::default()).unwrap();
    let mut routes = BTreeSet::new();
    for group in imported.values() {
        for route in group["spec"]["routes"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let path = shape(route["path"].as_str().unwrap());
            let id = text(&route["labels"]["operation"]);
            routes.insert((text(&route["methods"][0]), path, id));
        }
    }
    assert_eq!(routes, operations);
    assert_eq!(imported.manifests.len(), operations.len().div_ceil(256));
    assert_eq!(imported.rows.len(), operations.len());
    assert!(imported.rows.iter().all(|row| row.fidelity == Fidelity::Exact));
}
