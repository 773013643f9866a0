//! NetworkAuthentication (docs/spec/controller.md 1.5, 4).

use crate::kind::Kind;
use crate::parse::input::Input;
use crate::parse::network::networks;
use crate::reader::AllowedFields;
use crate::render::definition::{Definition, Version};
use crate::render::profile::Profile;
use crate::render::schema::{self, object};
use crate::resource::{NetworkAuthentication, Resource};

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["networks"]))?;
    let node = spec.require("networks")?;
    let networks = networks(&node)?;
    if networks.is_empty() {
        node.error("an empty list grants nobody, name at least one network");
        return None;
    }
    Some(Resource::NetworkAuthentication(NetworkAuthentication { networks }))
}

pub(super) fn definition(_: Profile) -> Definition {
    let spec = object(
        "Clients by their address.",
        &[("networks", schema::networks("Networks, any of which suffices."))],
        &["networks"],
    );
    Definition {
        kind: Kind::NetworkAuthentication,
        short_names: Kind::NetworkAuthentication.spec().names.short,
        categories: &[],
        versions: Version::only(spec),
    }
}
