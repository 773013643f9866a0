//! The repository's own source files, for tests that hold them to the architecture's rules.

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
pub fn rust_files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    for folder in CRATES {
        collect(&root().join(folder), &mut files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, files: &mut Vec<SourceFile>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "gen" && name != "target" && name != "fuzz" {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Ok(text) = fs::read_to_string(&path)
        {
            let relative = path.strip_prefix(root()).unwrap_or(&path);
            files.push(SourceFile { path: relative.to_string_lossy().replace('\\', "/"), text });
        }
    }
}
