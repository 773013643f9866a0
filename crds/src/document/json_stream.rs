//! Streams of JSON: objects one after the other without YAML's separators, as `kubectl` reads them.

use serde_json::Value;
use std::ops::Range;

/// Returns the places of the values in a stream of JSON objects. `None` if the text is no such stream:
/// it is read as YAML, of which a single JSON value is a document.
pub(super) fn values(text: &str) -> Option<Vec<Range<usize>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut places = Vec::new();
    let mut end = 0;
    while let Some(value) = stream.next() {
        value.ok()?;
        let between = text.get(end..)?;
        let start = end.saturating_add(between.len().saturating_sub(between.trim_start().len()));
        end = stream.byte_offset();
        places.push(start..end);
    }
    let objects =
        places.iter().all(|place| text.get(place.clone()).is_some_and(|it| it.starts_with('{')));
    (objects && places.len() > 1).then_some(places)
}

/// Divides a text before its first line that separates documents of YAML.
pub(super) fn before_separator(text: &str) -> (&str, &str) {
    let mut at = 0_usize;
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            return text.split_at_checked(at).unwrap_or((text, ""));
        }
        at = at.saturating_add(line.len());
    }
    (text, "")
}
