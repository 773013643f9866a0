//! Parameters of paths: the values that a route can say.

use super::reference::{Resolved, resolve};
use super::version::ApiVersion;
use crate::file::SourceNode;
use crate::report::{Fidelity, ReportRow};
use policy_crds::quote;
use std::collections::BTreeMap;

/// The most values of a parameter that become paths of their own.
const MAX_VALUES: usize = 32;

/// The conditions of a schema that no route says.
const CONDITIONS: &[&str] = &[
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "type",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// The path parameters that have a few values each, by their names: those of an operation replace those of
/// its path.
///
/// # Errors
/// A parameter has another form than the format says, or a reference leads nowhere.
pub(super) fn path_values(
    parts: [&SourceNode<'_>; 2],
    version: ApiVersion,
    rows: &mut Vec<ReportRow>,
) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut found: BTreeMap<String, SourceNode<'_>> = BTreeMap::new();
    for part in parts {
        for node in part.list_of("parameters")? {
            let written = node.place();
            match resolve(node)? {
                Resolved::Here(node) => {
                    if node.text_of("in")? == "path" {
                        found.insert(node.text_of("name")?.to_owned(), node);
                    }
                }
                Resolved::Elsewhere(address) => rows.push(ReportRow::at(
                    written,
                    format!("parameter {}", quote(&address)),
                    Fidelity::Omitted,
                    "it is in another document, which is not read: any value is described",
                )),
            }
        }
    }
    let mut values = BTreeMap::new();
    for (name, node) in found {
        if let Some(known) = values_of(&name, &node, version, rows)? {
            values.insert(name, known);
        }
    }
    Ok(values)
}

fn values_of(
    name: &str,
    node: &SourceNode<'_>,
    version: ApiVersion,
    rows: &mut Vec<ReportRow>,
) -> Result<Option<Vec<String>>, String> {
    let schema = match version {
        ApiVersion::Swagger2 => node.clone(),
        ApiVersion::OpenApi3 => match node.get("schema") {
            None => {
                if let Some(content) = node.get("content") {
                    rows.push(row(name, &content, "the condition `content` is not checked"));
                }
                return Ok(None);
            }
            Some(schema) => match resolve(schema)? {
                Resolved::Here(schema) => schema,
                Resolved::Elsewhere(_) => {
                    rows.push(row(
                        name,
                        node,
                        "its schema is in another document, which is not read",
                    ));
                    return Ok(None);
                }
            },
        },
    };
    let mut listed = schema.list_of("enum")?;
    if let Some(constant) = schema.get("const") {
        // Both hold: a constant that the list has not is no value at all.
        if !listed.is_empty() && !listed.iter().any(|it| it.value() == constant.value()) {
            return Ok(Some(Vec::new()));
        }
        listed = vec![constant];
    }
    unchecked(name, &schema, listed.is_empty(), rows);
    if !listed.is_empty() {
        let texts: Option<Vec<String>> = listed.iter().map(SourceNode::scalar).collect();
        let texts = texts.filter(|it| it.len() <= MAX_VALUES && it.iter().all(|it| is_segment(it)));
        if texts.is_none() {
            let note = format!(
                "its values are not told apart: at most {MAX_VALUES}, each a segment of a path, are"
            );
            rows.push(row(name, &schema, &note));
        }
        return Ok(texts);
    }
    let Some(pattern) = schema.get("pattern") else { return Ok(None) };
    let values = alternatives(pattern.text()?);
    if values.is_none() {
        let note = format!("the pattern {} is not checked", quote(pattern.text()?));
        rows.push(row(name, &pattern, &note));
    }
    Ok(values)
}

/// Adds rows for the conditions of a schema that no route says; those of its type are said by a list of values.
fn unchecked(name: &str, schema: &SourceNode<'_>, is_free: bool, rows: &mut Vec<ReportRow>) {
    for key in CONDITIONS {
        let Some(node) = schema.get(key) else { continue };
        let of_type = ["type", "format"].contains(key);
        if of_type && (!is_free || node.value() == "string") {
            continue;
        }
        let note = format!("the condition {} is not checked", quote(key));
        if is_free {
            rows.push(row(name, &node, &note));
        } else {
            let subject = format!("values of {{{name}}}");
            rows.push(ReportRow::at(node.place(), subject, Fidelity::Omitted, note));
        }
    }
}

/// The row of a condition that no route of a group says.
fn row(name: &str, node: &SourceNode<'_>, note: &str) -> ReportRow {
    let note = format!("{note}: any segment is described");
    ReportRow::at(node.place(), format!("values of {{{name}}}"), Fidelity::Omitted, note)
}

/// True if a group reads it as a segment that stands for itself.
fn is_segment(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
    !text.is_empty() && text.chars().all(plain) && text.chars().any(|c| c != '.')
}

/// The texts that a regular expression lists and nothing besides: `^(cat|dog)$`. One without anchors
/// matches inside of values.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let list = match inner.strip_prefix('(') {
        Some(group) => group.strip_suffix(')')?,
        // `^a|b$` has one anchor for each.
        None if inner.contains('|') => return None,
        None => inner,
    };
    let list = list.strip_prefix("?:").unwrap_or(list);
    let texts: Vec<String> = list.split('|').map(str::to_owned).collect();
    let plain = |text: &String| is_segment(text) && !text.contains('.');
    (texts.len() <= MAX_VALUES && texts.iter().all(plain)).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_lists_texts_is_read_and_no_other() {
        let texts =
            |list: &[&str]| Some(list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(alternatives("^(cat|dog)$"), texts(&["cat", "dog"]));
        assert_eq!(alternatives("^(?:cat)$"), texts(&["cat"]));
        assert_eq!(alternatives("^cat$"), texts(&["cat"]));
        for other in
            ["cat|dog", "^cat|dog$", "^[0-9]+$", "^(a.b)$", "^(cat|)$", "^(cat)", "^(a)(b)$"]
        {
            assert_eq!(alternatives(other), None, "{other}");
        }
    }
}
