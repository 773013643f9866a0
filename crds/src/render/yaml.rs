//! Writes a value as YAML: block style, keys in alphabetical order, so that equal values are equal
//! files.

use serde_json::Value;
use std::fmt::Write;

/// The YAML of a value, with a line break at its end.
pub(super) fn write(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            for (i, key) in keys.into_iter().enumerate() {
                // The first key follows the dash of a list or the colon of its parent's line.
                if i > 0 || out.ends_with('\n') {
                    out.push_str(&" ".repeat(indent));
                }
                out.push_str(&scalar(key));
                out.push(':');
                child(map.get(key).unwrap_or(&Value::Null), indent, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 || out.ends_with('\n') {
                    out.push_str(&" ".repeat(indent));
                }
                out.push('-');
                out.push(' ');
                block(item, indent.saturating_add(2), out);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            out.push_str(&flow(value));
            out.push('\n');
        }
    }
}

fn child(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, indent.saturating_add(2), out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            out.push(' ');
            block(value, indent, out);
        }
    }
}

/// A value that fits in a line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// Text, in quotes unless every YAML reader takes it for text as it is.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let safe =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '$' | ' ');
    let plain = first
        && text.chars().all(safe)
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { quoted(text) }
}

/// Text in double quotes. JSON leaves characters as they are that YAML forbids, or takes for line breaks
/// and folds.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in Value::String(text.to_owned()).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_back() {
        let value = json!({
            "a": {"b": [], "c": {}, "d": [[1, 2], [], [{"x": 1, "y": null}]], "yes": "no"},
            "list": [{"z": 1, "a": {"b": [true, "true", "1", "", " x", "x ", "a: b", "# c", "é", "\n"]}}],
            "^p\\.$": -1.5,
        });
        let text = write(&value);
        let documents = crate::document::read(&text);
        assert_eq!(documents[0].value, Ok(value), "{text}");
    }

    #[test]
    fn what_yaml_forbids_or_folds_is_escaped() {
        let text = "a\u{0}\u{7f}\u{85}\u{9b}\u{2028}\u{feff}\u{ffff}\t\nb";
        let value = json!({"data": {"k": text}});
        let written = write(&value);
        let escaped = r#""a\u0000\u007f\u0085\u009b\u2028\ufeff\uffff\t\nb""#;
        assert_eq!(written, format!("data:\n  k: {escaped}\n"));
        assert_eq!(crate::document::read(&written)[0].value, Ok(value));
    }

    #[test]
    fn scalars_alone_are_written_too() {
        for value in [json!(1), json!("x"), json!([]), json!({}), json!(null), json!([[1]])] {
            let documents = crate::document::read(&write(&value));
            assert_eq!(documents[0].value, Ok(value));
        }
    }
}
