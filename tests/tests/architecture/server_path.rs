//! The list of files that a Server's content passes until a decision is true, so that what
//! `cargo run -p xtask -- structure` counts of them is.

use policy_tests::sources::root;
use xtask::structure::{server_path, server_path_faults, workspace_structure};

/// Nothing is counted whose list nobody keeps: each file of the folders of the path is on it or said to
/// be beside it.
#[test]
fn the_path_of_a_server_names_every_file_of_its_folders() {
    let crates = workspace_structure(&root()).unwrap();
    let faults = server_path_faults(&root(), &crates).unwrap();
    assert!(faults.is_empty(), "xtask/path.txt:\n{}", faults.join("\n"));
}

#[test]
fn every_stage_of_the_path_of_a_server_hands_types_on() {
    for stage in server_path(&root()).unwrap() {
        assert!(!stage.files.is_empty(), "{}: no files", stage.name);
        assert!(!stage.handed_on.is_empty(), "{}: hands nothing on", stage.name);
    }
}
