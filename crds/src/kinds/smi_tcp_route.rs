//! TCPRoute of SMI, v1alpha1 to v1alpha4. Before v1alpha3 it has no fields and means every port.

use super::smi_fields::port;
use crate::parse::input::{Input, TOP_LEVEL};
use crate::reader::{AllowedFields, Fields, JsonNode};
use crate::resource::{Resource, SmiTcpRoute};
use std::collections::BTreeSet;
use std::num::NonZeroU16;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    input.root.refuse_unknown(TOP_LEVEL);
    let ports = match input.root.get("spec") {
        Some(node) => ports(&node.fields(AllowedFields::Only(&["matches"]))?)?,
        None => None,
    };
    Some(Resource::SmiTcpRoute(SmiTcpRoute { ports }))
}

/// The ports of a spec; `None` inside: every one.
fn ports(spec: &Fields<'_>) -> Option<Option<BTreeSet<NonZeroU16>>> {
    let Some(node) = spec.get("matches") else { return Some(None) };
    let maps = match node.value().is_array() {
        true => node.list()?,
        false => vec![node],
    };
    let mut all = BTreeSet::new();
    let mut every = false;
    for map in &maps {
        match of_match(map)? {
            Some(ports) => all.extend(ports),
            None => every = true,
        }
    }
    Some((!every).then_some(all))
}

fn of_match(node: &JsonNode<'_>) -> Option<Option<Vec<NonZeroU16>>> {
    let fields = node.fields(AllowedFields::Only(&["name", "ports"]))?;
    match fields.get("ports") {
        Some(node) => node.list_of(port).map(Some),
        None => Some(None),
    }
}
