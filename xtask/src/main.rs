//! Regenerates the files that are generated and checked in: `cargo run -p xtask -- gen`.
//!
//! Needs neither network nor `protoc`. A test compares what is checked in with what would be
//! generated, so that neither can drift.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

mod generated;
mod protobuf;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["gen"] => write_all(&root()?),
        _ => bail!("usage: cargo run -p xtask -- gen"),
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
    Ok(())
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
        assert!(wrong.is_empty(), "run `cargo run -p xtask -- gen`:\n{}", wrong.join("\n"));
    }
}
