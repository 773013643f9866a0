//! The crates of the workspace, as Cargo lists them.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its folder, from the workspace's root.
    pub folder: String,
    /// Compiled targets outside of tests: the library and the programs.
    pub targets: Vec<Target>,
    /// The workspace's crates that it depends on, without those for tests and builds.
    pub dependencies: Vec<String>,
}

/// A library or a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The file that it begins with.
    pub first: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Listed>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// The crates of the workspace in `root`, sorted by folder.
///
/// # Errors
/// Cargo cannot be run, or refuses a manifest.
pub fn members(root: &Path) -> Result<Vec<Member>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("run `cargo metadata`")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed: Metadata =
        serde_json::from_slice(&output.stdout).context("read what `cargo metadata` says")?;
    let root = root.canonicalize().context("the workspace's root")?;
    let mut members = listed
        .packages
        .into_iter()
        .map(|package| member(&root, package))
        .collect::<Result<Vec<_>>>()?;
    members.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(members)
}

fn member(root: &Path, package: Package) -> Result<Member> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    let folder = folder.strip_prefix(root).context("a crate outside of the workspace")?;
    let compiled = |kind: &String| matches!(kind.as_str(), "lib" | "bin" | "proc-macro");
    let targets = package.targets.into_iter().filter(|target| target.kind.iter().any(compiled));
    let ours = package.dependencies.into_iter();
    let ours = ours.filter(|dependency| dependency.path.is_some() && dependency.kind.is_none());
    Ok(Member {
        name: package.name,
        folder: folder.to_string_lossy().into_owned(),
        targets: targets.map(|it| Target { name: it.name, first: it.src_path }).collect(),
        dependencies: ours.map(|dependency| dependency.name).collect(),
    })
}
