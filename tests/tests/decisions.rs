//! Holds `tests/decisions.md` to the decisions: every difference from Linkerd and every section of
//! `docs/spec/decisions.md` is there, and every test and scenario that it names exists.

use policy_engine::compatibility::DIFFERENCES;
use policy_tests::sources::{root, test_names};
use std::fs;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// First cells of the tables in a text, without their heads.
fn matters(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|line| line.trim_matches('|').split(" | ").next().unwrap().trim()).collect()
}

/// A section from its heading to the next; panics if there is none.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
    rest.split("\n## ").next().unwrap()
}

fn headings(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

#[test]
fn every_decision_is_held_by_something() {
    let (decisions, held) = (read("docs/spec/decisions.md"), read("tests/decisions.md"));
    let names = DIFFERENCES.map(|difference| difference.name);
    assert_eq!(matters(section(&held, "Differences from Linkerd")), names);
    let headings = headings(&decisions);
    // The first section refers to the list of differences, and so does the last.
    let sections = headings.get(1..headings.len() - 1).unwrap();
    assert!(sections.len() >= 15, "{sections:?}");
    assert_eq!(matters(section(&held, "Sections")), sections);
}

#[test]
fn what_holds_a_decision_exists() {
    let (held, tests) = (read("tests/decisions.md"), test_names());
    let mut named = 0;
    for row in held.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let (matter, holders) = row.trim_matches('|').split_once(" | ").unwrap();
        let holders: Vec<&str> = holders.split('`').skip(1).step_by(2).collect();
        assert!(!holders.is_empty(), "nothing holds: {matter}");
        for name in holders {
            named += 1;
            let exists = match name.strip_prefix("scenario:") {
                Some(folder) => root().join("tests/scenarios").join(folder).is_dir(),
                None => tests.contains(name),
            };
            assert!(exists, "{matter}: there is no `{name}`");
        }
    }
    assert!(named > 100, "{named}");
}
