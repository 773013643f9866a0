//! The workspace's tasks.
//!
//! `cargo run -p xtask -- gen` regenerates the files that are generated and checked in. It needs
//! neither network nor `protoc`. A test compares what is checked in with what would be generated, so
//! that neither can drift.
//!
//! `cargo run -p xtask -- structure` prints the size of each crate, the loops among its files, how many
//! files name a kind, and how many files and types a Server's content passes until a decision;
//! `cargo run -p xtask -- words` prints how many doc comments begin with a question word, how often
//! production code uses words that engineers do not search for, and which names several types share;
//! `cargo run -p xtask -- texts` prints every text in quotes of the crates that are installed, sorted,
//! so that two commits can be compared in what they log, answer and name. All but
//! `gen` take the folder of another checkout.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use xtask::structure::{
    CrateStructure, kind_files, kind_table, server_path, server_path_table, table, words_table,
    workspace_structure, workspace_words,
};

mod differences;
mod generated;
mod protobuf;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["gen"] => write_all(&root()?),
        ["structure"] => print(&structure(&root()?)?),
        ["structure", folder] => print(&structure(Path::new(folder))?),
        ["words"] => print(&words(&root()?)?),
        ["words", folder] => print(&words(Path::new(folder))?),
        ["texts"] => print(&texts(&root()?)?),
        ["texts", folder] => print(&texts(Path::new(folder))?),
        _ => bail!(
            "usage: cargo run -p xtask -- gen|structure [FOLDER]|words [FOLDER]|texts [FOLDER]"
        ),
    }
}

/// The folder that holds the workspace.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("the crate is not inside the workspace")?.to_owned())
}

fn write_all(root: &Path) -> Result<()> {
    for group in generated::groups(root)? {
        group.write(root)?;
    }
    for table in differences::tables() {
        table.write(root)?;
    }
    Ok(())
}

/// The size of each crate, its loops, how many files name a kind, and the path of a Server.
fn structure(root: &Path) -> Result<String> {
    let crates = workspace_structure(root)?;
    let path = server_path_table(&server_path(root)?);
    Ok(table(&crates) + &kind_table(&kind_files(root, &crates)?) + &path)
}

/// Figures of doc comments, private words, and names of several types.
fn words(root: &Path) -> Result<String> {
    Ok(words_table(&workspace_words(&root.canonicalize()?)?))
}

/// The texts of the crates that are installed, one a line.
fn texts(root: &Path) -> Result<String> {
    let crates = workspace_structure(root)?.into_iter().filter(CrateStructure::is_installed);
    let texts: BTreeSet<String> = crates.flat_map(|of| of.texts).collect();
    Ok(texts.iter().map(|text| format!("{text:?}\n")).collect())
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("print to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_in_files_are_what_gen_would_write() {
        let root = root().unwrap();
        let mut wrong = Vec::new();
        for group in generated::groups(&root).unwrap() {
            wrong.extend(group.drift(&root).unwrap());
        }
        for table in differences::tables() {
            wrong.extend(table.drift(&root).unwrap());
        }
        assert!(wrong.is_empty(), "run `cargo run -p xtask -- gen`:\n{}", wrong.join("\n"));
    }
}
