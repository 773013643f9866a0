//! ReferenceGrant. Read strictly although the Gateway API may add fields: one that narrows a grant
//! must not be ignored.

use crate::parse::input::Input;
use crate::parse::name::is_dns_label;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::resource::{GrantFrom, GrantTo, ReferenceGrant, Resource};
use std::sync::Arc;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["from", "to"]))?;
    let from = entries(&spec, "from", from);
    let to = entries(&spec, "to", to);
    Some(Resource::ReferenceGrant(ReferenceGrant { from: from?, to: to? }))
}

fn entries<T>(
    spec: &Fields<'_>,
    name: &str,
    read: impl Fn(&JsonNode<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let node = spec.require(name)?;
    let list = node.list_up_to(16)?;
    if list.is_empty() {
        node.error("an empty list grants nothing, at least one entry is required");
        return None;
    }
    let read: Vec<Option<T>> = list.iter().map(read).collect();
    read.into_iter().collect()
}

/// The group (`core` is the empty one; it must be written) and the kind.
fn type_of(fields: &Fields<'_>) -> Option<(Arc<str>, Arc<str>)> {
    let group = fields.require("group").and_then(|node| node.text());
    let kind = fields.require("kind").and_then(|node| node.text_up_to(63));
    let group = group.map(|group| if group == "core" { "" } else { group });
    Some((shared(group?), shared(kind?)))
}

fn from(node: &JsonNode<'_>) -> Option<GrantFrom> {
    let fields = node.fields(AllowedFields::Only(&["group", "kind", "namespace"]))?;
    let kind = type_of(&fields);
    let namespace = fields.require("namespace").and_then(|node| {
        let text = node.text_up_to(63)?;
        if !is_dns_label(text) {
            let hint = if text == "*" { ", each namespace needs an entry" } else { "" };
            node.error(format!("{} is not a namespace{hint}", quote(text)));
            return None;
        }
        Some(shared(text))
    });
    let (group, kind) = kind?;
    Some(GrantFrom { group, kind, namespace: namespace? })
}

fn to(node: &JsonNode<'_>) -> Option<GrantTo> {
    let fields = node.fields(AllowedFields::Only(&["group", "kind", "name"]))?;
    let (group, kind) = type_of(&fields)?;
    // Absent stands for every object of the kind; an empty name must not.
    let name = match fields.get("name") {
        Some(node) => Some(shared(node.text_up_to(253)?)),
        None => None,
    };
    Some(GrantTo { group, kind, name })
}
