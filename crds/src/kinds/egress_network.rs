//! EgressNetwork (docs/spec/controller.md 1.9): checked, not used.

use crate::kind::Kind;
use crate::parse::input::Input;
use crate::parse::network::networks;
use crate::reader::AllowedFields;
use crate::render::conditions::conditions_status;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{self, object, one_of};
use crate::resource::Resource;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["trafficPolicy", "networks"]))?;
    let policy =
        spec.require("trafficPolicy").and_then(|node| node.choice(&[("Allow", ()), ("Deny", ())]));
    if let Some(node) = spec.get("networks")
        && networks(&node)?.is_empty()
    {
        node.error("an empty list covers nothing, remove the field to cover every network");
        return None;
    }
    policy.map(|()| Resource::Unused)
}

pub(super) fn definition(_: Profile) -> Definition {
    let policy = "Policy of traffic that no route names.";
    let spec = object(
        "Networks outside the cluster.",
        &[
            ("trafficPolicy", one_of(policy, &["Allow", "Deny"])),
            ("networks", schema::networks("The networks; absent: all outside the cluster.")),
        ],
        &["trafficPolicy"],
    );
    Definition {
        kind: Kind::EgressNetwork,
        short_names: &[],
        categories: &["policy"],
        versions: vec![Version {
            name: "v1alpha1",
            storage: true,
            deprecated: None,
            columns: &[],
            spec,
            status: Status::Always(conditions_status()),
        }],
    }
}
