//! Delegations that are refused, with what would complete them. What is refused is the engine's
//! answer. Of an object in another namespace it tells the delegator nothing; here whatever the user may
//! list is looked at.

use super::report::{MissingItem, RefusedItem};
use crate::grants::manifest::GrantManifests;
use crate::inventory::Inventory;
use policy_core::HostPattern;
use policy_crds::{Body, Kind, ObjectKey};
use policy_engine::conditions::Reason;
use policy_engine::references::ReferencePermission;
use policy_engine::trees::{EdgeFault, TreeNode};
use serde_json::{Value, json};

/// Finds what delegations lack.
pub(super) struct Missing<'a> {
    inventory: &'a Inventory,
    manifests: GrantManifests,
}

impl<'a> Missing<'a> {
    /// Nothing is made yet.
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        let objects = inventory.compiled.objects.iter().map(|object| object.meta.key.clone());
        let grants = objects.filter(|key| key.kind == Kind::ReferenceGrant);
        Self { inventory, manifests: GrantManifests::new(grants) }
    }

    /// A refused delegation of a rule on a host.
    pub(super) fn refused(
        &mut self,
        node: &TreeNode,
        fault: &EdgeFault,
        host: &HostPattern,
    ) -> RefusedItem {
        let named = node.object().zip(fault.child.as_ref());
        let missing = match (named, fault.reason) {
            (Some((parent, child)), Reason::RefNotPermitted | Reason::NotPermitted) => {
                self.steps(parent, child, host)
            }
            _ => step(fault.reason, node).into_iter().map(words).collect(),
        };
        RefusedItem {
            object: fault.child.as_ref().map(Into::into),
            reason: fault.reason.as_str(),
            message: fault.message.to_string(),
            missing,
        }
    }

    /// The grant, the object, and its consent, as far as each is missing.
    fn steps(
        &mut self,
        parent: &ObjectKey,
        child: &ObjectKey,
        host: &HostPattern,
    ) -> Vec<MissingItem> {
        let compiled = &self.inventory.compiled;
        let mut steps = Vec::new();
        let to = child.to_ref();
        let refused = compiled.references_of(parent).iter().any(|reference| {
            reference.to == to && reference.permission == ReferencePermission::Refused
        });
        if refused {
            let manifest = self.manifests.permitting(parent, &to);
            let what = format!(
                "a ReferenceGrant of namespace {}, to be applied by its owner",
                child.namespace
            );
            steps.push(MissingItem { what, manifest: serde_json::to_value(manifest).ok() });
        }
        match self.inventory.object(child) {
            None => steps.push(words(format!("{child}, which does not exist"))),
            Some(object) if matches!(object.body, Body::Invalid(_)) => {
                let what =
                    format!("a valid {child}: `portcullis check` says what is wrong with it");
                steps.push(words(what));
            }
            Some(_) if !compiled.consents(child, parent, host) => {
                steps.push(consent(parent, child, host));
            }
            Some(_) => {}
        }
        steps
    }
}

fn words(what: String) -> MissingItem {
    MissingItem { what, manifest: None }
}

/// The consent of an object, as the fields to add to it.
fn consent(parent: &ObjectKey, child: &ObjectKey, host: &HostPattern) -> MissingItem {
    let ObjectKey { namespace, name, .. } = parent;
    let spec = if child.kind == Kind::InboundRoute {
        json!({"delegatedFrom": [{
            "fqdn": host.to_string(), "parent": {"namespace": &**namespace, "name": &**name},
        }]})
    } else {
        json!({"hostnames": [host.to_string()], "parentRefs": [{
            "group": parent.kind.group(), "kind": parent.kind.as_str(),
            "namespace": &**namespace, "name": &**name,
        }]})
    };
    let manifest: Value = json!({
        "kind": child.kind.as_str(),
        "metadata": {"name": &*child.name, "namespace": &*child.namespace},
        "spec": spec,
    });
    let what = format!("consent, to be added by the owner of {child}");
    MissingItem { what, manifest: Some(manifest) }
}

/// What to do about any other refusal.
fn step(reason: Reason, node: &TreeNode) -> Option<String> {
    let path = &node.path;
    let words = match reason {
        Reason::RefNotFound => "the object: create it, or correct its name".to_owned(),
        Reason::RefInvalid => "a valid object: `portcullis check` says what is wrong".to_owned(),
        Reason::RefNotPermitted => {
            "objects with the labels, and a ReferenceGrant of their namespace".to_owned()
        }
        Reason::RootIncludesRoot => {
            "an object without `virtualhost`: roots are not delegated to".to_owned()
        }
        Reason::SelectorMatchesRoot => "labels that no root has".to_owned(),
        Reason::Cycle => "an end of the cycle: one of its objects must not delegate".to_owned(),
        Reason::PrefixNotContained => format!("matches inside `{path}`"),
        Reason::TooDeep | Reason::TooLarge => "a smaller tree".to_owned(),
        Reason::ProtocolMismatch => "a Server that carries requests".to_owned(),
        Reason::NotProgrammable => "the path of a gRPC service or method".to_owned(),
        Reason::NoMatchingTarget => "a Server in `virtualhost.targetRef` of the root".to_owned(),
        Reason::Accepted
        | Reason::ResolvedRefs
        | Reason::PrecedenceDiffers
        | Reason::Invalid
        | Reason::NoMatchingParent
        | Reason::NotAllowedByListeners
        | Reason::UnsupportedValue
        | Reason::Conflicted
        | Reason::RateLimitAlreadyExists
        | Reason::RefWarned
        | Reason::InvalidKind
        | Reason::HostAlreadyClaimed
        | Reason::RootNotAllowedInNamespace
        | Reason::WildcardNotAllowed
        | Reason::HostNotAssumed
        | Reason::NotPermitted
        | Reason::SubpathClaimedByOther => return None,
    };
    Some(words)
}
