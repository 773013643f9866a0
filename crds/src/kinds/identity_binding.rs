//! IdentityBinding of SMI (v1alpha4, a draft): pods and clients by name.

use crate::parse::identity::identity;
use crate::parse::input::{Input, TOP_LEVEL};
use crate::parse::label::selector;
use crate::parse::name::object_name;
use crate::reader::AllowedFields;
use crate::resource::{IdentityBinding, Resource};

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    input.root.refuse_unknown(TOP_LEVEL);
    let spec = input.spec(AllowedFields::Only(&["schemes"]))?;
    let schemes = spec.require("schemes")?.fields(AllowedFields::Only(&[
        "serviceAccount",
        "podLabelSelector",
        "podLabelSelectors",
        "spiffeIdentities",
    ]))?;
    let account = match schemes.get("serviceAccount") {
        Some(node) => Some(object_name(&node)?),
        None => None,
    };
    let mut selectors = match schemes.get("podLabelSelectors") {
        Some(node) => node.list_of(selector)?,
        None => Vec::new(),
    };
    if let Some(node) = schemes.get("podLabelSelector") {
        selectors.push(selector(&node)?);
    }
    let spiffe = match schemes.get("spiffeIdentities") {
        Some(node) => node.list_of(|node| {
            let is_one = node.text()?.starts_with("spiffe://");
            if !is_one {
                node.error("a SPIFFE id is expected, such as `spiffe://domain/path`");
            }
            identity(node).filter(|_| is_one)
        })?,
        None => Vec::new(),
    };
    if account.is_some() && !selectors.is_empty() {
        schemes.error("`serviceAccount` and labels of pods: one of both is allowed");
        return None;
    }
    Some(Resource::IdentityBinding(IdentityBinding { account, selectors, spiffe }))
}
