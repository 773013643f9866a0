//! No file imports from one that imports from it, directly or through others.
//!
//! `loops.txt` lists the files that still do. It may only become shorter.

use policy_tests::sources::root;
use std::collections::BTreeSet;
use std::fs;
use xtask::structure::{CrateStructure, table, workspace_structure};

/// The files that are in a loop.
fn looped(crates: &[CrateStructure]) -> BTreeSet<String> {
    crates.iter().flat_map(|of| &of.loops).flat_map(|of| of.files.iter().cloned()).collect()
}

/// The files that are known to be in a loop.
fn listed() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("tests/tests/architecture/loops.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn files_that_import_from_each_other_are_listed_and_the_list_only_shrinks() {
    let crates = workspace_structure(&root()).unwrap();
    assert!(crates.iter().all(|of| !of.files.is_empty()), "a crate without files");
    let (looped, listed) = (looped(&crates), listed());
    let new: Vec<_> = looped.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "{new:?} import from files that import from them: what both need belongs into a file of its \
         own, below both\n{}",
        table(&crates)
    );
    let gone: Vec<_> = listed.difference(&looped).collect();
    assert!(gone.is_empty(), "in no loop any more, to be removed from loops.txt: {gone:?}");
}
