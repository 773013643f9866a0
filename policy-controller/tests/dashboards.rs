//! The dashboard and the alerts ask for metrics and labels that exist, and every alert is explained.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends where it cannot go on"
)]

use policy_enforce::telemetry::names;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every metric of docs/metrics.md, which other tests hold against the code; with its labels where they
/// are known.
fn known() -> BTreeMap<String, Option<BTreeSet<&'static str>>> {
    let text = file("docs/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut known: BTreeMap<String, Option<BTreeSet<&'static str>>> =
        rows.map(|(name, _)| (name.to_owned(), None)).collect();
    for metric in names::all() {
        let mut labels: BTreeSet<&str> = names::label_names(metric).into_iter().collect();
        // Labels that the scraper adds, and those of histograms.
        labels.extend(["namespace", "pod", "le"]);
        known.insert(metric.name.to_owned(), Some(labels));
    }
    known
}

#[derive(Debug, Default, PartialEq)]
struct Asked {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
}

/// The metrics and labels of a PromQL expression.
fn asked(expression: &str) -> Asked {
    const WORDS: &[&str] = &[
        "sum",
        "min",
        "max",
        "avg",
        "count",
        "by",
        "without",
        "on",
        "ignoring",
        "and",
        "or",
        "unless",
        "offset",
        "bool",
        "group_left",
        "group_right",
        "inf",
    ];
    const GROUPS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    let mut asked = Asked::default();
    let (mut rest, mut last, mut within) = (expression, String::new(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let word = &rest[..word.unwrap_or(rest.len())];
        if first == '"' {
            let end = rest[1..].find('"').expect("a quote ends") + 2;
            rest = &rest[end..];
        } else if first == '[' {
            rest = &rest[rest.find(']').expect("a range ends") + 1..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            rest = &rest[word.len()..];
            let called = rest.trim_start().starts_with('(');
            match within.last() {
                Some(true) => {
                    asked.labels.insert(word.to_owned());
                }
                _ if WORDS.contains(&word) || called => {}
                _ => {
                    asked.metrics.insert(word.to_owned());
                }
            }
            last = word.to_owned();
        } else if !word.is_empty() {
            rest = &rest[word.len()..];
        } else {
            match first {
                '{' => within.push(true),
                '(' => within.push(GROUPS.contains(&&*last)),
                '}' | ')' => drop(within.pop().expect("as many open as close")),
                _ => {}
            }
            if !first.is_whitespace() {
                last.clear();
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    assert!(within.is_empty(), "open in {expression}");
    asked
}

/// Holds an expression to the metrics that exist, and to their labels where those of all of its metrics are
/// known: whether they are.
fn check(what: &str, expression: &str) -> bool {
    let (known, asked) = (known(), asked(expression));
    assert!(!asked.metrics.is_empty(), "{what}: no metric in {expression}");
    let mut labels: Option<BTreeSet<&str>> = Some(BTreeSet::new());
    for name in &asked.metrics {
        let suffixes = ["", "_total", "_bucket", "_sum", "_count", "_info"];
        let base = suffixes.iter().filter_map(|suffix| name.strip_suffix(suffix));
        let found = base.filter_map(|base| known.get(base)).next();
        let found = found.unwrap_or_else(|| panic!("{what}: there is no metric {name}"));
        labels = labels.zip(found.clone()).map(|(mut all, own)| {
            all.extend(own);
            all
        });
    }
    let Some(labels) = labels else { return false };
    for label in &asked.labels {
        assert!(labels.contains(&**label), "{what}: no metric of {expression} has {label}");
    }
    !asked.labels.is_empty()
}

/// Every text under a key of this name, with the nearest title above it.
fn expressions(value: &Value, title: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let mut names =
                ["title", "alert"].iter().filter_map(|name| fields.get(*name)?.as_str());
            let title = names.next_back().unwrap_or(title);
            for (name, field) in fields {
                match (&**name, field.as_str()) {
                    ("expr", Some(text)) => found.push((title.to_owned(), text.to_owned())),
                    _ => expressions(field, title, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, title, found)),
        _ => {}
    }
}

fn alerts() -> Value {
    let mut documents = policy_crds::document::read(&file("charts/portcullis/alerts.yaml"));
    assert_eq!(documents.len(), 1);
    documents.remove(0).value.unwrap()
}

#[test]
fn expressions_are_taken_apart() {
    let expression = r#"sum by (le, a) (rate(x_bucket{b="c{",d=~"e"}[5m])) / 0.5 > time() and y"#;
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected = Asked { metrics: set(&["x_bucket", "y"]), labels: set(&["le", "a", "b", "d"]) };
    assert_eq!(asked(expression), expected);
}

#[test]
fn the_dashboard_asks_for_what_exists() {
    let dashboard: Value =
        serde_json::from_str(&file("charts/portcullis/dashboards/portcullis.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, "", &mut found);
    assert!(found.len() > 30, "{}", found.len());
    let mut labelled = 0;
    for (title, expression) in found {
        let expression = expression.replace("$namespace", "n").replace("$pod", "p");
        labelled += usize::from(check(&format!("panel {title}"), &expression));
    }
    assert!(labelled >= 10, "only {labelled} panels are held to labels");
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has its own id");
}

#[test]
fn the_alerts_ask_for_what_exists_and_are_explained() {
    let mut found = Vec::new();
    expressions(&alerts(), "", &mut found);
    assert!(found.len() > 10, "{}", found.len());
    let guide = file("docs/operations.md");
    let explained: BTreeSet<&str> = guide
        .lines()
        .filter_map(|line| line.strip_prefix("| `Portcullis"))
        .filter_map(|line| Some(line.split_once('`')?.0))
        .collect();
    let names: BTreeSet<&str> =
        found.iter().filter_map(|(name, _)| name.strip_prefix("Portcullis")).collect();
    assert_eq!(explained, names, "docs/operations.md has a row for each alert");
    let labelled = found.iter().filter(|(alert, expression)| check(alert, expression)).count();
    assert!(labelled > 0, "no alert is held to labels");
}
