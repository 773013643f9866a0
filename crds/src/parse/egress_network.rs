//! EgressNetwork (controller-semantics 1.9): checked, not used.

use super::input::Input;
use super::network::networks;
use crate::reader::Known;
use crate::resource::Resource;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(Known::Only(&["trafficPolicy", "networks"]))?;
    let policy =
        spec.require("trafficPolicy").and_then(|node| node.choice(&[("Allow", ()), ("Deny", ())]));
    if let Some(node) = spec.get("networks")
        && networks(&node)?.is_empty()
    {
        node.error("an empty list covers nothing, remove the field to cover every network");
        return None;
    }
    policy.map(|()| Resource::EgressNetwork)
}
