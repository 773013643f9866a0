//! NetworkAuthentication (controller-semantics 1.5, 4).

use super::input::Input;
use super::network::networks;
use crate::reader::Known;
use crate::resource::{NetworkAuthentication, Resource};

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(Known::Only(&["networks"]))?;
    let node = spec.require("networks")?;
    let networks = networks(&node)?;
    if networks.is_empty() {
        node.error("an empty list grants nobody, name at least one network");
        return None;
    }
    Some(Resource::NetworkAuthentication(NetworkAuthentication { networks }))
}
