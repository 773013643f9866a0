//! Programs of tests, as cargo has built them.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// The package it tests.
    pub(super) package: String,
    /// The library, binary or file of tests.
    pub(super) target: String,
    /// Folder of the package, in which cargo runs its tests.
    pub(super) folder: PathBuf,
    /// The program.
    pub(super) path: PathBuf,
}

/// Cargo, as whoever started this names it.
pub(super) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The programs of the workspace; builds those that are not there yet.
pub(super) fn programs(root: &Path) -> Result<Vec<Program>> {
    let output = Command::new(cargo())
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built: {}", output.status);
    }
    let mut found = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        found.extend(program(&serde_json::from_str(line)?));
    }
    Ok(found)
}

/// The program that one of cargo's messages tells of, if it is one of tests.
fn program(message: &Value) -> Option<Program> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let tests = message.get("profile")?.get("test")?.as_bool()?;
    let path = PathBuf::from(text(message.get("executable"))?);
    let manifest = PathBuf::from(text(message.get("manifest_path"))?);
    let folder = manifest.parent()?.to_owned();
    let package = package(&text(message.get("package_id"))?).to_owned();
    let target = text(message.get("target")?.get("name"))?;
    tests.then_some(Program { package, target, folder, path })
}

/// The name in `path+file:///folder/name#0.1.0` or `path+file:///folder#name@0.1.0`.
fn package(id: &str) -> &str {
    let (place, version) = id.rsplit_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_about_a_program_of_tests_is_one() {
        let mut message = json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///w/tests#policy-tests@0.1.0",
            "manifest_path": "/w/tests/Cargo.toml",
            "target": {"name": "cluster"},
            "profile": {"test": true},
            "executable": "/w/target/debug/deps/cluster-1",
        });
        let expected = Program {
            package: "policy-tests".to_owned(),
            target: "cluster".to_owned(),
            folder: "/w/tests".into(),
            path: "/w/target/debug/deps/cluster-1".into(),
        };
        assert_eq!(program(&message), Some(expected));
        message["profile"]["test"] = json!(false);
        assert_eq!(program(&message), None);
        assert_eq!(program(&json!({"reason": "build-finished"})), None);
        assert_eq!(package("path+file:///w/policy-core#0.1.0"), "policy-core");
    }
}
