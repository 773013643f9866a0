//! The cases of `tests/why`: manifests with a mistake, the question, and what has to be told.

use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A misconfiguration.
pub(crate) struct Case {
    /// The name of its folder.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) expected: Expected,
}

/// A question, and the answer that it has to get.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) title: String,
    pub(crate) topic: String,
    /// The report of a user that it comes from; empty: none.
    pub(crate) source: String,
    pub(crate) symptom: String,
    /// The arguments of `portcullis why`.
    pub(crate) arguments: Vec<String>,
    pub(crate) verdict: String,
    /// A part of the first cause.
    pub(crate) cause: String,
    /// True if a change is proposed.
    pub(crate) change: bool,
    pub(crate) mend: String,
}

/// The root of the sources.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All cases, by name.
pub(crate) fn cases() -> Vec<Case> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root().join("tests/why"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let case = |folder: PathBuf| {
        let text = fs::read_to_string(folder.join("case.yaml")).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        Case { name, folder, expected }
    };
    folders.into_iter().map(case).collect()
}

impl Case {
    /// The answer of the command on other manifests, as JSON.
    pub(crate) fn ask(&self, manifests: &Path) -> Value {
        let manifests = match manifests.join("case.yaml").exists() {
            true => manifests.join("manifests.yaml"),
            false => manifests.to_owned(),
        };
        let mut arguments = vec!["why", "-o", "json", "-f", manifests.to_str().unwrap()];
        arguments.extend(self.expected.arguments.iter().map(String::as_str));
        let (code, out, errors) = portcullis(&arguments);
        assert_eq!(code, 0, "{}: {errors}", self.name);
        serde_json::from_str(&out).unwrap()
    }

    /// The answer for people, on the manifests of the case.
    pub(crate) fn text(&self) -> String {
        let manifests = format!("tests/why/{}/manifests.yaml", self.name);
        let mut arguments = vec!["why", "-f", manifests.as_str()];
        arguments.extend(self.expected.arguments.iter().map(String::as_str));
        let (code, out, errors) = portcullis(&arguments);
        assert_eq!(code, 0, "{}: {errors}", self.name);
        out
    }
}

/// Runs the command in the root of the sources: its exit code and both outputs.
pub(crate) fn portcullis(arguments: &[&str]) -> (i32, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .args(arguments)
        .current_dir(root())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (run.status.code().unwrap(), text(run.stdout), text(run.stderr))
}
