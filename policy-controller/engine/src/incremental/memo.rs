//! Memoized queries: their answers, the reads of each, and the readers of each.
//!
//! A query is a pure function of its key, the index and the configuration. Its answer is memoized with every input and
//! answer that it read, objects that were not found among them. Queries that read an input that is touched are executed
//! again, each after all that it may read; their readers only if the answer has changed.

use super::graph::{Graph, Id, NodeKey};
use super::interned::Interned;
use crate::config::ControllerConfig;
use crate::index::{Edge, Index, Input, KindSet, Touched};
use crate::publish::destination::PublishedDestination;
use crate::query::claims::{ClaimGroup, HostClaims};
use crate::query::condition::{Conditions, ObjectCondition};
use crate::query::delegation::{
    ActiveClaims, AdmissionRules, ClaimedWildcard, ClaimsOn, ConstrainedRoutesOf, DecidedClaims,
    DelegatedRoutes, DelegatedRoutesOf, DelegationTree, HoldersOf, HostOwner, IsTreeHost, Labelled,
    NamesBelow, NamesBelowOf, ObjectsIn, OverlappingClaims, OwnedBelow, OwnerTable, OwnersAround,
    OwnersUnder, PathsOf, RootClaims, RootsUnder, TreeHosts, TreeHostsOf, TreeOf, TreeRoutes,
    TreeRoutesOf,
};
use crate::query::delegation_state::{DelegationState, DelegationStateOf};
use crate::query::destination::{
    AddressOwners, ApiServer, DestinationOf, EndpointAt, EntryOf, IsOpaque, OwnersOf,
    ServicePortOf, WorkloadEntry, ZoneOf,
};
use crate::query::effective_servers::{EffectiveServers, EffectiveServersOf};
use crate::query::effects::{
    EffectPoliciesOn, EffectPolicy, RewriteOverlaps, RewriteOverlapsOn, UnreadRewritesIn,
};
use crate::query::grant::{
    Clients, GrantResolution, GrantSet, MembersOf, PolicyGrant, RouteGrants,
    ServerAuthorizationGrant, ServerGrants,
};
use crate::query::host_paths::HostPaths;
use crate::query::hostnames::{AttachedRoute, AttachedTo, CrowdedHostnamesOf};
use crate::query::hostnames::{ClaimedBelow, ClaimedBelowOf};
use crate::query::policy::{
    AttachedRoutes, AttachedRoutesOf, CompiledRoute, DenyingRoutes, DenyingRoutesOf, GrpcRouteOf,
    PolicyOf, RateLimitOf, ServerAuthorizationsOf, ServerBaseOf,
};
use crate::query::port_ownership::{
    Claim, DisplacedServers, DisplacedServersOf, PortOwners, PortOwnersOf, SelectorKeys, ServersOf,
};
use crate::query::precedence::{PrecedenceDifferences, PrecedenceDifferencesOf};
use crate::query::reference::{ForeignReference, ForeignReferencesOf};
use crate::query::requests::{
    BindingRoutesOf, BoundRoutes, BoundRoutesOf, ClassSelection, ClassSelectionOf, DescribedRoutes,
    DescribedRoutesOf, GroupSummary, GroupSummaryOf, OversizedBindings, OversizedBindingsOf,
    ServersWithoutRoom, UnreadBindingsIn,
};
use crate::query::smi::{
    TargetGrant, TargetGrantOf, TargetSize, TargetSizeOf, Targets, TargetsIn, TargetsWithoutRoom,
};
use crate::query::workload::{
    NamespaceDefaults, NamespaceSettings, ResolvedWorkload, WorkloadOf, WorkloadShape,
};
use hashbrown::{HashMap, HashSet};
use policy_core::{AuthorizationSet, Endpoint, HostPattern, RateLimit, Route, ServerPolicy};
use policy_crds::{Kind, Object, ObjectKey, resource::RouteAdmission};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A query about the index.
pub(crate) trait Query: Clone + Eq + Hash {
    /// The type of the answer.
    type Output: Clone + PartialEq;

    /// The key of this query among all queries.
    fn key(&self) -> QueryKey;

    /// The table of the memoized answers.
    fn table(tables: &mut MemoTables) -> &mut MemoTable<Self, Self::Output>;

    /// Answers it, from nothing but what `cx` gives.
    fn answer(&self, cx: &mut Context<'_>) -> Self::Output;
}

/// The memoized answers of one type of query, each with its node.
pub(crate) type MemoTable<Q, A> = HashMap<Q, (A, Id)>;

/// Declares the queries, in an order in which each reads only those before it.
macro_rules! queries {
    ($($name:ident => $answer:ty),* $(,)?) => {
        /// The key of any query. The order of the variants is the order of execution.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum QueryKey {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
            )*
        }

        /// All answers.
        #[derive(Clone, Default)]
        #[allow(non_snake_case, reason = "the fields are named after the questions")]
        pub(crate) struct MemoTables {
            $($name: MemoTable<$name, $answer>,)*
        }

        $(
            impl $name {
                /// The key of this query among all queries.
                pub(crate) fn as_key(&self) -> QueryKey {
                    QueryKey::$name(self.clone())
                }

                /// The table of the memoized answers.
                pub(crate) fn tables(tables: &mut MemoTables) -> &mut MemoTable<Self, $answer> {
                    &mut tables.$name
                }
            }
        )*

        /// The order of answering, as the order of the variants.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        enum Stratum {
            $($name,)*
        }

        impl QueryKey {
            fn stratum(&self) -> Stratum {
                match self {
                    $(Self::$name(_) => Stratum::$name,)*
                }
            }

            fn refresh(&self, memo: &mut Memo, index: &Index, config: &ControllerConfig) -> bool {
                match self {
                    $(Self::$name(query) => memo.refresh(query, index, config),)*
                }
            }

            fn forget(&self, tables: &mut MemoTables) {
                match self {
                    $(Self::$name(query) => drop(tables.$name.remove(query)),)*
                }
            }
        }
    };
}

queries! {
    MembersOf => Clients,
    AdmissionRules => Arc<RouteAdmission>,
    RootClaims => Arc<[Arc<ClaimGroup>]>,
    ClaimedWildcard => bool,
    OwnersUnder => Arc<OwnerTable>,
    OwnersAround => Arc<[HostOwner]>,
    DecidedClaims => Arc<HostClaims>,
    ActiveClaims => Arc<[Arc<ClaimGroup>]>,
    AttachedTo => Arc<[AttachedRoute]>,
    ClaimsOn => Arc<HostClaims>,
    HoldersOf => Arc<[ObjectKey]>,
    OverlappingClaims => Arc<HostClaims>,
    RootsUnder => Arc<[(ObjectKey, Vec<HostPattern>)]>,
    OwnedBelow => bool,
    ClaimedBelowOf => Arc<[ClaimedBelow]>,
    NamesBelowOf => Arc<NamesBelow>,
    Labelled => Arc<[ObjectKey]>,
    NamespaceDefaults => NamespaceSettings,
    ServersOf => Arc<[Claim]>,
    SelectorKeys => Arc<BTreeSet<Arc<str>>>,
    PortOwnersOf => Arc<PortOwners>,
    TargetsIn => Arc<Targets>,
    TargetSizeOf => TargetSize,
    TargetsWithoutRoom => Arc<BTreeSet<Arc<str>>>,
    TargetGrantOf => Arc<TargetGrant>,
    PolicyGrant => GrantResolution,
    ServerAuthorizationGrant => GrantResolution,
    ServerGrants => Arc<GrantSet>,
    RouteGrants => Arc<GrantSet>,
    DescribedRoutesOf => Arc<DescribedRoutes>,
    GroupSummaryOf => Arc<GroupSummary>,
    BindingRoutesOf => Arc<DescribedRoutes>,
    UnreadRewritesIn => Arc<[EffectPolicy]>,
    EffectPoliciesOn => Arc<[EffectPolicy]>,
    GrpcRouteOf => Option<ObjectKey>,
    CompiledRoute => Arc<[Arc<Route>]>,
    TreeOf => Arc<DelegationTree>,
    ObjectsIn => Arc<BTreeSet<ObjectKey>>,
    PathsOf => Arc<HostPaths>,
    TreeHostsOf => Arc<TreeHosts>,
    IsTreeHost => bool,
    TreeRoutesOf => Arc<TreeRoutes>,
    ServerAuthorizationsOf => AuthorizationSet,
    ConstrainedRoutesOf => Arc<[Arc<Route>]>,
    DelegatedRoutesOf => Arc<DelegatedRoutes>,
    CrowdedHostnamesOf => Arc<BTreeSet<HostPattern>>,
    UnreadBindingsIn => Arc<[ObjectKey]>,
    OversizedBindingsOf => Arc<OversizedBindings>,
    ServersWithoutRoom => Arc<BTreeSet<ObjectKey>>,
    BoundRoutesOf => Arc<BoundRoutes>,
    ClassSelectionOf => Arc<ClassSelection>,
    AttachedRoutesOf => Arc<AttachedRoutes>,
    DenyingRoutesOf => Arc<DenyingRoutes>,
    PrecedenceDifferencesOf => Arc<PrecedenceDifferences>,
    RateLimitOf => Option<(ObjectKey, Arc<RateLimit>)>,
    ServerBaseOf => Arc<ServerPolicy>,
    PolicyOf => Arc<ServerPolicy>,
    WorkloadOf => Option<Arc<ResolvedWorkload>>,
    DisplacedServersOf => Arc<DisplacedServers>,
    DelegationStateOf => Arc<DelegationState>,
    RewriteOverlapsOn => Arc<RewriteOverlaps>,
    EffectiveServersOf => Arc<EffectiveServers>,
    Conditions => Arc<[ObjectCondition]>,
    ForeignReferencesOf => Arc<[ForeignReference]>,
    OwnersOf => Arc<AddressOwners>,
    ApiServer => Arc<BTreeSet<SocketAddr>>,
    EntryOf => Option<Arc<WorkloadEntry>>,
    IsOpaque => bool,
    EndpointAt => Option<Endpoint>,
    ZoneOf => Option<Arc<str>>,
    ServicePortOf => Arc<PublishedDestination>,
    DestinationOf => Arc<PublishedDestination>,
}

/// The memoized answers and their dependency graph.
#[derive(Clone, Default)]
pub(crate) struct Memo {
    tables: MemoTables,
    graph: Graph<QueryKey>,
    policies: Interned<ServerPolicy>,
    shapes: Interned<WorkloadShape>,
    answered: u64,
    compiled: u64,
}

/// The inputs and answers that a query may read. Every read is recorded.
pub(crate) struct Context<'a> {
    index: &'a Index,
    /// The configuration, which never changes.
    pub(crate) config: &'a ControllerConfig,
    memo: &'a mut Memo,
    /// The node of the query that is being executed.
    id: Id,
    reads: Vec<Id>,
    kinds: KindSet,
}

impl<'a> Context<'a> {
    /// The object of this name.
    pub(crate) fn object(&mut self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.read(Input::Object(key.clone()));
        self.index.object(key)
    }

    /// The objects of a kind in a namespace, by name.
    pub(crate) fn list(
        &mut self,
        kind: Kind,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.read(Input::List(kind, namespace.clone()));
        let listed: Vec<&'a Arc<Object>> = self.index.list(kind, namespace).collect();
        listed.into_iter()
    }

    /// True if a slice says that an address is a pod's, and the pods of that time are not known yet.
    pub(crate) fn awaits_pod(&mut self, address: IpAddr) -> bool {
        self.read(Input::Edge(Edge::PodEndpoint(address)));
        self.index.awaits_pod(address)
    }

    /// The objects on an edge.
    pub(crate) fn edge(&mut self, edge: Edge) -> Vec<&'a ObjectKey> {
        let members = self.index.edge(&edge).collect();
        self.read(Input::Edge(edge));
        members
    }

    /// The objects on the edge with the fewest, of edges that have to have the same objects in
    /// common. Which one it is must make no difference to the answer: it is not recorded.
    pub(crate) fn shortest_edge(
        &mut self,
        edges: impl Iterator<Item = Edge>,
    ) -> Option<Vec<&'a ObjectKey>> {
        let shortest = edges.min_by_key(|edge| self.index.edge_len(edge))?;
        Some(self.edge(shortest))
    }

    /// The answer to another query.
    pub(crate) fn query<Q: Query>(&mut self, query: &Q) -> Q::Output {
        let (answer, id) = self.memo.lookup(query, self.index, self.config);
        self.kinds.extend(self.memo.graph.kinds(id));
        self.note(id);
        answer
    }

    /// The one allocation of a policy equal to this.
    pub(crate) fn intern(&mut self, policy: ServerPolicy) -> Arc<ServerPolicy> {
        self.memo.policies.intern(policy)
    }

    /// The one allocation of a shape equal to this.
    pub(crate) fn intern_shape(&mut self, shape: WorkloadShape) -> Arc<WorkloadShape> {
        self.memo.shapes.intern(shape)
    }

    fn read(&mut self, input: Input) {
        self.kinds.extend(input.kinds());
        let id = self.memo.graph.id(NodeKey::Input(input));
        self.note(id);
    }

    /// Records a read at once, so that the node cannot be removed meanwhile.
    fn note(&mut self, id: Id) {
        self.memo.graph.read(self.id, id);
        self.reads.push(id);
    }
}

impl Memo {
    /// The answer to a query, and the kinds it was made from.
    pub(crate) fn query<Q: Query>(
        &mut self,
        query: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> (Q::Output, KindSet) {
        let (answer, id) = self.lookup(query, index, config);
        (answer, self.graph.kinds(id))
    }

    /// The answer to a query, and its node.
    fn lookup<Q: Query>(
        &mut self,
        query: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> (Q::Output, Id) {
        if let Some(memo) = Q::table(&mut self.tables).get(query) {
            return memo.clone();
        }
        let (answer, id) = self.compute(query, index, config);
        Q::table(&mut self.tables).insert(query.clone(), (answer.clone(), id));
        (answer, id)
    }

    /// Executes the queries again that read a touched input. Returns those whose answers have
    /// changed, or were made from other kinds.
    pub(crate) fn update(
        &mut self,
        touched: &Touched,
        index: &Index,
        config: &ControllerConfig,
    ) -> Vec<QueryKey> {
        let mut dirty: BTreeSet<(Stratum, Id)> = BTreeSet::new();
        for input in touched {
            if let Some(id) = self.graph.find(&NodeKey::Input(input.clone())) {
                self.mark_dirty(id, &mut dirty);
            }
        }
        let mut changed = Vec::new();
        while let Some((_, id)) = dirty.pop_first() {
            let Some(key) = self.graph.key(id).cloned() else { continue };
            let kinds = self.graph.kinds(id);
            if key.refresh(self, index, config) || self.graph.kinds(id) != kinds {
                self.mark_dirty(id, &mut dirty);
                changed.push(key);
            }
        }
        changed
    }

    /// Marks the readers of a node dirty.
    fn mark_dirty(&self, id: Id, dirty: &mut BTreeSet<(Stratum, Id)>) {
        for reader in self.graph.readers(id) {
            if let Some(key) = self.graph.key(reader) {
                dirty.insert((key.stratum(), reader));
            }
        }
    }

    /// Forgets every answer that no root depends on.
    pub(crate) fn retain(&mut self, roots: impl IntoIterator<Item = QueryKey>) {
        let mut open: Vec<Id> =
            roots.into_iter().filter_map(|key| self.graph.find(&NodeKey::Query(key))).collect();
        let mut live: HashSet<Id> = HashSet::new();
        while let Some(id) = open.pop() {
            if live.insert(id) {
                open.extend_from_slice(self.graph.reads(id));
            }
        }
        let dead = self.graph.queries().filter(|(id, _)| !live.contains(id));
        let dead: Vec<(Id, QueryKey)> = dead.map(|(id, key)| (id, key.clone())).collect();
        for (id, key) in dead {
            self.graph.remove(id);
            key.forget(&mut self.tables);
        }
        self.policies.sweep();
        self.shapes.sweep();
    }

    /// Forgets one answer, if no other was made from it.
    pub(crate) fn forget(&mut self, key: &QueryKey) {
        if let Some(id) = self.graph.find(&NodeKey::Query(key.clone()))
            && self.graph.readers(id).next().is_none()
        {
            self.graph.remove(id);
            key.forget(&mut self.tables);
        }
    }

    /// Number of memoized answers.
    pub(crate) fn len(&self) -> usize {
        self.graph.len()
    }

    /// Number of query executions so far.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Number of those that compiled a policy, or the part of one that its Server gives.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled
    }

    fn refresh<Q: Query>(&mut self, query: &Q, index: &Index, config: &ControllerConfig) -> bool {
        let (answer, id) = self.compute(query, index, config);
        let table = Q::table(&mut self.tables);
        if table.get(query).is_some_and(|(before, _)| *before == answer) {
            return false;
        }
        table.insert(query.clone(), (answer, id));
        true
    }

    fn compute<Q: Query>(
        &mut self,
        query: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> (Q::Output, Id) {
        let key = query.key();
        self.answered = self.answered.saturating_add(1);
        let compiling = matches!(key, QueryKey::ServerBaseOf(_) | QueryKey::PolicyOf(_));
        self.compiled = self.compiled.saturating_add(u64::from(compiling));
        let id = self.graph.id(NodeKey::Query(key));
        let mut cx =
            Context { index, config, memo: self, id, reads: Vec::new(), kinds: KindSet::default() };
        let answer = query.answer(&mut cx);
        let Context { reads, kinds, .. } = cx;
        self.graph.record(id, reads, kinds);
        (answer, id)
    }
}

#[cfg(test)]
impl Memo {
    /// Number of nodes, shapes and policies.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.graph.nodes(), self.shapes.len(), self.policies.len()]
    }
}
