//! ReferenceGrant. Read strictly although the Gateway API may add fields: one that narrows a grant
//! must not be ignored.

use crate::kind::Kind;
use crate::object::{Claims, FieldError};
use crate::parse::input::{Draft, Input};
use crate::parse::name::{is_dns_label, is_dns_name};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote, shared};
use crate::resource::{ClaimedFrom, GrantClaims, GrantFrom, GrantTo, ReferenceGrant, Resource};
use policy_core::suggest::{nearest, nearest_within};
use std::sync::Arc;

/// The most entries of a list (Gateway API).
const MAX_ENTRIES: usize = 16;

pub(super) fn read(input: &Input<'_>) -> Draft {
    const SPEC: &[&str] = &["from", "to"];
    let Some(spec) = input.spec(AllowedFields::Only(SPEC)) else {
        return (None, Claims::ReferenceGrant(GrantClaims::default()));
    };
    let from = entries(&spec, SPEC, "from", from);
    let to = entries(&spec, SPEC, "to", to);
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
/// cannot be read. A list by a misspelt name, which is an error, is read in its place.
fn entries<T, C>(
    spec: &Fields<'_>,
    names: &[&str],
    name: &str,
    read: impl Fn(&JsonNode<'_>) -> (Option<T>, C),
) -> Vec<(Option<T>, C)> {
    let found = spec.meant(name, names).map(|(node, _)| node);
    let Some(node) = found.or_else(|| spec.require(name)) else { return Vec::new() };
    let Some(list) = node.list() else { return Vec::new() };
    if list.len() > MAX_ENTRIES {
        node.error(format!("{} elements, at most {MAX_ENTRIES} are allowed", list.len()));
    }
    if list.is_empty() {
        node.error("an empty list grants nothing, at least one entry is required");
    }
    list.iter().map(read).collect()
}

/// The group (`core` is the empty one; it must be written) and the kind. What no group or kind can be
/// called is an error, because an entry about nothing would take away what the grant was written for; so
/// is a kind that its group, whose kinds are all known here, does not have.
fn type_of(fields: &Fields<'_>) -> Option<(Arc<str>, Arc<str>)> {
    let group = fields.require("group").and_then(|node| {
        let group = node.text()?;
        let is_group = group.is_empty() || is_dns_name(&group.to_ascii_lowercase());
        if !is_group {
            let hint = if group.contains('/') { ", its version is left out" } else { "" };
            node.error(format!("{} is not a group{hint}", quote(group)));
        }
        is_group.then_some(if group == "core" { "" } else { group })
    });
    let kind = fields.require("kind").and_then(|node| {
        let kind = node.text_up_to(63)?;
        let mistake = group.and_then(|group| mistaken_kind(group, kind));
        if let Some(mistake) = &mistake {
            node.error(mistake);
        }
        mistake.is_none().then_some(kind)
    });
    Some((shared(group?), shared(kind?)))
}

/// The error about a kind that its group does not have: one in other capitals, or any other in a group of
/// policy. Other groups have kinds that are not read.
fn mistaken_kind(group: &str, kind: &str) -> Option<String> {
    let of_group = || Kind::ALL.into_iter().filter(|own| own.group().eq_ignore_ascii_case(group));
    let names: Vec<&str> = of_group().map(Kind::as_str).collect();
    if names.contains(&kind) {
        return None;
    }
    if let Some(meant) = names.iter().find(|name| name.eq_ignore_ascii_case(kind)) {
        return Some(format!("unknown kind {}, did you mean `{meant}`?", quote(kind)));
    }
    let is_known_whole = Kind::is_of_this_project(&group.to_ascii_lowercase());
    is_known_whole.then(|| match nearest(kind, &names) {
        Some(near) => format!("unknown kind {}, did you mean `{near}`?", quote(kind)),
        None => format!("unknown kind {}, expected {}", quote(kind), one_of(&names)),
    })
}

/// The remarks on entries whose group or kind is nearly one that is read here: references by them would
/// be permitted nowhere.
pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::ReferenceGrant(grant) = resource else { return Vec::new() };
    let groups: Vec<&str> =
        Kind::ALL.map(Kind::group).into_iter().filter(|it| it.contains('.')).collect();
    let near = |group: &str, kind: &str| {
        if group.is_empty() {
            let named =
                Kind::ALL.into_iter().find(|own| own.is_custom() && own.as_str() == kind)?;
            return Some(("group", named.group()));
        }
        let is_known = |known: &&&str| known.eq_ignore_ascii_case(group);
        if let Some(known) = groups.iter().find(is_known) {
            let of_group = Kind::ALL.into_iter().filter(|own| own.group() == *known);
            let names: Vec<&str> = of_group.map(Kind::as_str).collect();
            let near = nearest_within(kind, &names, 1).filter(|near| *near != kind)?;
            return Some(("kind", near));
        }
        nearest_within(group, &groups, 2).map(|near| ("group", near))
    };
    let of = |list: &str, i: usize, group: &str, kind: &str| {
        let (field, near) = near(group, kind)?;
        let message = format!("is nothing that is known here, did you mean `{near}`?");
        Some(FieldError::new(&*format!("spec.{list}[{i}].{field}"), message))
    };
    let from =
        grant.from.iter().enumerate().filter_map(|(i, it)| of("from", i, &it.group, &it.kind));
    let to = grant.to.iter().enumerate().filter_map(|(i, it)| of("to", i, &it.group, &it.kind));
    from.chain(to).collect()
}

/// The entry, or the part of it that can be read.
fn from(node: &JsonNode<'_>) -> (Option<GrantFrom>, Option<ClaimedFrom>) {
    let ((kind, namespace), whole) = node.examined(|node| {
        const FROM: &[&str] = &["group", "kind", "namespace"];
        let Some(fields) = node.fields(AllowedFields::Only(FROM)) else { return (None, None) };
        let kind = type_of(&fields);
        let namespace = fields.meant("namespace", FROM).map(|(node, _)| node);
        let namespace = namespace.or_else(|| fields.require("namespace"));
        (kind, namespace.and_then(|node| from_namespace(&node)))
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
