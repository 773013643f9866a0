//! Permissions of a source: requests that are allowed or denied, the first that matches counts.

use crate::file::SourceNode;
use crate::mesh::{PathCondition, RequestCondition};
use policy_crds::quote;
use std::collections::BTreeMap;

/// The requests that permissions allow. What a denial before them may match is left out, and noted.
///
/// # Errors
/// They have another form than their definition says.
pub(super) fn allowed_requests(
    source: &SourceNode<'_>,
    mut note: impl FnMut(&str),
) -> Result<Vec<RequestCondition>, String> {
    let mut allowed = Vec::new();
    let mut denied: Vec<RequestCondition> = Vec::new();
    for permission in source.list_of("permissions")? {
        let action = permission.require("action")?;
        let is_allowed = match action.text()? {
            "allow" => true,
            "deny" => false,
            other => {
                let words = "`allow` and `deny` are allowed";
                return Err(action.error(format!("{}: {words}", quote(other))));
            }
        };
        let requests = match permission.unknown(&["action", "http"]) {
            Some((_, message)) => Err(message),
            None => requests(&permission.require("http")?)?,
        };
        match (is_allowed, requests) {
            (true, Ok(requests)) => {
                let clear =
                    |it: &RequestCondition| denied.iter().all(|other| it.is_apart_from(other));
                let (kept, lost): (Vec<_>, Vec<_>) = requests.into_iter().partition(clear);
                if !lost.is_empty() {
                    note("what a permission before it may deny is left out");
                }
                allowed.extend(kept);
            }
            (true, Err(reason)) => note(&reason),
            (false, Ok(requests)) => denied.extend(requests),
            (false, Err(reason)) => {
                note(&format!("{reason}: every request is denied from there on"));
                denied.push(RequestCondition::any());
            }
        }
    }
    Ok(allowed)
}

/// The conditions of a permission, one for each method; or why they cannot be said.
fn requests(http: &SourceNode<'_>) -> Result<Result<Vec<RequestCondition>, String>, String> {
    let paths = ["pathExact", "pathPrefix", "pathRegex"];
    if let Some((_, message)) = http.unknown(&["pathExact", "pathPrefix", "pathRegex", "methods"]) {
        return Ok(Err(message));
    }
    let mut path = PathCondition::Any;
    for (field, read) in paths.into_iter().zip([
        PathCondition::Exact as fn(String) -> PathCondition,
        PathCondition::Begins,
        PathCondition::Expression,
    ]) {
        let Some(text) = http.get(field).map(|it| it.text()).transpose()? else { continue };
        if path != PathCondition::Any {
            return Err(http.error("one of `pathExact`, `pathPrefix` and `pathRegex` is allowed"));
        }
        path = read(text.to_owned());
    }
    let methods = http.texts_of("methods")?;
    let methods: Vec<Option<String>> = match methods.is_empty() {
        true => vec![None],
        false => methods.into_iter().map(|it| Some(it.to_ascii_uppercase())).collect(),
    };
    let condition = |method| RequestCondition {
        path: path.clone(),
        method,
        headers: BTreeMap::new(),
        hosts: None,
    };
    Ok(Ok(methods.into_iter().map(condition).collect()))
}
