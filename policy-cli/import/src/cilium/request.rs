//! Requests of rules. Their paths are regular expressions that Cilium matches with the query, too.

use crate::file::SourceNode;
use crate::mesh::{PathCondition, RequestCondition, escaped};
use policy_crds::quote;
use std::collections::BTreeMap;

/// The requests of the rules of a port, and what is lost of them.
///
/// # Errors
/// They have another form.
pub(super) fn requests(
    rules: &SourceNode<'_>,
) -> Result<(Vec<RequestCondition>, Vec<String>), String> {
    rules.entries()?;
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    if let Some((_, message)) = rules.unknown(&["http"]) {
        return Ok((found, vec![message]));
    }
    for rule in rules.list_of("http")? {
        rule.entries()?;
        if let Some((_, message)) = rule.unknown(&["path", "method", "headers"]) {
            notes.push(message);
            continue;
        }
        let text = |key: &str| rule.get(key).map(|it| it.text()).transpose();
        let path = path(text("path")?.unwrap_or_default());
        let methods = methods(text("method")?.unwrap_or_default());
        let headers = headers(&rule.texts_of("headers")?);
        match (path, methods, headers) {
            (Ok(path), Ok(methods), Ok(headers)) => {
                if matches!(path, PathCondition::Expression(_)) {
                    notes.push("an expression is compared without the query here".to_owned());
                }
                found.extend(methods.into_iter().map(|method| RequestCondition {
                    path: path.clone(),
                    method,
                    headers: headers.clone(),
                    hosts: None,
                }));
            }
            (Err(reason), _, _) | (_, Err(reason), _) | (_, _, Err(reason)) => notes.push(reason),
        }
    }
    Ok((found, notes))
}

/// The condition of a path. An expression is of the path and the query there, of the path alone here: only one
/// that ends in any text admits every query to what it admits.
fn path(text: &str) -> Result<PathCondition, String> {
    if matches!(text, "" | ".*") {
        return Ok(PathCondition::Any);
    }
    let unsayable = || {
        format!(
            "the path {} is of the query, too: only one that ends in `.*` can be said",
            quote(text)
        )
    };
    let head = text.strip_suffix(".*").ok_or_else(unsayable)?;
    let slashes = head.chars().rev().take_while(|c| *c == '\\').count();
    if !slashes.is_multiple_of(2) {
        return Err(unsayable());
    }
    if let Some(prefix) = literal(head) {
        return Ok(PathCondition::Begins(prefix));
    }
    // An alternative at the top may have another end.
    let alternative = head.contains('|') && (head.contains(['[', '\\']) || has_top_level_bar(head));
    let has_ends = ["(?", "\\Q", "$", "\\z", "\\b", "\\B"].iter().any(|it| head.contains(it));
    if alternative || has_ends {
        return Err(format!("the path {} has alternatives, flags or ends of its own", quote(text)));
    }
    Ok(PathCondition::Expression(text.to_owned()))
}

fn has_top_level_bar(text: &str) -> bool {
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// The text that an expression is, if it matches no other one.
fn literal(expression: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next().filter(char::is_ascii_punctuation)?),
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return None;
            }
            plain => text.push(plain),
        }
    }
    Some(text)
}

/// The methods of an expression that is one name, or several with `|` between them.
fn methods(text: &str) -> Result<Vec<Option<String>>, String> {
    if matches!(text, "" | ".*") {
        return Ok(vec![None]);
    }
    let inner = text.strip_prefix('(').and_then(|it| it.strip_suffix(')')).unwrap_or(text);
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    match inner.split('|').all(is_name) {
        true => Ok(inner.split('|').map(|name| Some(name.to_owned())).collect()),
        false => Err(format!("the method {} is an expression", quote(text))),
    }
}

/// Headers: a name that is present, or a name and its value.
fn headers(texts: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for text in texts {
        let (name, value) = match text.split_once([':', ' ']) {
            Some((name, value)) => (name, escaped(value.trim())),
            None => (*text, ".*".to_owned()),
        };
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() || name == "host" || found.insert(name, value).is_some() {
            return Err(format!("the header {} cannot be said", quote(text)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_out_queries_cannot_be_said() {
        let begins = |text: &str| Ok(PathCondition::Begins(text.to_owned()));
        assert_eq!(path(""), Ok(PathCondition::Any));
        assert_eq!(path("/api/.*"), begins("/api/"));
        assert_eq!(path(r"/v1\.0/.*"), begins("/v1.0/"));
        let expression = PathCondition::Expression("/a/[0-9]+/.*".into());
        assert_eq!(path("/a/[0-9]+/.*"), Ok(expression));
        for text in [
            "/public",
            r"/a\.*",
            "/a|/b.*",
            "(?i)/a.*",
            "/[(]|/b.*",
            r"/\Qa.*",
            "/[a]$.*",
            r"/[a]\B.*",
        ] {
            assert!(path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn methods_are_names() {
        let named = |names: &[&str]| Ok(names.iter().map(|it| Some((*it).to_owned())).collect());
        assert_eq!(methods("GET"), named(&["GET"]));
        assert_eq!(methods("(GET|PUT)"), named(&["GET", "PUT"]));
        assert_eq!(methods(""), Ok(vec![None]));
        assert!(methods("G.*").is_err() && methods("get").is_err() && methods("GET|").is_err());
    }
}
