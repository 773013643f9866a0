//! The benches that list functions, built from this tree or another.

use anyhow::{Context, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The crates that have functions to measure, and their folders.
const CRATES: [(&str, &str); 5] = [
    ("policy-core", "policy-core"),
    ("policy-proto", "proto"),
    ("policy-controller", "policy-controller"),
    ("policy-proxy", "policy-proxy"),
    ("policy-enforce", "policy-proxy/enforce"),
];

/// One function, and the program that calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) crate_name: String,
    pub(crate) name: String,
    pub(crate) program: PathBuf,
}

/// The programs of one tree, by their crates.
#[derive(Clone, Debug)]
pub(crate) struct Programs(Vec<(String, PathBuf)>);

/// A tree, and where it is built.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

/// This tree.
pub(crate) fn here() -> anyhow::Result<Tree> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let path = |name: &str| metadata.get(name).and_then(Value::as_str).map(PathBuf::from);
    Ok(Tree {
        root: path("workspace_root").context("cargo metadata has no workspace_root")?,
        target: path("target_directory").context("cargo metadata has no target_directory")?,
    })
}

impl Programs {
    /// Builds those that the tree has; none is no error.
    pub(crate) fn build(tree: &Tree) -> anyhow::Result<Self> {
        let has = |folder: &str| tree.root.join(folder).join("benches/functions.rs").exists();
        let there: Vec<&str> =
            CRATES.iter().filter(|(_, folder)| has(folder)).map(|(name, _)| *name).collect();
        if there.is_empty() {
            return Ok(Self(Vec::new()));
        }
        eprintln!("building the functions of {}", tree.root.display());
        let output = Command::new("cargo")
            .args(["bench", "--quiet", "--no-run", "--message-format", "json-render-diagnostics"])
            .args(["--bench", "functions"])
            .args(there.iter().flat_map(|name| ["-p", name]))
            .current_dir(&tree.root)
            .env("CARGO_TARGET_DIR", &tree.target)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "cargo bench --no-run: {}", output.status);
        let lines = String::from_utf8(output.stdout)?;
        let programs = lines.lines().filter_map(|line| program(line, &there));
        Ok(Self(programs.collect()))
    }

    /// Every function, by crate and name.
    pub(crate) fn functions(&self) -> anyhow::Result<Vec<Function>> {
        let mut all = Vec::new();
        for (crate_name, program) in &self.0 {
            let output = Command::new(program).arg("--list").output()?;
            ensure!(output.status.success(), "{}: {}", program.display(), output.status);
            for name in String::from_utf8(output.stdout)?.lines() {
                let (crate_name, name) = (crate_name.clone(), name.to_owned());
                all.push(Function { crate_name, name, program: program.clone() });
            }
        }
        all.sort();
        Ok(all)
    }
}

/// The program of a line of cargo's messages, if it is about one.
fn program(line: &str, crates: &[&str]) -> Option<(String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    let bench = text("/target/name") == Some("functions");
    let executable = Path::new(text("/executable").filter(|_| bench)?);
    // A package is named `path+file:///root/folder#name@version`, or `…/name#version`.
    let id = text("/package_id")?;
    let (path, version) = id.rsplit_once('#')?;
    let name = version.split_once('@').map(|(name, _)| name);
    let name = name.or_else(|| path.rsplit('/').next())?;
    crates.contains(&name).then(|| (name.to_owned(), executable.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let line = |id: &str, target: &str| {
            format!(
                r#"{{"package_id":"{id}","target":{{"name":"{target}"}},"executable":"/t/deps/x"}}"#
            )
        };
        let found = |id, target| program(&line(id, target), &["policy-core", "policy-proto"]);
        let expected = |name: &str| Some((name.to_owned(), PathBuf::from("/t/deps/x")));
        assert_eq!(found("path+file:///w/policy-core#0.1.0", "functions"), expected("policy-core"));
        assert_eq!(
            found("path+file:///w/proto#policy-proto@0.1.0", "functions"),
            expected("policy-proto")
        );
        assert_eq!(found("path+file:///w/policy-core#0.1.0", "policy_core"), None);
        assert_eq!(found("path+file:///w/else#0.1.0", "functions"), None);
        assert_eq!(program(r#"{"reason":"build-finished"}"#, &["policy-core"]), None);
    }
}
