//! The index and its memoized queries, without tasks or clocks.

mod destination;

use crate::config::ControllerConfig;
use crate::delegations::{DelegationCounts, DelegationTable, has_state};
use crate::desired_conditions::{DesiredConditionTable, DesiredConditions};
use crate::findings::Finder;
use crate::group_sizes::{GroupSizes, has_size};
use crate::incremental::{Memo, Query, QueryKey};
use crate::index::{Index, KindSet, Touched};
use crate::index_metrics::Effort;
use crate::query::claims::HostClaims;
use crate::query::condition::{ConditionTable, Conditions};
use crate::query::delegation::{DelegationTree, OverlappingClaims, TreeOf};
use crate::query::delegation_state::{DelegationState, DelegationStateOf};
use crate::query::destination::DestinationOf;
use crate::query::effective_servers::{EffectiveServers, EffectiveServersOf};
use crate::query::policy::{PolicyOf, ServerBaseOf};
use crate::query::port_ownership::{PortOwners, PortOwnersOf};
use crate::query::reference::{ForeignReference, ForeignReferencesOf};
use crate::query::requests::GroupSummaryOf;
use crate::query::workload::{self, ResolvedWorkload, WorkloadOf, WorkloadShape};
use crate::resolve::condition;
use crate::review::Snapshot;
use crate::source::Batch;
use policy_core::{HostPattern, ServerPolicy, WorkloadKey, WorkloadKind};
use policy_crds::{Kind, Object, ObjectKey};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, LazyLock};

/// The index, the answers and the configuration they were made with.
#[derive(Clone)]
pub(crate) struct Engine {
    config: Arc<ControllerConfig>,
    index: Index,
    memo: Memo,
    conditions: ConditionTable,
    delegations: DelegationTable,
    group_sizes: GroupSizes,
}

/// Changes caused by a batch.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Queried workloads that may have changed.
    pub(crate) workloads: Vec<WorkloadKey>,
    /// Queried policies that may have changed.
    pub(crate) policies: Vec<PolicyOf>,
    /// True if a condition has changed, the state of an InboundRoute, or an object that has
    /// conditions.
    pub(crate) conditions: bool,
    /// Every object that is not as it was.
    pub(crate) objects: Vec<ObjectKey>,
    /// Queried objects that may take effect through other Servers.
    pub(crate) effective_servers: Vec<ObjectKey>,
    /// Shapes whose ports may be owned or claimed by other Servers.
    pub(crate) port_owners: Vec<Arc<WorkloadShape>>,
    /// Questions about destinations whose answers may have changed.
    pub(crate) destinations: Vec<DestinationOf>,
}

impl Engine {
    /// An empty index.
    pub(crate) fn new(config: Arc<ControllerConfig>) -> Self {
        Self {
            index: Index::new(config.control_plane_namespace.clone()),
            config,
            memo: Memo::default(),
            conditions: ConditionTable::new(),
            delegations: DelegationTable::default(),
            group_sizes: GroupSizes::default(),
        }
    }

    /// Applies a batch and executes the dirty queries.
    pub(crate) fn apply(&mut self, batch: &Batch) -> Changes {
        let touched = self.index.apply(batch);
        let mut changes = Changes::default();
        for query in self.memo.update(&touched, &self.index, &self.config) {
            self.note_answer(query, &mut changes);
        }
        self.note_objects(&touched, &mut changes);
        changes
    }

    /// Notes an answer that differs. Others are read by answers alone.
    fn note_answer(&mut self, query: QueryKey, changes: &mut Changes) {
        if let QueryKey::WorkloadOf(WorkloadOf(key)) = query {
            changes.workloads.push(key);
        } else if let QueryKey::PolicyOf(policy) = query {
            changes.policies.push(policy);
        } else if let QueryKey::Conditions(Conditions(key)) = query {
            changes.conditions |= self.update_conditions(&key);
        } else if let QueryKey::DelegationStateOf(DelegationStateOf(key)) = query {
            changes.conditions |= self.update_delegation(&key);
        } else if let QueryKey::GroupSummaryOf(GroupSummaryOf(key)) = query {
            changes.conditions |= self.update_group_size(&key);
        } else if let QueryKey::EffectiveServersOf(EffectiveServersOf(key)) = query {
            changes.effective_servers.push(key);
        } else if let QueryKey::PortOwnersOf(PortOwnersOf(shape)) = query {
            changes.port_owners.push(shape);
        } else if let QueryKey::DestinationOf(question) = query {
            changes.destinations.push(question);
        }
    }

    /// Notes the objects that are not as they were, and brings their conditions up to date.
    fn note_objects(&mut self, touched: &Touched, changes: &mut Changes) {
        for input in touched {
            let crate::index::Input::Object(key) = input else { continue };
            changes.objects.push(key.clone());
            match key.kind.spec().conditions {
                policy_crds::spec::Conditions::None => {}
                policy_crds::spec::Conditions::OfAnnotations => {
                    changes.conditions |= self.update_annotation_conditions(key);
                }
                policy_crds::spec::Conditions::Always => {
                    // Its generation may have changed although its conditions have not.
                    changes.conditions = true;
                    if !self.conditions.contains_key(key) || self.index.object(key).is_none() {
                        self.update_conditions(key);
                    }
                }
            }
        }
    }

    /// Brings the conditions of one object up to date; true if they differ.
    fn update_conditions(&mut self, key: &ObjectKey) -> bool {
        if key.kind == Kind::InboundRoute {
            self.update_delegation(key);
        }
        if key.kind == Kind::HttpRouteGroup {
            self.update_group_size(key);
        }
        if self.index.object(key).is_none() {
            return self.conditions.remove(key).is_some();
        }
        let query = Conditions(key.clone());
        let (conditions, _) = self.memo.query(&query, &self.index, &self.config);
        self.conditions.insert(key.clone(), conditions.clone()).as_ref() != Some(&conditions)
    }

    /// Brings the state of one InboundRoute up to date; true if it differs.
    fn update_delegation(&mut self, key: &ObjectKey) -> bool {
        let kept = self.index.object(key).is_some_and(|object| has_state(object));
        let state = kept.then(|| self.delegation_state(key));
        self.delegations.set(key, state)
    }

    /// Brings the size of one HttpRouteGroup up to date; true if it differs.
    fn update_group_size(&mut self, key: &ObjectKey) -> bool {
        let kept = self.index.object(key).is_some_and(|object| has_size(object));
        let summary = GroupSummaryOf(key.clone());
        let size = kept.then(|| self.memo.query(&summary, &self.index, &self.config).0.count);
        self.group_sizes.set(key, size)
    }

    /// Updates the conditions of a Pod or Namespace, which has some only if its annotations are
    /// wrong; true if they changed. They depend on the object alone and are not memoized.
    fn update_annotation_conditions(&mut self, key: &ObjectKey) -> bool {
        let wrong =
            self.index.object(key).and_then(|object| condition::annotations(object, &self.config));
        match wrong {
            Some(wrong) => {
                let conditions: Arc<[_]> = Arc::from([wrong]);
                let before = self.conditions.insert(key.clone(), conditions.clone());
                before.as_ref() != Some(&conditions)
            }
            None => self.conditions.remove(key).is_some(),
        }
    }

    /// True if every kind has been listed completely.
    pub(crate) fn is_synced(&self) -> bool {
        self.index.is_synced()
    }

    /// A snapshot in which changes can be tried; `None` before every kind has been listed.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.is_synced().then(|| Snapshot::new(self.index.clone(), self.config.clone()))
    }

    /// A finder that examines all workloads.
    pub(crate) fn finder(&mut self) -> Finder<'_> {
        Finder::new(&self.index, &mut self.memo, &self.config, usize::MAX)
    }

    /// A finder that examines at most `examined` workloads.
    pub(crate) fn finder_within(&mut self, examined: usize) -> Finder<'_> {
        Finder::new(&self.index, &mut self.memo, &self.config, examined)
    }

    /// The Servers that own and claim the ports of a shape.
    pub(crate) fn owners(&mut self, shape: &Arc<WorkloadShape>) -> Arc<PortOwners> {
        self.memo.query(&PortOwnersOf(shape.clone()), &self.index, &self.config).0
    }

    /// The Servers through which an object takes effect.
    pub(crate) fn effective_servers(&mut self, key: &ObjectKey) -> Arc<EffectiveServers> {
        self.memo.query(&EffectiveServersOf(key.clone()), &self.index, &self.config).0
    }

    /// The references of an object into other namespaces.
    pub(crate) fn foreign_references(&mut self, key: &ObjectKey) -> Arc<[ForeignReference]> {
        self.memo.query(&ForeignReferencesOf(key.clone()), &self.index, &self.config).0
    }

    /// The state of an InboundRoute.
    pub(crate) fn delegation_state(&mut self, key: &ObjectKey) -> Arc<DelegationState> {
        self.memo.query(&DelegationStateOf(key.clone()), &self.index, &self.config).0
    }

    /// The answer to a query.
    pub(crate) fn answer<Q: Query>(&mut self, query: &Q) -> Q::Output {
        self.memo.query(query, &self.index, &self.config).0
    }

    /// The claims on a host and on hosts that overlap with it.
    pub(crate) fn claims_on(&mut self, host: &HostPattern) -> Arc<HostClaims> {
        self.memo.query(&OverlappingClaims(host.clone()), &self.index, &self.config).0
    }

    /// The tree of a root.
    pub(crate) fn tree_of(&mut self, root: &ObjectKey) -> Arc<DelegationTree> {
        self.memo.query(&TreeOf(root.clone()), &self.index, &self.config).0
    }

    /// The policy that a Server gives the ports that it owns.
    pub(crate) fn server_policy(&mut self, server: &ObjectKey) -> Arc<ServerPolicy> {
        self.memo.query(&ServerBaseOf(server.clone()), &self.index, &self.config).0
    }

    /// Conditions of every object.
    pub(crate) fn conditions(&self) -> &ConditionTable {
        &self.conditions
    }

    /// The same, with the version of each object that they are about.
    pub(crate) fn desired_conditions(&self) -> DesiredConditionTable {
        // Nothing can be written to an object that the API server does not have.
        let written = self.conditions.iter().filter(|(key, _)| !self.index.is_kept(key));
        let desired = written.filter_map(|(key, conditions)| {
            let object = self.index.object(key)?;
            let desired = DesiredConditions {
                conditions: conditions.clone(),
                generation: object.meta.generation,
                uid: object.meta.uid.clone(),
                fields: self.delegations.fields(object).or_else(|| self.group_sizes.fields(object)),
            };
            Some((key.clone(), desired))
        });
        desired.collect()
    }

    /// Numbers of claims, vertices and rules of all InboundRoutes.
    pub(crate) fn delegation_counts(&self) -> DelegationCounts {
        self.delegations.counts()
    }

    /// The names of all objects of these kinds.
    pub(crate) fn keys(
        &self,
        kinds: impl Iterator<Item = Kind>,
    ) -> impl Iterator<Item = ObjectKey> {
        let objects = kinds.flat_map(|kind| self.index.all(kind));
        objects.map(|object| object.meta.key.clone())
    }

    /// Every object of these kinds; none before every kind has been listed.
    pub(crate) fn objects(&self, kinds: &[Kind]) -> Option<Vec<Arc<Object>>> {
        let all = kinds.iter().flat_map(|kind| self.index.all(*kind)).cloned();
        self.is_synced().then(|| all.collect())
    }

    /// The object of this name.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.index.object(key)
    }

    /// Every workload.
    pub(crate) fn workloads(&self) -> Vec<WorkloadKey> {
        let all = self.index.all(Kind::Pod).chain(self.index.all(Kind::ExternalWorkload));
        all.filter_map(|object| workload::workload_key(&object.meta.key)).collect()
    }

    /// A workload, if it exists.
    pub(crate) fn workload(&mut self, key: &WorkloadKey) -> Option<Arc<ResolvedWorkload>> {
        Some(self.workload_and_kinds(key)?.0)
    }

    /// A workload, if it exists, and the kinds it was made from. Nothing is memoized for one that
    /// does not exist, because callers can name any number of them.
    pub(crate) fn workload_and_kinds(
        &mut self,
        key: &WorkloadKey,
    ) -> Option<(Arc<ResolvedWorkload>, KindSet)> {
        let object = self.index.object(&workload::object_key(key))?;
        // The key is made of the object's own strings, so that the caller's are not kept beside
        // them.
        let key = workload::workload_key(&object.meta.key)?;
        let (resolved, kinds) = self.memo.query(&WorkloadOf(key), &self.index, &self.config);
        Some((resolved?, kinds))
    }

    /// The policy of a port, and the kinds it was made from.
    pub(crate) fn policy(
        &mut self,
        shape: &Arc<WorkloadShape>,
        port: NonZeroU16,
    ) -> (Arc<ServerPolicy>, KindSet) {
        let query = PolicyOf { shape: shape.clone(), port };
        self.memo.query(&query, &self.index, &self.config)
    }

    /// The version of the last event of a kind.
    pub(crate) fn version(&self, kind: Kind) -> Option<u64> {
        self.index.version(kind)
    }

    /// The versions that a policy made from these kinds reflects: for each kind, and for the
    /// workload's own, the version of the last event that changed anything. Events that did not
    /// concern the policy count too, because a later event of another kind can make them relevant.
    pub(crate) fn versions(&self, kinds: KindSet, kind: WorkloadKind) -> BTreeMap<Arc<str>, u64> {
        let mut kinds = kinds;
        kinds.insert(match kind {
            WorkloadKind::Pod => Kind::Pod,
            WorkloadKind::ExternalWorkload => Kind::ExternalWorkload,
        });
        // Clients are held until a replica has seen each version, and those of discovery are not counted.
        let counted = kinds.iter().filter(|kind| !kind.is_for_discovery());
        let versioned = counted.filter_map(|kind| Some((kind, self.index.changed(kind)?)));
        versioned.map(|(kind, version)| (version_key(kind), version)).collect()
    }

    /// Drops the policy of a port that is not watched.
    pub(crate) fn forget_policy(&mut self, query: PolicyOf) {
        self.memo.forget(&QueryKey::PolicyOf(query));
    }

    /// Forgets what neither these workloads and policies nor a condition depends on.
    pub(crate) fn retain(&mut self, roots: impl IntoIterator<Item = QueryKey>) {
        let conditions =
            self.conditions.keys().map(|key| QueryKey::Conditions(Conditions(key.clone())));
        let states = self.delegations.keys();
        let states = states.map(|key| QueryKey::DelegationStateOf(DelegationStateOf(key.clone())));
        let groups = self.group_sizes.keys();
        let groups = groups.map(|key| QueryKey::GroupSummaryOf(GroupSummaryOf(key.clone())));
        let kept = conditions.chain(states).chain(groups);
        let roots: Vec<QueryKey> = roots.into_iter().chain(kept).collect();
        self.memo.retain(roots);
    }

    /// Number of memoized answers, and number of query executions so far.
    pub(crate) fn effort(&self) -> (usize, u64) {
        (self.memo.len(), self.memo.answered())
    }

    /// The same by stage.
    pub(crate) fn effort_by_stage(&self) -> Effort {
        let compiled = self.memo.compiled();
        let resolved = self.memo.answered().saturating_sub(compiled);
        Effort { answers: self.memo.len(), resolved, compiled }
    }

    /// Number of nodes, shapes and policies.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 3] {
        self.memo.sizes()
    }

    /// The objects.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

/// The name of a kind in revisions: `group/kind`.
pub(crate) fn version_key(kind: Kind) -> Arc<str> {
    // Every revision names them; there is one text of each.
    static NAMES: LazyLock<BTreeMap<Kind, Arc<str>>> = LazyLock::new(|| {
        let name = |kind: Kind| format!("{}/{}", kind.group(), kind.as_str()).into();
        Kind::ALL.into_iter().map(|kind| (kind, name(kind))).collect()
    });
    NAMES.get(&kind).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Change;
    use crate::testing;

    #[test]
    fn pods_and_namespaces_have_conditions_about_annotations_that_cannot_be_read() {
        let annotated = |kind: &str, value: &str| {
            testing::object(&format!(
                "{{apiVersion: v1, kind: {kind}, metadata: {{name: one, annotations: \
                  {{config.linkerd.io/default-inbound-policy: {value}}}}}, \
                  spec: {{containers: [{{name: c}}]}}}}"
            ))
        };
        for kind in ["Pod", "Namespace"] {
            let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
            let mut apply = |value| {
                let changes = vec![Change::Apply(annotated(kind, value))];
                let changes =
                    engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
                let conditions: Vec<_> =
                    engine.conditions().values().flat_map(|c| c.to_vec()).collect();
                (changes.conditions, conditions)
            };
            assert_eq!(apply("deny"), (false, vec![]), "{kind}");
            let (changed, conditions) = apply("denny");
            assert!(
                changed && conditions.len() == 1 && !conditions[0].status,
                "{kind}: {conditions:?}"
            );
            assert!(conditions[0].message.contains("denny"), "{kind}: {conditions:?}");
            assert_eq!(apply("deny"), (true, vec![]), "{kind}");
        }
    }

    #[test]
    fn conditions_of_deleted_objects_are_forgotten() {
        // A route of a Gateway: nothing is to be said about it here.
        let route = testing::object(
            "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, \
              metadata: {name: r, namespace: ns}, spec: {parentRefs: [{name: gateway}]}}",
        );
        let key = route.meta.key.clone();
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let batch =
            |change| Batch { changes: vec![change], versions: BTreeMap::new(), ..Batch::default() };
        engine.apply(&batch(Change::Apply(route)));
        assert!(engine.conditions().contains_key(&key));
        engine.apply(&batch(Change::Delete(key)));
        assert!(engine.conditions().is_empty());
        engine.retain([]);
        assert_eq!(engine.effort().0, 0, "answers about it are kept");
    }
}
