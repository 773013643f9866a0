//! The kind of name that the text before a piece of code announces: "reason `x`", "Events `x` and `y`".

use crate::pages::{Line, cells, spans};

/// A piece of code, and the word that says what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) code: String,
    /// The announcing word in the singular, in small letters; empty: none.
    pub(crate) kind: &'static str,
}

/// The words that announce a name.
const WORDS: [&str; 6] = ["reason", "event", "condition", "metric", "alert", "annotation"];

/// The kind that a text ends with.
fn announced(before: &str) -> Option<&'static str> {
    let words = before.trim_end_matches(['(', '[', ' ']);
    let last = words.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let last = last.to_lowercase();
    let singular = last.strip_suffix('s').unwrap_or(&last);
    let gap = &before[words.len()..];
    let near = gap.chars().all(|c| " ([".contains(c));
    WORDS.into_iter().find(|word| near && singular == *word)
}

/// True if a text joins two names of one kind.
fn joins(between: &str) -> bool {
    let plain = between.trim().trim_matches(',').trim();
    ["", "and", "or"].contains(&plain)
}

/// The pieces of code in a text, with what announces them.
fn of_text(text: &str) -> Vec<Named> {
    let mut kind = "";
    let mut found = Vec::new();
    for (number, span) in spans(text).into_iter().enumerate() {
        kind = match announced(span.before) {
            Some(kind) => kind,
            None if number > 0 && joins(span.before) => kind,
            None => "",
        };
        found.push(Named { code: span.code, kind });
    }
    found
}

/// The pieces of code of a line. In a table, the head of a column announces what its cells begin with.
pub(crate) fn named(line: &Line) -> Vec<Named> {
    if !line.is_prose() {
        return Vec::new();
    }
    if !line.text.starts_with('|') {
        return of_text(&line.text);
    }
    let mut found = Vec::new();
    for (number, cell) in cells(&line.text).iter().enumerate() {
        let head = line.columns.get(number).map(String::as_str).unwrap_or_default();
        let kind = WORDS.into_iter().find(|word| *word == head).unwrap_or_default();
        let mut in_list = true;
        for (span, mut named) in spans(cell).into_iter().zip(of_text(cell)) {
            in_list &= joins(span.before);
            if in_list && named.kind.is_empty() {
                named.kind = kind;
            }
            found.push(named);
        }
    }
    found
}

#[test]
fn the_text_before_code_says_what_it_is() {
    let of = |text: &str| -> Vec<(String, &'static str)> {
        of_text(text).into_iter().map(|named| (named.code, named.kind)).collect()
    };
    let found =
        of("with reason `A` or `B`, an Event (`C`), the conditions [`D`](x), `E` alone, `F`");
    let kinds: Vec<&str> = found.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds, ["reason", "reason", "event", "condition", "", ""]);
}
