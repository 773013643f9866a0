//! Holds the table of bypass rules complete, and every test it names real.

use policy_tests::sources::{root, rust_files};
use std::collections::BTreeSet;
use std::fs;

/// The rules that this part of the product owns in full.
const OWNED: [std::ops::RangeInclusive<u32>; 4] = [1..=25, 27..=29, 31..=31, 33..=42];

struct Row {
    number: u32,
    tests: Vec<String>,
    owner: bool,
}

fn rows() -> Vec<Row> {
    let table = fs::read_to_string(root().join("tests/bypass-rules.md")).unwrap();
    let lines = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let held = cells.last().copied().unwrap_or_default();
            let tests = held.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            Row { number: cells[0].parse().unwrap(), tests, owner: held.contains("*owner*") }
        })
        .collect()
}

/// Names of functions that are tests.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in rust_files() {
        let mut marked = false;
        for line in file.text.lines().map(str::trim) {
            if line.contains("#[test]") || line.contains("#[tokio::test") {
                marked = true;
            }
            if marked && let Some((_, rest)) = line.split_once("fn ") {
                found.extend(rest.split('(').next().map(str::to_owned));
                marked = false;
            }
        }
    }
    found
}

#[test]
fn every_rule_has_its_row() {
    let numbers: Vec<u32> = rows().iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=42).collect::<Vec<_>>());
}

#[test]
fn every_owned_rule_is_held_by_a_test() {
    for row in rows() {
        let owned = OWNED.iter().any(|range| range.contains(&row.number));
        assert!(
            !owned || (!row.tests.is_empty() && !row.owner),
            "rule {} is held by nothing here",
            row.number
        );
        assert!(
            owned || row.owner || !row.tests.is_empty(),
            "rule {} has neither test nor owner",
            row.number
        );
    }
}

#[test]
fn every_test_named_exists() {
    let tests = tests();
    let missing: Vec<_> = rows()
        .into_iter()
        .flat_map(|row| row.tests.into_iter().map(move |test| (row.number, test)))
        .filter(|(_, test)| match test.strip_prefix("scenario:") {
            Some(folder) => !root().join("tests/scenarios").join(folder).is_dir(),
            None => !tests.contains(test),
        })
        .collect();
    assert!(missing.is_empty(), "the table names tests that do not exist: {missing:?}");
}
