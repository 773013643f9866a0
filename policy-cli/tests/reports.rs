//! Manifests of the kinds that people report about, each with what `portcullis check` says of it: the
//! comments `#> …` at the end of a file are the exit code and every finding.

#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files, in order.
fn reports() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files
}

/// The exit code and the findings of a file, one a line.
fn findings(file: &Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["check", "-o", "json"]).arg(file).stdin(Stdio::null());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = |finding: &Value| {
        let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        let (object, field) = (text("object"), text("field"));
        let parts = [object, field, text("message")].into_iter().filter(|part| !part.is_empty());
        let parts: Vec<String> = parts.collect();
        format!("{} {}: {}", finding["line"], text("severity"), parts.join(": "))
    };
    let exit = format!("exit {}", output.status.code().unwrap());
    let all = report["findings"].as_array().unwrap().iter().map(finding);
    std::iter::once(exit).chain(all).collect()
}

#[test]
fn each_report_is_answered_as_its_file_says() {
    let mut wrong = Vec::new();
    let files = reports();
    assert!(files.len() > 40, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let expected: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("#> ")).collect();
        let found = findings(&file);
        if found != expected {
            let found: Vec<String> = found.iter().map(|line| format!("#> {line}")).collect();
            wrong.push(format!("{}:\n{}", file.display(), found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
