//! Rows of the table of effects on permitted requests.

use super::report::{EffectChange, RequestEffects, TimeoutEntry};
use super::requests::request_lines;

/// One row per effect; several rows about the same requests show these only once, the first beside the
/// last line of them.
pub(super) fn rows(effects: &[RequestEffects]) -> Vec<[String; 3]> {
    effects.iter().flat_map(entry_rows).collect()
}

fn entry_rows(entry: &RequestEffects) -> Vec<[String; 3]> {
    let RequestEffects { route, hosts, what, timeouts, changes } = entry;
    let mut lines = match route {
        Some(route) => request_lines(what, hosts, Some(route)),
        None => vec!["every request".to_owned()],
    };
    let beside = lines.split_off(if what.len() > 1 { what.len().min(lines.len()) } else { 0 });
    let mut rows = Vec::new();
    if !lines.is_empty() {
        rows.push([lines.join("\n"), String::new(), String::new()]);
    }
    let mut beside = Some(beside.join("\n"));
    let told = timeouts.iter().map(timeout).chain(changes.iter().map(change));
    rows.extend(told.map(|(words, by)| [beside.take().unwrap_or_default(), words, by]));
    rows
}

fn timeout(entry: &TimeoutEntry) -> (String, String) {
    let TimeoutEntry { bound: _, words, after, when, by } = entry;
    let lines = [format!("at most {after} {words}")];
    (told(&lines, when), by.clone())
}

fn change(entry: &EffectChange) -> (String, String) {
    let EffectChange { what, when, required, by } = entry;
    let mut words = told(what, when);
    if *required {
        words.push_str("\nor the request is refused");
    }
    (words, by.clone())
}

/// Lines and their conditions. Values of headers are as their authors wrote them: what would control a
/// terminal is replaced.
fn told(what: &[String], when: &[String]) -> String {
    let words = (0_usize..).zip(when).map(|(number, condition)| {
        let word = if number == 0 { "where" } else { "and" };
        format!("{word} {condition}")
    });
    let visible = |line: String| -> String {
        line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
    };
    what.iter().cloned().chain(words).map(visible).collect::<Vec<_>>().join("\n")
}
