//! Property tests: every crate has them from the crate that keeps seeds, and git keeps the files.

use policy_tests::sources::{root, rust_files};
use std::process::Command;
use xtask::structure::members;

#[test]
fn every_crate_has_its_property_tests_from_the_crate_that_keeps_seeds() {
    let root = root();
    let mut wrong = Vec::new();
    for member in members(&root).unwrap() {
        if member.name == "policy-properties" {
            continue;
        }
        let manifest = root.join(&member.folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("proptest"));
        let others = lines.filter(|line| {
            let is_shared = line.starts_with("proptest.workspace = true")
                || line.starts_with("proptest = { workspace = true");
            !is_shared
        });
        wrong.extend(others.map(|line| format!("{}: {line}", manifest.display())));
    }
    let says =
        |text: &str| text.lines().any(|line| line.trim_start().starts_with("failure_persistence:"));
    let configured = rust_files().into_iter().filter(|file| says(&file.text));
    wrong.extend(configured.map(|file| format!("{}: failure_persistence", file.path)));
    wrong.retain(|line| !line.starts_with("tests/properties/"));
    assert!(wrong.is_empty(), "seeds of these would not be kept: {wrong:#?}");
}

#[test]
fn files_of_seeds_are_not_ignored() {
    for member in members(&root()).unwrap() {
        let file = format!("{}/proptest-regressions/tests/any.txt", member.folder);
        let ignored = Command::new("git")
            .args(["check-ignore", "--quiet", "--no-index", "--"])
            .arg(&file)
            .current_dir(root())
            .status();
        // Without a repository nothing is ignored.
        assert!(!ignored.is_ok_and(|status| status.success()), "{file}");
    }
}
