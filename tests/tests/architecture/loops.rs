//! No file imports from one that imports from it, directly or through others, and neither do the
//! modules directly below a crate's root.

use policy_tests::sources::root;
use xtask::structure::{CrateStructure, table, workspace_structure};

fn crates() -> Vec<CrateStructure> {
    let crates = workspace_structure(&root()).unwrap();
    assert!(crates.iter().all(|of| !of.files.is_empty()), "a crate without files");
    crates
}

#[test]
fn no_files_import_from_each_other() {
    let crates = crates();
    let looped: Vec<_> = crates.iter().flat_map(|of| &of.loops).map(|of| &of.files).collect();
    assert!(
        looped.is_empty(),
        "{looped:?} import from files that import from them: what both need belongs into a file of \
         its own, below both\n{}",
        table(&crates)
    );
}

#[test]
fn no_modules_below_a_root_import_from_each_other() {
    let crates = crates();
    let looped: Vec<_> = crates.iter().flat_map(|of| &of.top_loops).collect();
    assert!(
        looped.is_empty(),
        "{looped:?} import from modules that import from them: a file of one belongs into the other, \
         or what both need into a module below both\n{}",
        table(&crates)
    );
}
