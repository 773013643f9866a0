//! Delegations that are refused, with what would complete them. What is refused is the engine's
//! answer. Of an object in another namespace it tells the delegator nothing; here whatever the user may
//! list is looked at.

use super::report::{MissingItem, RefusedItem};
use super::visibility::hidden;
use crate::grants::manifest::GrantManifests;
use crate::inventory::Inventory;
use policy_core::HostPattern;
use policy_crds::resource::{Delegate, InboundAction};
use policy_crds::{Body, Kind, ObjectKey, Resource};
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
        let found = match (node.object().zip(fault.child.as_ref()), fault.reason) {
            (Some((parent, child)), Reason::RefNotPermitted | Reason::NotPermitted) => {
                self.of_child(parent, child, host)
            }
            (Some((_, child)), Reason::RefNotFound) => self.of_absent(child, node),
            (None, Reason::RefNotPermitted) => self.of_selected(node),
            _ => Lack {
                steps: step(fault.reason, node).into_iter().map(words).collect(),
                ..Lack::default()
            },
        };
        RefusedItem {
            object: fault.child.as_ref().map(Into::into),
            reason: fault.reason.as_str(),
            message: found.message.unwrap_or_else(|| fault.message.to_string()),
            not_known: found.not_known,
            missing: found.steps,
        }
    }

    /// The grant, the object, and its consent, as far as each is missing.
    fn of_child(&mut self, parent: &ObjectKey, child: &ObjectKey, host: &HostPattern) -> Lack {
        let (grant, grant_seen) = self.grant(parent, child);
        let (object, object_seen) = self.willing(parent, child, host);
        // Where one of the two is missing for certain, the other changes nothing.
        let certain = grant.is_some() && grant_seen || object.is_some() && object_seen;
        let not_known = !certain && (!grant_seen || !object_seen);
        let unwilling = grant.is_none() && object_seen && self.inventory.object(child).is_some();
        let message = if not_known {
            Some(format!("it is not known if {child} takes part"))
        } else if unwilling && !self.inventory.compiled.consents(child, parent, host) {
            // The delegator is told of the grant in either case.
            Some(no_consent(child, host))
        } else {
            None
        };
        Lack { message, not_known, steps: grant.into_iter().chain(object).collect() }
    }

    /// The ReferenceGrant that a delegation lacks; false if there may be one that is not visible.
    fn grant(&mut self, parent: &ObjectKey, child: &ObjectKey) -> (Option<MissingItem>, bool) {
        let to = child.to_ref();
        let refused = self.inventory.compiled.references_of(parent).iter().any(|reference| {
            reference.to == to && reference.permission == ReferencePermission::Refused
        });
        if !refused {
            return (None, true);
        }
        let owner = format!("a ReferenceGrant of namespace {}", child.namespace);
        let hidden = hidden(self.inventory, Kind::ReferenceGrant, &child.namespace);
        let what = match &hidden {
            Some(hidden) => format!("{owner}, unless there is one, {hidden}"),
            None => format!("{owner}, to be applied by its owner"),
        };
        let manifest = serde_json::to_value(self.manifests.permitting(parent, &to)).ok();
        (Some(MissingItem { what, manifest }), hidden.is_none())
    }

    /// The object that a delegation lacks, or its consent; false if there may be one that is not
    /// visible.
    fn willing(
        &self,
        parent: &ObjectKey,
        child: &ObjectKey,
        host: &HostPattern,
    ) -> (Option<MissingItem>, bool) {
        let Some(object) = self.inventory.object(child) else {
            return match hidden(self.inventory, child.kind, &child.namespace) {
                Some(hidden) => {
                    (Some(words(format!("{child}, unless it exists, {hidden}"))), false)
                }
                None => (Some(words(format!("{child}, which does not exist"))), true),
            };
        };
        if matches!(object.body, Body::Invalid(_)) {
            let what = format!("a valid {child}: `portcullis check` says what is wrong with it");
            return (Some(words(what)), true);
        }
        let willing = self.inventory.compiled.consents(child, parent, host);
        ((!willing).then(|| consent(parent, child, host)), true)
    }

    /// An object of the same namespace that was not found.
    fn of_absent(&self, child: &ObjectKey, node: &TreeNode) -> Lack {
        let steps = || step(Reason::RefNotFound, node).into_iter().map(words).collect();
        match hidden(self.inventory, child.kind, &child.namespace) {
            Some(hidden) => Lack {
                message: Some(format!("{child} is {hidden}")),
                not_known: true,
                steps: Vec::new(),
            },
            None => Lack { steps: steps(), ..Lack::default() },
        }
    }

    /// Objects of a selector, of which none can be used.
    fn of_selected(&self, node: &TreeNode) -> Lack {
        let steps = step(Reason::RefNotPermitted, node).into_iter().map(words).collect();
        let namespace = self.selected_namespace(node);
        let hidden = |kind| hidden(self.inventory, kind, namespace?);
        let hidden = [Kind::InboundRoute, Kind::ReferenceGrant].into_iter().find_map(hidden);
        match hidden {
            Some(hidden) => {
                let message = format!("what the selector selects is {hidden}");
                Lack { message: Some(message), not_known: true, steps }
            }
            None => Lack { steps, ..Lack::default() },
        }
    }

    /// The namespace in which a rule selects its children.
    fn selected_namespace(&self, node: &TreeNode) -> Option<&str> {
        let object = self.inventory.object(node.object()?)?;
        let Body::Valid(Resource::InboundRoute(route)) = &object.body else { return None };
        let rule = route.routes.iter().find(|rule| rule.path == node.path)?;
        match &rule.action {
            InboundAction::Delegate(Delegate::Selected { namespace, .. }) => Some(namespace),
            InboundAction::Delegate(Delegate::One(_))
            | InboundAction::Serve
            | InboundAction::Servers(_) => None,
        }
    }
}

/// The parts that a refused delegation lacks.
#[derive(Default)]
struct Lack {
    /// The message in place of the delegator's, which knows nothing of other namespaces.
    message: Option<String>,
    /// True if what may not be listed could complete it.
    not_known: bool,
    /// Steps that would complete it.
    steps: Vec<MissingItem>,
}

fn no_consent(child: &ObjectKey, host: &HostPattern) -> String {
    format!("{child} does not consent to {host}")
}

fn words(what: String) -> MissingItem {
    MissingItem { what, manifest: None }
}

/// The consent of an object, as the fields to add to it.
fn consent(parent: &ObjectKey, child: &ObjectKey, host: &HostPattern) -> MissingItem {
    let ObjectKey { namespace, name, .. } = parent;
    let spec = if matches!(child.kind, Kind::InboundRoute | Kind::HttpRouteGroup) {
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
        Reason::FilterNotAllowed => {
            "`allowFilters` in the delegation of the root, or no such filter".to_owned()
        }
        Reason::NotProgrammable => "the path of a gRPC service or method".to_owned(),
        Reason::NoMatchingTarget => "a Server in `virtualhost.targetRef` of the root".to_owned(),
        Reason::Accepted
        | Reason::ResolvedRefs
        | Reason::PrecedenceDiffers
        | Reason::Overlaps
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
        | Reason::ServiceOfAnotherNamespace
        | Reason::NoRoutesSelected
        | Reason::NotPermitted
        | Reason::SubpathClaimedByOther
        | Reason::HostnameAttachedEarlier => return None,
    };
    Some(words)
}
