//! The repository's own source files, for tests that hold them to the architecture's rules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates' folders.
pub const CRATES: [&str; 9] = [
    "policy-core",
    "proto",
    "crds",
    "policy-controller",
    "policy-proxy",
    "policy-cli",
    "tests",
    "bench",
    "xtask",
];

/// One source file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Content.
    pub text: String,
}

impl SourceFile {
    /// The lines before the first unit-test module: what a reader has to hold in mind.
    pub fn lines_before_tests(&self) -> usize {
        self.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()
    }

    /// The code without comments: what may name another layer.
    pub fn code(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter(|line| !line.trim_start().starts_with("//"))
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Every Rust file that people write, sorted by path; generated code is left out.
///
/// # Panics
/// If a folder or a file cannot be read.
pub fn rust_files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    for folder in CRATES {
        collect(&root().join(folder), &mut files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// A function that is a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// True if it is left out unless it is named (`#[ignore]`).
    pub ignored: bool,
}

/// The tests of a file.
pub fn tests_in(file: &SourceFile) -> Vec<Test> {
    let mut found = Vec::new();
    let (mut marked, mut ignored) = (false, false);
    for line in file.text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        marked |= line.contains("#[test]") || line.contains("#[tokio::test");
        ignored |= line.starts_with("#[ignore");
        if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            if std::mem::take(&mut marked) {
                found.push(Test { name, ignored });
            }
            ignored = false;
        }
    }
    found
}

/// Names of all tests that are not left out.
pub fn test_names() -> BTreeSet<String> {
    let files = rust_files();
    let all = files.iter().flat_map(tests_in).filter(|test| !test.ignored);
    all.map(|test| test.name).collect()
}

/// A rule would hold for what is not looked at.
fn unread(path: &Path, error: &std::io::Error) -> ! {
    panic!("{}: {error}", path.display())
}

fn collect(folder: &Path, files: &mut Vec<SourceFile>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| unread(folder, &error));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| unread(folder, &error));
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "gen" && name != "target" && name != "fuzz" {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| unread(&path, &error));
            let relative = path.strip_prefix(root()).unwrap_or(&path);
            files.push(SourceFile { path: relative.to_string_lossy().replace('\\', "/"), text });
        }
    }
}
