//! Values of the chart that pages name, and those that commands set.

use crate::command_lines;
use crate::pages::{Fault, Line, Page, none, own_pages};
use policy_crds::Kind;
use policy_tests::sources::root;
use serde_json::Value;
use std::sync::OnceLock;

/// Names that begin like a value and are none, with the reason.
const OTHERS: [(&str, &str); 1] =
    [("identity.l5d.io", "the audience of the tokens of Linkerd's proxies")];

fn values() -> &'static Value {
    static VALUES: OnceLock<Value> = OnceLock::new();
    VALUES.get_or_init(|| {
        let path = root().join("charts/portcullis/values.yaml");
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    })
}

/// True if the chart has this value. What is empty by default may hold any key.
fn exists(name: &str) -> bool {
    let mut value = values();
    for key in name.split('.') {
        let open = value.as_object().is_some_and(serde_json::Map::is_empty) || value.is_null();
        match value.get(key) {
            Some(inner) => value = inner,
            None => return open,
        }
    }
    true
}

/// The value that a piece of code is about: `policy.default`, `policy.default=deny`,
/// `identity.mode: external`.
fn named(code: &str) -> Option<&str> {
    let name = code.split(['=', ':', ' ']).next()?;
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    let top = name.split('.').next()?;
    let file = [".md", ".rs", ".json", ".yaml"].iter().any(|end| name.ends_with(end));
    let is_name = name.contains('.') && name.split('.').all(plain) && !file;
    let ours = values().get(top).is_some();
    let group = Kind::ALL.iter().any(|kind| kind.group() == name);
    let other = OTHERS.iter().any(|(other, _)| *other == name);
    (is_name && ours && !group && !other).then_some(name)
}

/// The values that `--set` sets in a command.
fn set(words: &[String]) -> Vec<&str> {
    let mut names = Vec::new();
    for pair in words.windows(2) {
        if ["--set", "--set-string"].contains(&pair[0].as_str()) {
            let all = pair[1].split(',').filter_map(|one| one.split_once('='));
            names.extend(all.map(|(name, _)| name));
        }
    }
    names
}

pub(crate) fn faults(page: &Page) -> (usize, Vec<Fault>) {
    let (mut count, mut faults) = (0, Vec::new());
    let mut look = |line: &Line, name: &str| {
        count += 1;
        if !exists(name) {
            faults.push(page.fault(line, "value", name, "values.yaml has none"));
        }
    };
    for line in &page.lines {
        for span in line.spans() {
            named(&span.code).into_iter().for_each(|name| look(line, name));
        }
    }
    for (line, words) in command_lines::all(page) {
        set(&words).into_iter().for_each(|name| look(line, name));
    }
    (count, faults)
}

#[test]
fn every_value_that_a_page_names_is_one_of_the_chart() {
    let (mut count, mut lost) = (0, Vec::new());
    for page in own_pages() {
        let (names, faults) = faults(&page);
        count += names;
        lost.extend(faults);
    }
    assert!(count > 40, "{count}");
    none(lost);
}
