//! The states of all InboundRoutes, and their counts.

use crate::desired_conditions::StatusFields;
use crate::query::delegation_state::{DelegationEntry, DelegationState, RouteState};
use crate::resolve::delegation::EFFECTIVE;
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The states of all valid InboundRoutes.
#[derive(Debug, Default)]
pub(crate) struct DelegationTable {
    states: BTreeMap<ObjectKey, Arc<DelegationState>>,
    counts: DelegationCounts,
}

/// Numbers of claims, vertices and rules over all InboundRoutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DelegationCounts {
    /// Claims whose root holds the path of the host.
    pub(crate) active: usize,
    /// Claims whose root does not.
    pub(crate) inactive: usize,
    /// Vertices that no tree reaches.
    pub(crate) orphans: usize,
    /// Rules whose path is denied because the delegation is refused.
    pub(crate) denied: usize,
}

impl DelegationTable {
    /// Sets the state of an InboundRoute; `None`: it is gone or invalid. True if it differs.
    pub(crate) fn set(&mut self, key: &ObjectKey, state: Option<Arc<DelegationState>>) -> bool {
        let before = match &state {
            Some(state) => self.states.insert(key.clone(), state.clone()),
            None => self.states.remove(key),
        };
        let differs = before != state;
        if let Some(before) = before {
            self.counts = self.counts.combined(count(&before), usize::saturating_sub);
        }
        if let Some(after) = state {
            self.counts = self.counts.combined(count(&after), usize::saturating_add);
        }
        differs
    }

    /// The names of all of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.states.keys()
    }

    /// The counts of all of them.
    pub(crate) fn counts(&self) -> DelegationCounts {
        self.counts
    }

    /// The fields of an object's status besides its conditions.
    pub(crate) fn fields(&self, object: &Object) -> Option<StatusFields> {
        let key = &object.meta.key;
        match key.kind {
            Kind::InboundRoute => Some(StatusFields::Delegation(self.states.get(key).cloned())),
            Kind::RouteAdmissionPolicy if *key.name == *EFFECTIVE => match &object.body {
                Body::Valid(Resource::RouteAdmission(rules)) => {
                    Some(StatusFields::admission(rules))
                }
                Body::Valid(_) | Body::Invalid(_) => {
                    Some(StatusFields::admission(&Default::default()))
                }
            },
            _ => None,
        }
    }
}

impl DelegationCounts {
    fn combined(self, other: Self, by: fn(usize, usize) -> usize) -> Self {
        Self {
            active: by(self.active, other.active),
            inactive: by(self.inactive, other.inactive),
            orphans: by(self.orphans, other.orphans),
            denied: by(self.denied, other.denied),
        }
    }
}

/// True for an object whose state is kept.
pub(crate) fn has_state(object: &Object) -> bool {
    matches!(object.body, Body::Valid(Resource::InboundRoute(_)))
}

fn count(state: &DelegationState) -> DelegationCounts {
    let active = state.claims.iter().filter(|claim| claim.active).count();
    let connected = |entry: &DelegationEntry| matches!(entry, DelegationEntry::Connected { .. });
    let is_vertex = !state.delegations.is_empty();
    let orphaned = is_vertex && !state.delegations.iter().any(connected);
    let denied = state.routes.iter().filter(|route| route.state == RouteState::Blackholed);
    DelegationCounts {
        active,
        inactive: state.claims.len().saturating_sub(active),
        orphans: usize::from(orphaned),
        denied: denied.count(),
    }
}
