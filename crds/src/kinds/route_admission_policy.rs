//! RouteAdmissionPolicy (docs/spec/delegation.md 3).

use crate::inbound::{NamespaceOwnership, RouteAdmission};
use crate::kind::Kind;
use crate::parse::input::Input;
use crate::parse::name::is_dns_label;
use crate::reader::{AllowedFields, JsonNode, quote, shared};
use crate::render::conditions::conditions;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{LABEL, list_of, matching, object, text};
use crate::resource::Resource;
use std::sync::Arc;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&[
        "namespaceOwnership",
        "wildcardPolicy",
        "rootNamespaces",
    ]))?;
    let word = |name: &str| match spec.get(name) {
        Some(node) => node.text().map(Some),
        None => Some(None),
    };
    let (ownership, wildcards) = (word("namespaceOwnership"), word("wildcardPolicy"));
    let namespaces = match spec.get("rootNamespaces") {
        Some(node) => {
            let list: Vec<Option<Arc<str>>> =
                node.list_up_to(1024)?.iter().map(root_namespace).collect();
            list.into_iter().collect()
        }
        None => Some(Vec::new()),
    };
    // A value of a later version must not widen anything: unknown means strict.
    let shares = NamespaceOwnership::InterNamespaceAllowed;
    let ownership =
        if ownership? == Some(shares.as_str()) { shares } else { NamespaceOwnership::Strict };
    let wildcards = wildcards? == Some("WildcardsAllowed");
    Some(Resource::RouteAdmission(RouteAdmission {
        ownership,
        wildcards,
        root_namespaces: namespaces?,
    }))
}

fn root_namespace(node: &JsonNode<'_>) -> Option<Arc<str>> {
    let text = node.text_up_to(63)?;
    if !is_dns_label(text) {
        node.error(format!("{} is not a namespace", quote(text)));
        return None;
    }
    Some(shared(text))
}

pub(super) fn definition(_: Profile) -> Definition {
    let ownership = "`Strict`: one namespace holds a host. `InterNamespaceAllowed`: namespaces may \
                     hold different paths of it. Every other value means `Strict`.";
    let wildcards =
        "`WildcardsDisallowed` or `WildcardsAllowed`. Every other value means the first.";
    let namespaces = "Namespaces that may have roots; empty: all.";
    let spec = object(
        "Rules for the hosts of InboundRoutes. Only the object named `default` counts.",
        &[
            ("namespaceOwnership", text(ownership)),
            ("wildcardPolicy", text(wildcards)),
            (
                "rootNamespaces",
                list_of(namespaces, matching("A namespace.", LABEL), None, Some(1024)),
            ),
        ],
        &[],
    );
    let effect = object(
        "The rules in effect.",
        &[("namespaceOwnership", text("Ownership.")), ("wildcardPolicy", text("Wildcards."))],
        &[],
    );
    let status = object(
        "Status of this object.",
        &[("conditions", conditions(true)), ("routeAdmission", effect)],
        &[],
    );
    Definition {
        kind: Kind::RouteAdmissionPolicy,
        short_names: Kind::RouteAdmissionPolicy.spec().names.short,
        categories: &[],
        versions: vec![Version {
            name: "v1alpha1",
            storage: true,
            deprecated: None,
            columns: &[("Ownership", "string", ".status.routeAdmission.namespaceOwnership")],
            spec,
            status: Status::Always(status),
        }],
    }
}
