//! ReferenceGrant. Read strictly although the Gateway API may add fields: one that narrows a grant
//! must not be ignored.

use crate::object::Claims;
use crate::parse::input::{Draft, Input};
use crate::parse::name::is_dns_label;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{ClaimedFrom, GrantClaims, GrantFrom, GrantTo, ReferenceGrant, Resource};
use std::sync::Arc;

/// The most entries of a list (Gateway API).
const MAX_ENTRIES: usize = 16;

pub(super) fn read(input: &Input<'_>) -> Draft {
    const SPEC: &[&str] = &["from", "to"];
    let Some(spec) = input.spec(AllowedFields::Only(SPEC)) else {
        return (None, Claims::ReferenceGrant(GrantClaims::default()));
    };
    let from = entries(&spec, "from", from);
    let to = entries(&spec, "to", to);
    let mut claims = GrantClaims::default();
    for (entry, claimed) in &from {
        let whole = entry.as_ref().map(claimed_from);
        claims.from.extend(whole.or_else(|| claimed.clone()));
    }
    claims.to_unread = to.is_empty() || to.iter().any(|(entry, ())| entry.is_none());
    claims.to.extend(to.iter().filter_map(|(entry, ())| entry.clone()));
    let from: Option<Vec<GrantFrom>> = from.into_iter().map(|(entry, _)| entry).collect();
    let to: Option<Vec<GrantTo>> = to.into_iter().map(|(entry, ())| entry).collect();
    let grant =
        from.zip(to).map(|(from, to)| Resource::ReferenceGrant(ReferenceGrant { from, to }));
    (grant, Claims::ReferenceGrant(claims))
}

/// The claims of a grant that was valid.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::ReferenceGrant(grant)) = resource else {
        return Claims::ReferenceGrant(GrantClaims::default());
    };
    let from = grant.from.iter().map(claimed_from).collect();
    Claims::ReferenceGrant(GrantClaims { from, to: grant.to.clone(), to_unread: false })
}

fn claimed_from(entry: &GrantFrom) -> ClaimedFrom {
    let GrantFrom { group, kind, namespace } = entry;
    ClaimedFrom { of: Some((group.clone(), kind.clone())), namespace: namespace.clone() }
}

/// The entries of a list, each with what can be read of one that cannot be read whole. Empty if the list
/// cannot be read.
fn entries<T, C>(
    spec: &Fields<'_>,
    name: &str,
    read: impl Fn(&JsonNode<'_>) -> (Option<T>, C),
) -> Vec<(Option<T>, C)> {
    let Some(node) = spec.require(name) else { return Vec::new() };
    let Some(list) = node.list() else { return Vec::new() };
    if list.len() > MAX_ENTRIES {
        node.error(format!("{} elements, at most {MAX_ENTRIES} are allowed", list.len()));
    }
    if list.is_empty() {
        node.error("an empty list grants nothing, at least one entry is required");
    }
    list.iter().map(read).collect()
}

/// The group (`core` is the empty one; it must be written) and the kind.
fn type_of(fields: &Fields<'_>) -> Option<(Arc<str>, Arc<str>)> {
    let group = fields.require("group").and_then(|node| node.text());
    let kind = fields.require("kind").and_then(|node| node.text_up_to(63));
    let group = group.map(|group| if group == "core" { "" } else { group });
    Some((shared(group?), shared(kind?)))
}

/// The entry, or the part of it that can be read.
fn from(node: &JsonNode<'_>) -> (Option<GrantFrom>, Option<ClaimedFrom>) {
    let ((kind, namespace), whole) = node.examined(|node| {
        let known = AllowedFields::Only(&["group", "kind", "namespace"]);
        let Some(fields) = node.fields(known) else { return (None, None) };
        let kind = type_of(&fields);
        (kind, fields.require("namespace").and_then(|node| from_namespace(&node)))
    });
    let Some(namespace) = namespace else { return (None, None) };
    match kind {
        Some((group, kind)) if whole => (Some(GrantFrom { group, kind, namespace }), None),
        of => (None, Some(ClaimedFrom { of, namespace })),
    }
}

fn from_namespace(node: &JsonNode<'_>) -> Option<Arc<str>> {
    let text = node.text_up_to(63)?;
    if !is_dns_label(text) {
        let hint = if text == "*" { ", each namespace needs an entry" } else { "" };
        node.error(format!("{} is not a namespace{hint}", quote(text)));
        return None;
    }
    Some(shared(text))
}

fn to(node: &JsonNode<'_>) -> (Option<GrantTo>, ()) {
    let entry = node.clean(|node| {
        let fields = node.fields(AllowedFields::Only(&["group", "kind", "name"]))?;
        let (group, kind) = type_of(&fields)?;
        // Absent stands for every object of the kind; an empty name must not.
        let name = match fields.get("name") {
            Some(node) => Some(shared(node.text_up_to(253)?)),
            None => None,
        };
        Some(GrantTo { group, kind, name })
    });
    (entry, ())
}
