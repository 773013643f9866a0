//! The kind of a value, by `apiVersion` and `kind`.

use super::error::{NotAnObject, fail};
use super::input::TOP_LEVEL;
use super::part::MAX_LIST_DEPTH;
use crate::kind::Kind;
use crate::object::FieldError;
use crate::reader::{Fields, describe, one_of, quote};
use policy_core::suggest::{nearest, nearest_within};

/// The kind and version that a value says it is.
pub(super) struct Named<'a> {
    /// The kind, or the one that was meant.
    pub(super) kind: Kind,
    /// The version, without the group.
    pub(super) version: &'a str,
    /// The error about the field that names another kind than the one that was meant. The object is
    /// invalid then, and keeps what it claims.
    pub(super) mistake: Option<FieldError>,
}

/// Returns the kind and version of a value.
pub(super) fn kind_of<'a>(fields: &Fields<'a>) -> Result<Named<'a>, NotAnObject> {
    let mut mistake = None;
    let mut text = |name: &str| {
        let without = || NotAnObject::WithoutKind { field: name.to_owned() };
        let (node, misspelt) = fields.meant(name, TOP_LEVEL).ok_or_else(without)?;
        mistake = mistake.take().or(misspelt);
        match node.value().as_str() {
            Some("") => Err(fail(name, "must not be empty")),
            Some(text) => Ok(text),
            None => Err(fail(name, &format!("expected text, found {}", describe(node.value())))),
        }
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if (api_version, kind) == ("v1", "List") {
        // A readable list has been split into its items before.
        return Err(NotAnObject::Field {
            field: "items".to_owned(),
            message: format!(
                "expected a list, in at most {MAX_LIST_DEPTH} lists around it: nothing of it is read"
            ),
        });
    }
    let (group, version) = match api_version.rsplit_once('/') {
        Some(both) => both,
        // A group whose version is missing: the object is invalid, and keeps what it claims.
        None if Kind::ALL.iter().any(|kind| kind.group() == api_version) => (api_version, ""),
        None => ("", api_version),
    };
    // Group and kind of a manifest are exact for the API server; references are compared without
    // case.
    match Kind::ALL.into_iter().find(|k| k.group() == group && k.as_str() == kind) {
        Some(kind) => Ok(Named { kind, version, mistake }),
        None => mistaken(api_version, group, kind).map_err(|error| match mistake {
            // The value is hardly an object.
            Some(_) => NotAnObject::WithoutKind { field: "kind".to_owned() },
            None => error,
        }),
    }
}

/// Returns the kind that was meant where there is none of this group and name.
fn mistaken<'a>(api_version: &str, group: &str, kind: &str) -> Result<Named<'a>, NotAnObject> {
    let meant = |kind: Kind, field: &str, message: String| {
        let version = kind.versions().first().copied().unwrap_or_default();
        Named { kind, version, mistake: Some(FieldError::new(field, message)) }
    };
    // The right kind in a wrong group. Not for core and `apps` kinds, whose names are too common.
    let elsewhere: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|k| k.as_str().eq_ignore_ascii_case(kind) && k.group().contains('.'))
        .collect();
    if let Some(first) = nearest_group(&elsewhere, group) {
        return Ok(meant(first, "apiVersion", wrong_group(&elsewhere, api_version, kind)));
    }
    let of_group = || Kind::ALL.into_iter().filter(|k| k.group() == group);
    let names: Vec<&str> = of_group().map(Kind::as_str).collect();
    // Other groups have kinds that are not read, with names that are nearly those of others.
    let edits = if Kind::is_of_this_project(group) { kind.len() } else { 1 };
    if let Some(name) = nearest_within(kind, &names, edits)
        && let Some(found) = of_group().find(|k| k.as_str() == name)
    {
        let message = format!("unknown kind {}, did you mean `{name}`?", quote(kind));
        return Ok(meant(found, "kind", message));
    }
    if !Kind::is_of_this_project(group) {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        return Err(NotAnObject::Foreign { api_version, kind });
    }
    let message = format!("unknown kind {}, expected {}", quote(kind), one_of(&names));
    Err(NotAnObject::Mistaken { field: "kind".to_owned(), message })
}

/// Returns one of `kinds`, which have one name: that of the group that `group` looks like, otherwise the
/// first. `None`: another project's kind may have the name, too.
fn nearest_group(kinds: &[Kind], group: &str) -> Option<Kind> {
    let known = Kind::ALL.map(Kind::group);
    let dotted: Vec<&str> = known.into_iter().filter(|group| group.contains('.')).collect();
    let near = nearest(group, &dotted);
    let is_near = |kind: &&Kind| near == Some(kind.group());
    let is_end =
        |kind: &&Kind| kind.group().strip_suffix(group).is_some_and(|before| before.ends_with('.'));
    let is_within =
        |kind: &&Kind| group.strip_suffix(kind.group()).is_some_and(|before| before.ends_with('.'));
    let close = kinds.iter().find(is_near).or_else(|| kinds.iter().find(is_end));
    let close = close.or_else(|| kinds.iter().find(is_within));
    let has_no_such_kind = known.contains(&group) || near.is_some() || is_of_kubernetes(group);
    // Gateway API has a TCPRoute of its own, which is not read.
    let is_shared = |kind: &&Kind| **kind == Kind::SmiTcpRoute;
    let first = kinds.first().filter(|kind| has_no_such_kind && !is_shared(kind));
    close.or(first).copied()
}

/// True for a group that only Kubernetes itself may define, where no kind of another group is: one without
/// a dot, such as `policy`, and those below `k8s.io`.
fn is_of_kubernetes(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// The message about a kind in a group that has none of its name.
fn wrong_group(right: &[Kind], api_version: &str, kind: &str) -> String {
    let in_full = |k: &Kind| format!("{}/{}", k.group(), k.versions().first().unwrap_or(&"v1"));
    let options: Vec<String> = right.iter().map(in_full).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let name = right.first().map_or(kind, |k| k.as_str());
    let (found, said) = (quote(api_version), quote(kind));
    if name == kind {
        format!("{name} is not in {found}, expected {}", one_of(&options))
    } else {
        format!("{said} is not a kind of {found}, did you mean `{name}`?")
    }
}
