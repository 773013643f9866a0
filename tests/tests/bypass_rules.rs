//! Holds the table of bypass rules complete: each rule has its tests, which exist and which `.ci/run` runs.

use policy_tests::sources::{SourceFile, root, rust_files, tests_in};
use std::collections::BTreeMap;
use std::fs;

struct Row {
    number: u32,
    held: String,
    tests: Vec<String>,
}

fn rows() -> Vec<Row> {
    let table = fs::read_to_string(root().join("tests/bypass-rules.md")).unwrap();
    let lines = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 3, "{line}");
            let tests = cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect();
            Row { number: cells[0].parse().unwrap(), held: cells[2].to_owned(), tests }
        })
        .collect()
}

/// The tests of the workspace by name, with the file of each. `make test-all`, which `.ci/run` runs, runs all of
/// them that are not marked to be left out.
fn run() -> BTreeMap<String, String> {
    let text = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let says = |path: &str, line: &str| text(path).lines().any(|found| found.trim() == line);
    assert!(says(".ci/run", "make test-all"));
    assert!(says("Makefile", "cargo test --workspace --no-run"));
    assert!(says("Makefile", "@$(LANES) $(ORDER)"));
    let members = xtask::structure::members(&root()).unwrap();
    let is_of_a_member = |path: &str| {
        let within =
            |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        members.iter().any(|member| within(&member.folder))
    };
    let files = rust_files().into_iter().filter(|file| is_of_a_member(&file.path));
    let mut found = BTreeMap::new();
    for file in files {
        let run = tests_in(&file).into_iter().filter(|test| !test.ignored);
        found.extend(run.map(|test| (test.name, file.path.clone())));
    }
    assert!(found.len() > 2_000, "{} tests", found.len());
    found
}

#[test]
fn every_rule_has_its_row() {
    let numbers: Vec<u32> = rows().iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=42).collect::<Vec<_>>());
}

#[test]
fn every_rule_is_held_by_tests_and_by_nothing_else() {
    for row in rows() {
        assert!(!row.tests.is_empty(), "rule {} is held by nothing here", row.number);
        // Between the names there is nothing: no rule is somebody else's.
        let between: String = row.held.split('`').step_by(2).collect();
        assert_eq!(between.trim(), "", "rule {}", row.number);
    }
}

#[test]
fn every_test_named_exists_and_is_run() {
    let run = run();
    let mut missing = Vec::new();
    for row in rows() {
        for test in row.tests {
            let there = match test.strip_prefix("scenario:") {
                Some(folder) => {
                    let folder = root().join("tests/scenarios").join(folder);
                    folder.join("requests.yaml").is_file() && folder.join("manifests").is_dir()
                }
                None => run.contains_key(&test),
            };
            if !there {
                missing.push((row.number, test));
            }
        }
    }
    assert!(missing.is_empty(), "the table names what no test is, or is not run: {missing:?}");
}

#[test]
fn a_test_that_is_left_out_is_distinguished_from_one_that_is_run() {
    let text = "#[test]\nfn a() {}\n#[test]\n#[ignore = \"slow\"]\nfn b() {}\n// #[test]\nfn c() {}\n\
                proptest! {\n#[test]\nfn d(n in 0..9) {}\n}\n#[tokio::test(flavor = \"x\")]\nasync fn e() {}";
    let file = SourceFile { path: String::new(), text: text.to_owned() };
    let found: Vec<_> = tests_in(&file).into_iter().map(|test| (test.name, test.ignored)).collect();
    let expected = [("a", false), ("b", true), ("d", false), ("e", false)];
    assert_eq!(found, expected.map(|(name, ignored)| (name.to_owned(), ignored)));
}
