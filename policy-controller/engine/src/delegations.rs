//! The states of all InboundRoutes, and their counts.

use crate::desired_conditions::StatusFields;
use crate::query::delegation_state::{DelegationEntry, DelegationState};
use crate::resolve::delegation::EFFECTIVE;
use policy_crds::{Body, Claims, Invalid, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The states of all InboundRoutes that are valid, or invalid with claims that they keep.
#[derive(Clone, Debug, Default)]
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
    /// Rules whose path is denied, on all of their hosts or on some, because a delegation is refused or
    /// no Server can answer.
    pub(crate) denied: usize,
}

impl DelegationTable {
    /// Sets the state of an InboundRoute; `None`: it is gone, or invalid and keeps nothing. True if it
    /// differs.
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
        if key.kind == Kind::InboundRoute {
            return Some(StatusFields::Delegation(self.states.get(key).cloned()));
        }
        if key.kind != Kind::RouteAdmissionPolicy || *key.name != *EFFECTIVE {
            return None;
        }
        Some(match &object.body {
            Body::Valid(Resource::RouteAdmission(rules)) => StatusFields::admission(rules),
            Body::Invalid(Invalid { claims: Claims::RouteAdmission(rules), .. }) => {
                StatusFields::admission(rules)
            }
            Body::Valid(_) | Body::Invalid(_) => StatusFields::admission(&Default::default()),
        })
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
        || object.kept_claims().next().is_some()
}

fn count(state: &DelegationState) -> DelegationCounts {
    let active = state.claims.active();
    let connected = |entry: &DelegationEntry| matches!(entry, DelegationEntry::Connected { .. });
    let is_vertex = !state.delegations.is_empty();
    let orphaned = is_vertex && !state.delegations.iter().any(connected);
    let denied = state.routes.iter().filter(|route| route.reason.is_some());
    DelegationCounts {
        active,
        inactive: state.claims.len().saturating_sub(active),
        orphans: usize::from(orphaned),
        denied: denied.count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ControllerConfig;
    use crate::engine::{Changes, Engine};
    use crate::source::{Batch, Change};
    use crate::testing;

    /// A root with the path `/`, of generation 2 and with this status.
    fn root(namespace: &str, status: &str) -> Arc<Object> {
        testing::object(&format!(
            "{{apiVersion: portcullis.dev/v1alpha1, kind: InboundRoute, \
              metadata: {{name: root, namespace: {namespace}, generation: 2, \
              creationTimestamp: '2026-11-20T08:00:00Z'}}, \
              spec: {{virtualhost: {{fqdn: a.example, \
              targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}}}, \
              routes: [{{match: /, serve: {{}}}}, {{match: /a, delegate: {{name: gone}}}}]}}, \
              status: {status}}}"
        ))
    }

    fn apply(engine: &mut Engine, change: Change) -> Changes {
        engine.apply(&Batch { changes: vec![change], ..Batch::default() })
    }

    fn fields(engine: &Engine, key: &ObjectKey) -> Option<StatusFields> {
        engine.desired_conditions().get(key)?.fields.clone()
    }

    #[test]
    fn a_change_of_another_root_changes_what_the_status_says() {
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let (one, two) = (root("one", "{}"), root("two", "{}"));
        let key = one.meta.key.clone();
        apply(&mut engine, Change::Apply(one));
        let state = |engine: &Engine| match fields(engine, &key) {
            Some(StatusFields::Delegation(Some(state))) => state,
            other => panic!("{other:?}"),
        };
        let before = state(&engine);
        assert!(before.claims.iter().all(|claim| claim.active && claim.claimed_at.is_none()));
        // There is no Server either.
        let counts = DelegationCounts { active: 2, denied: 2, ..DelegationCounts::default() };
        assert_eq!(engine.delegation_counts(), counts);
        apply(&mut engine, Change::Apply(two));
        assert_eq!(state(&engine), before, "the other is later by name");
        assert_eq!(engine.delegation_counts().inactive, 2);

        // The time of the other is recorded: it is the first now.
        let status = "{claims: [{host: a.example, path: /, claimedAt: '2026-11-20T09:00:00Z'}]}";
        let changes = apply(&mut engine, Change::Apply(root("two", status)));
        assert!(changes.conditions);
        assert!(!state(&engine).claims.iter().next().is_some_and(|claim| claim.active));
        engine.retain([]);
        let changes = apply(&mut engine, Change::Delete(root("two", "{}").meta.key.clone()));
        assert!(changes.conditions, "it is followed after a sweep");
        assert_eq!(state(&engine), before);
        apply(&mut engine, Change::Delete(key.clone()));
        assert_eq!(fields(&engine, &key), None);
        assert_eq!(engine.delegation_counts(), DelegationCounts::default());
        engine.retain([]);
        assert_eq!(engine.effort().0, 0, "answers about it are kept");
    }

    #[test]
    fn a_vertex_without_a_tree_is_an_orphan_and_an_invalid_object_has_no_state() {
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let vertex = |consent: &str| {
            testing::object(&format!(
                "{{apiVersion: portcullis.dev/v1alpha1, kind: InboundRoute, \
                  metadata: {{name: v, namespace: one}}, spec: {{delegatedFrom: [{consent}], \
                  routes: [{{match: /a, servers: [{{name: web}}]}}]}}}}"
            ))
        };
        let valid = vertex("{fqdn: a.example}");
        let key = valid.meta.key.clone();
        apply(&mut engine, Change::Apply(valid));
        assert_eq!(engine.delegation_counts().orphans, 1);
        apply(&mut engine, Change::Apply(vertex("{}")));
        assert_eq!(fields(&engine, &key), Some(StatusFields::Delegation(None)));
        assert_eq!(engine.delegation_counts().orphans, 0);
    }

    /// The places of a vertex with this path and status, which `prod/root` delegates `/team` to:
    /// with the ReferenceGrant, without it, and with it again.
    fn places(path: &str, status: &str) -> [Vec<String>; 3] {
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let own = |kind: &str, rest: &str| {
            testing::object(&format!(
                "{{apiVersion: portcullis.dev/v1alpha1, kind: {kind}, {rest}}}"
            ))
        };
        let root = own(
            "InboundRoute",
            "metadata: {name: root, namespace: prod}, spec: {virtualhost: {fqdn: a.example}, \
             routes: [{match: /team, delegate: {name: v, namespace: team}}]}",
        );
        let vertex = own(
            "InboundRoute",
            &format!(
                "metadata: {{name: v, namespace: team}}, spec: {{delegatedFrom: [{{fqdn: a.example}}], \
                 routes: [{{match: {path}, servers: [{{name: web}}]}}]}}, status: {status}"
            ),
        );
        let grant = testing::object(
            "{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, \
              metadata: {name: g, namespace: team}, spec: {\
              from: [{group: portcullis.dev, kind: InboundRoute, namespace: prod}], \
              to: [{group: portcullis.dev, kind: InboundRoute}]}}",
        );
        let key = vertex.meta.key.clone();
        let shown = |engine: &Engine| match fields(engine, &key) {
            Some(StatusFields::Delegation(Some(state))) => {
                state.delegations.iter().map(place).collect()
            }
            other => panic!("{other:?}"),
        };
        for object in [root, vertex, grant.clone()] {
            apply(&mut engine, Change::Apply(object));
        }
        let before = shown(&engine);
        apply(&mut engine, Change::Delete(grant.meta.key.clone()));
        let without = shown(&engine);
        apply(&mut engine, Change::Apply(grant));
        [before, without, shown(&engine)]
    }

    fn place(entry: &DelegationEntry) -> String {
        match entry {
            DelegationEntry::Connected { parent, connected_at, .. } => {
                format!("connected {} {connected_at:?}", parent.name)
            }
            DelegationEntry::Orphaned { last_parent, reason, since } => {
                let name = last_parent.as_ref().map_or("-", |parent| &parent.name);
                format!("orphaned {name} {} {since:?}", reason.as_str())
            }
            DelegationEntry::Rejected { parent, reason, .. } => {
                format!("rejected {} {}", parent.name, reason.as_str())
            }
        }
    }

    const SINCE: &str = "2026-11-20T09:00:00Z";
    const SECONDS: i64 = 1_795_165_200;

    #[test]
    fn a_parent_whose_delegation_becomes_refused_is_a_former_parent_and_not_forgotten() {
        let parent = "{namespace: prod, name: root, prefix: /team}";
        let connected =
            format!("{{state: {{connected: {{parent: {parent}, connectedAt: '{SINCE}'}}}}}}");
        let status = format!("{{delegationStatuses: [{connected}]}}");
        let [before, without, again] = places("/team", &status);
        assert_eq!(before, [format!("connected root Some({SECONDS})")]);
        let revoked = ["orphaned root GrantRevoked None", "rejected root RefNotPermitted"];
        assert_eq!(without, revoked);
        assert_eq!(again, before);

        // What is written then is read again.
        let former = "{state: {orphaned: {lastParent: {namespace: prod, name: root}, \
                      reason: GrantRevoked}}}";
        let refused = format!("{{state: {{rejected: {{parent: {parent}, reason: No}}}}}}");
        let status = format!("{{delegationStatuses: [{refused}, {former}]}}");
        let [before, without, _] = places("/team", &status);
        assert_eq!(before, ["connected root None"]);
        assert_eq!(without, revoked);

        let status = format!("{{delegationStatuses: [{connected}]}}");
        let [outside, without, _] = places("/elsewhere", &status);
        let moved = ["orphaned root DelegationRefused None", "rejected root PrefixNotContained"];
        assert_eq!(outside, moved);
        assert_eq!(without, revoked);

        // Of many former parents the oldest are forgotten.
        let old = |at: usize| {
            let parent = format!("{{namespace: prod, name: old{at}}}");
            let since = format!("'2026-11-20T09:00:{at:02}Z'");
            let entry = format!("lastParent: {parent}, reason: ParentRemoved, since: {since}");
            format!("{{state: {{orphaned: {{{entry}}}}}}}")
        };
        let entries: Vec<String> = (0..20).map(old).chain([connected]).collect();
        let status = format!("{{delegationStatuses: [{}]}}", entries.join(", "));
        let [_, without, _] = places("/team", &status);
        assert_eq!(without.len(), 17, "with the one that is refused");
        assert_eq!(without.last().map(String::as_str), Some(revoked[1]));
        assert_eq!(without[0], revoked[0]);
        assert_eq!(without[1], format!("orphaned old19 ParentRemoved Some({})", SECONDS + 19));
        assert_eq!(without[15], format!("orphaned old5 ParentRemoved Some({})", SECONDS + 5));

        // A vertex that was never connected has no former parent.
        let [_, without, _] = places("/team", "{}");
        assert_eq!(without, ["rejected root RefNotPermitted"]);
    }

    #[test]
    fn the_policy_that_counts_has_the_rules_in_effect() {
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let mut told = |name: &str, spec: &str| {
            let policy = testing::object(&format!(
                "{{apiVersion: portcullis.dev/v1alpha1, kind: RouteAdmissionPolicy, \
                  metadata: {{name: {name}}}, spec: {spec}}}"
            ));
            let key = policy.meta.key.clone();
            assert!(apply(&mut engine, Change::Apply(policy)).conditions);
            match fields(&engine, &key) {
                Some(StatusFields::Admission { ownership, wildcards }) => {
                    Some((ownership, wildcards))
                }
                _ => None,
            }
        };
        let strict = Some(("Strict", "WildcardsDisallowed"));
        assert_eq!(told("default", "{}"), strict);
        let lax = "{namespaceOwnership: InterNamespaceAllowed, wildcardPolicy: WildcardsAllowed}";
        assert_eq!(told("default", lax), Some(("InterNamespaceAllowed", "WildcardsAllowed")));
        assert_eq!(told("other", lax), None);
        assert_eq!(told("default", "{namespaceOwnership: ''}"), strict);
        assert_eq!(
            told("default", "{namespaceOwnership: 7, wildcardPolicy: WildcardsAllowed}"),
            strict
        );
    }
}
