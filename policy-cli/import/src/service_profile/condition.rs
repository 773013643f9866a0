//! Conditions of routes as alternatives of a path and a method.

use crate::file::SourceNode;
use policy_crds::{METHODS, quote};

/// The most alternatives of a condition, and conditions inside conditions.
const MAX_ALTERNATIVES: usize = 64;
const MAX_DEPTH: usize = 16;

/// A path and a method, both of which must match; absent: any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConditionPart {
    /// A regular expression of whole paths.
    pub(super) path: Option<String>,
    /// A method.
    pub(super) method: Option<String>,
}

/// The alternatives of a condition, or the reason why there are none that can be said.
///
/// # Errors
/// It has another form than its definition says.
pub(super) fn alternatives(
    condition: &SourceNode<'_>,
) -> Result<Result<Vec<ConditionPart>, String>, String> {
    of_depth(condition, 0)
}

fn of_depth(
    condition: &SourceNode<'_>,
    depth: usize,
) -> Result<Result<Vec<ConditionPart>, String>, String> {
    if depth > MAX_DEPTH {
        return Ok(Err(format!("conditions in more than {MAX_DEPTH} others")));
    }
    condition.entries()?;
    if let Some((_, message)) = condition.unknown(&["pathRegex", "method", "all", "any", "not"]) {
        return Ok(Err(message));
    }
    if condition.get("not").is_some() {
        return Ok(Err("`not`: a route says what it matches, never what it does not".to_owned()));
    }
    let text = |key: &str| condition.get(key).map(|it| it.text()).transpose();
    // Linkerd takes an empty text for an absent one.
    let stated = |text: &&str| !text.is_empty();
    let path = text("pathRegex")?.filter(stated);
    let method = text("method")?.filter(stated);
    if let Some(method) = method.filter(|method| !METHODS.contains(method)) {
        return Ok(Err(format!("the method {} is none that a route can name", quote(method))));
    }
    let own = ConditionPart { path: path.map(str::to_owned), method: method.map(str::to_owned) };
    if own == ConditionPart::default()
        && condition.get("all").is_none()
        && condition.get("any").is_none()
    {
        return Err(condition.error("one of `pathRegex`, `method`, `all` and `any` is required"));
    }
    let mut found = vec![own];
    for inner in condition.list_of("all")? {
        match of_depth(&inner, depth.saturating_add(1))? {
            Ok(parts) => match met(&found, &parts) {
                Ok(both) => found = both,
                Err(reason) => return Ok(Err(reason)),
            },
            Err(reason) => return Ok(Err(reason)),
        }
    }
    if condition.get("any").is_none() {
        return Ok(Ok(found));
    }
    let any = condition.list_of("any")?;
    if any.is_empty() {
        return Ok(Err("`any` without a condition: it matches nothing".to_owned()));
    }
    let mut united = Vec::new();
    for inner in any {
        match of_depth(&inner, depth.saturating_add(1))? {
            Ok(parts) => united.extend(parts),
            Err(reason) => return Ok(Err(reason)),
        }
        if united.len() > MAX_ALTERNATIVES {
            return Ok(Err(format!("more than {MAX_ALTERNATIVES} alternatives")));
        }
    }
    Ok(met(&found, &united))
}

/// The alternatives in which one of each side holds.
fn met(one: &[ConditionPart], other: &[ConditionPart]) -> Result<Vec<ConditionPart>, String> {
    let mut both = Vec::new();
    for left in one {
        for right in other {
            let path = match (&left.path, &right.path) {
                (Some(path), Some(other)) if path != other => {
                    return Err(format!(
                        "the paths {} and {}: a route has one",
                        quote(path),
                        quote(other)
                    ));
                }
                (path, other) => path.clone().or_else(|| other.clone()),
            };
            let method = match (&left.method, &right.method) {
                (Some(method), Some(other)) if method != other => continue,
                (method, other) => method.clone().or_else(|| other.clone()),
            };
            both.push(ConditionPart { path, method });
            if both.len() > MAX_ALTERNATIVES {
                return Err(format!("more than {MAX_ALTERNATIVES} alternatives"));
            }
        }
    }
    if both.is_empty() {
        return Err("no request has two methods: it matches nothing".to_owned());
    }
    Ok(both)
}
