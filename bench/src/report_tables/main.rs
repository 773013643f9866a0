//! Prints the tables of `docs/performance.md` from the JSON files that measurements wrote: first what
//! was asked and what was measured of it, then every measurement.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod asked;

use anyhow::{Context, ensure};
use policy_bench::report::Document;
use std::path::{Path, PathBuf};

/// The order on the page; others follow by name.
const ORDER: [&str; 8] = [
    "data-path",
    "data-path-check",
    "connections",
    "policy-change",
    "controller",
    "destinations",
    "functions",
    "long",
];

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).context("usage: report-bench FOLDER")?;
    let mut paths = files(Path::new(&folder))?;
    ensure!(!paths.is_empty(), "`{folder}` has no JSON files");
    paths.sort_by_key(|path| (place(path), path.clone()));
    let documents = paths.iter().map(|path| Document::read(path));
    let documents = documents.collect::<anyhow::Result<Vec<_>>>()?;
    let asked = asked::table(&documents);
    println!("## {}\n\n{}", asked.title, asked.render(true));
    for document in documents {
        println!("{}", document.markdown());
    }
    Ok(())
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn place(path: &Path) -> usize {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    ORDER.iter().position(|name| *name == stem).unwrap_or(ORDER.len())
}
