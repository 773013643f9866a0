//! Fields that the kinds of SMI share.

use crate::parse::input::{Input, TOP_LEVEL};
use crate::reader::{AllowedFields, Fields, JsonNode};
use std::num::NonZeroU16;

/// The mapping that has these fields: `spec`, or the object itself in its oldest versions, which have no
/// `spec`. A field of another name is an error, because it may be one that narrows what is granted.
pub(super) fn holder<'a>(input: &Input<'a>, fields: &'static [&'static str]) -> Option<Fields<'a>> {
    let is_at_the_top = fields.iter().any(|field| input.root.get(field).is_some());
    if input.root.get("spec").is_some() || !is_at_the_top {
        input.root.refuse_unknown(TOP_LEVEL);
        return input.spec(AllowedFields::Only(fields));
    }
    for (name, node) in input.root.entries() {
        if !fields.contains(&name) && !TOP_LEVEL.contains(&name) {
            node.error(format!("unknown field, expected one of `{}`", fields.join("`, `")));
        }
    }
    Some(input.root.clone())
}

/// A number of a port.
pub(super) fn port(node: &JsonNode<'_>) -> Option<NonZeroU16> {
    let number = node.integer(1, i64::from(u16::MAX))?;
    NonZeroU16::new(u16::try_from(number).ok()?)
}
