//! Answers, what each of them read, and who read them.
//!
//! A question is a pure function of its key, the index and the configuration. Its answer is kept
//! together with every topic and every other answer it read, including objects it looked for and
//! did not find. When topics are touched, the questions that read them are answered again, in an
//! order in which each comes after all it may read; whoever read an answer follows only if the
//! answer came out different.

use super::graph::{Graph, Id, Name};
use super::interned::Interned;
use crate::config::ControllerConfig;
use crate::index::{Edge, Index, KindSet, Topic, Touched};
use crate::question::condition::{Conditions, ObjectCondition};
use crate::question::grant::{
    Clients, GrantSet, Granted, Members, PolicyGrant, RouteGrants, ServerAuthorizationGrant,
    ServerGrants,
};
use crate::question::host::{Hosted, Hosts};
use crate::question::owner::{
    Claim, Displaced, DisplacedServers, Owners, PortsOwned, SelectorKeys, ServersOf,
};
use crate::question::policy::{
    Attached, Attachments, CompiledRoute, PolicyOf, RateLimitOf, ServerPieces,
};
use crate::question::precedence::{Differences, Differing};
use crate::question::workload::{
    NamespaceDefaults, NamespaceSettings, Resolved, Shape, WorkloadOf,
};
use hashbrown::{HashMap, HashSet};
use policy_core::{RateLimit, Route, ServerPolicy};
use policy_crds::{Kind, Object, ObjectKey};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

/// A question about the index.
pub(crate) trait Question: Clone + Eq + Hash {
    /// What is answered.
    type Answer: Clone + PartialEq;

    /// The question among all others.
    fn query(&self) -> Query;

    /// Where its answers are kept.
    fn cell(values: &mut Values) -> &mut Cell<Self, Self::Answer>;

    /// Answers it, from nothing but what `cx` gives.
    fn answer(&self, cx: &mut Context<'_>) -> Self::Answer;
}

/// The answers to questions of one type, each with its place among what was read.
pub(crate) type Cell<Q, A> = HashMap<Q, (A, Id)>;

/// Declares the questions, in an order in which each reads only those before it.
macro_rules! questions {
    ($($name:ident => $answer:ty),* $(,)?) => {
        /// Every question. The order of the variants is the order of answering.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Query {
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
            )*
        }

        /// All answers.
        #[derive(Default)]
        #[allow(non_snake_case, reason = "the fields are named after the questions")]
        pub(crate) struct Values {
            $($name: Cell<$name, $answer>,)*
        }

        $(
            impl $name {
                /// This question among all others.
                pub(crate) fn as_query(&self) -> Query {
                    Query::$name(self.clone())
                }

                /// Where its answers are kept.
                pub(crate) fn values(values: &mut Values) -> &mut Cell<Self, $answer> {
                    &mut values.$name
                }
            }
        )*

        /// The order of answering, as the order of the variants.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        enum Rank {
            $($name,)*
        }

        impl Query {
            fn rank(&self) -> Rank {
                match self {
                    $(Self::$name(_) => Rank::$name,)*
                }
            }

            fn refresh(&self, memo: &mut Memo, index: &Index, config: &ControllerConfig) -> bool {
                match self {
                    $(Self::$name(question) => memo.refresh(question, index, config),)*
                }
            }

            fn forget(&self, values: &mut Values) {
                match self {
                    $(Self::$name(question) => drop(values.$name.remove(question)),)*
                }
            }
        }
    };
}

questions! {
    Members => Clients,
    NamespaceDefaults => NamespaceSettings,
    ServersOf => Arc<[Claim]>,
    SelectorKeys => Arc<BTreeSet<Arc<str>>>,
    PortsOwned => Arc<Owners>,
    PolicyGrant => Granted,
    ServerAuthorizationGrant => Granted,
    ServerGrants => Arc<GrantSet>,
    RouteGrants => Arc<GrantSet>,
    CompiledRoute => Option<Arc<Route>>,
    Attached => Arc<Attachments>,
    Differing => Arc<Differences>,
    RateLimitOf => Option<(ObjectKey, Arc<RateLimit>)>,
    ServerPieces => Arc<ServerPolicy>,
    PolicyOf => Arc<ServerPolicy>,
    WorkloadOf => Option<Arc<Resolved>>,
    Displaced => Arc<DisplacedServers>,
    Conditions => Arc<[ObjectCondition]>,
    Hosts => Arc<Hosted>,
}

/// Answers and what they read.
#[derive(Default)]
pub(crate) struct Memo {
    values: Values,
    graph: Graph<Query>,
    policies: Interned<ServerPolicy>,
    shapes: Interned<Shape>,
    answered: u64,
    compiled: u64,
}

/// What a question may use. All that it reads is written down.
pub(crate) struct Context<'a> {
    index: &'a Index,
    /// The configuration, which never changes.
    pub(crate) config: &'a ControllerConfig,
    memo: &'a mut Memo,
    /// The question that is being answered.
    id: Id,
    reads: Vec<Id>,
    kinds: KindSet,
}

impl<'a> Context<'a> {
    /// The object of this name.
    pub(crate) fn object(&mut self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.read(Topic::Object(key.clone()));
        self.index.object(key)
    }

    /// The objects of a kind in a namespace, by name.
    pub(crate) fn list(
        &mut self,
        kind: Kind,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.read(Topic::List(kind, namespace.clone()));
        let index: &'a Index = self.index;
        let listed: Vec<&'a Arc<Object>> = index.list(kind, namespace).collect();
        listed.into_iter()
    }

    /// The objects on an edge.
    pub(crate) fn edge(&mut self, edge: Edge) -> Vec<&'a ObjectKey> {
        let members = self.index.edge(&edge).collect();
        self.read(Topic::Edge(edge));
        members
    }

    /// The answer to another question.
    pub(crate) fn ask<Q: Question>(&mut self, question: &Q) -> Q::Answer {
        let (answer, id) = self.memo.known(question, self.index, self.config);
        self.kinds.extend(self.memo.graph.kinds(id));
        self.note(id);
        answer
    }

    /// The one allocation of a policy equal to this.
    pub(crate) fn intern(&mut self, policy: ServerPolicy) -> Arc<ServerPolicy> {
        self.memo.policies.intern(policy)
    }

    /// The one allocation of a shape equal to this.
    pub(crate) fn intern_shape(&mut self, shape: Shape) -> Arc<Shape> {
        self.memo.shapes.intern(shape)
    }

    fn read(&mut self, topic: Topic) {
        self.kinds.extend(topic.kinds());
        let id = self.memo.graph.id(Name::Topic(topic));
        self.note(id);
    }

    /// Notes a read at once, so that nothing that was read can be forgotten meanwhile.
    fn note(&mut self, id: Id) {
        self.memo.graph.read(self.id, id);
        self.reads.push(id);
    }
}

impl Memo {
    /// The answer to a question, and the kinds it was made from.
    pub(crate) fn ask<Q: Question>(
        &mut self,
        question: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> (Q::Answer, KindSet) {
        let (answer, id) = self.known(question, index, config);
        (answer, self.graph.kinds(id))
    }

    /// The answer to a question, and its place.
    fn known<Q: Question>(
        &mut self,
        question: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> (Q::Answer, Id) {
        if let Some(known) = Q::cell(&mut self.values).get(question) {
            return known.clone();
        }
        let (answer, id) = self.compute(question, index, config);
        Q::cell(&mut self.values).insert(question.clone(), (answer.clone(), id));
        (answer, id)
    }

    /// Answers again whatever read what was touched. Returns the answers that came out different, or
    /// were made from other kinds.
    pub(crate) fn update(
        &mut self,
        touched: &Touched,
        index: &Index,
        config: &ControllerConfig,
    ) -> Vec<Query> {
        let mut dirty: BTreeSet<(Rank, Id)> = BTreeSet::new();
        for topic in touched {
            if let Some(id) = self.graph.find(&Name::Topic(topic.clone())) {
                self.soil(id, &mut dirty);
            }
        }
        let mut changed = Vec::new();
        while let Some((_, id)) = dirty.pop_first() {
            let Some(query) = self.graph.query(id).cloned() else { continue };
            let kinds = self.graph.kinds(id);
            if query.refresh(self, index, config) || self.graph.kinds(id) != kinds {
                self.soil(id, &mut dirty);
                changed.push(query);
            }
        }
        changed
    }

    /// Marks whoever read a node.
    fn soil(&self, id: Id, dirty: &mut BTreeSet<(Rank, Id)>) {
        for reader in self.graph.readers(id) {
            if let Some(query) = self.graph.query(reader) {
                dirty.insert((query.rank(), reader));
            }
        }
    }

    /// Forgets every answer that no root depends on.
    pub(crate) fn retain(&mut self, roots: impl IntoIterator<Item = Query>) {
        let mut open: Vec<Id> =
            roots.into_iter().filter_map(|query| self.graph.find(&Name::Query(query))).collect();
        let mut live: HashSet<Id> = HashSet::new();
        while let Some(id) = open.pop() {
            if live.insert(id) {
                open.extend_from_slice(self.graph.reads(id));
            }
        }
        let dead = self.graph.queries().filter(|(id, _)| !live.contains(id));
        let dead: Vec<(Id, Query)> = dead.map(|(id, query)| (id, query.clone())).collect();
        for (id, query) in dead {
            self.graph.remove(id);
            query.forget(&mut self.values);
        }
        self.policies.sweep();
        self.shapes.sweep();
    }

    /// Forgets one answer, if no other was made from it.
    pub(crate) fn forget(&mut self, query: &Query) {
        if let Some(id) = self.graph.find(&Name::Query(query.clone()))
            && self.graph.readers(id).next().is_none()
        {
            self.graph.remove(id);
            query.forget(&mut self.values);
        }
    }

    /// How many answers are kept.
    pub(crate) fn len(&self) -> usize {
        self.graph.len()
    }

    /// How many nodes, shapes and policies are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> [usize; 3] {
        [self.graph.nodes(), self.shapes.len(), self.policies.len()]
    }

    /// How many times a question was answered anew.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// How many of these were part of compiling.
    pub(crate) fn compiled(&self) -> u64 {
        self.compiled
    }

    fn refresh<Q: Question>(
        &mut self,
        question: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> bool {
        let (answer, id) = self.compute(question, index, config);
        let cell = Q::cell(&mut self.values);
        if cell.get(question).is_some_and(|(before, _)| *before == answer) {
            return false;
        }
        cell.insert(question.clone(), (answer, id));
        true
    }

    fn compute<Q: Question>(
        &mut self,
        question: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> (Q::Answer, Id) {
        let query = question.query();
        self.answered = self.answered.saturating_add(1);
        let compiling = matches!(query, Query::ServerPieces(_) | Query::PolicyOf(_));
        self.compiled = self.compiled.saturating_add(u64::from(compiling));
        let id = self.graph.id(Name::Query(query));
        let mut cx =
            Context { index, config, memo: self, id, reads: Vec::new(), kinds: KindSet::default() };
        let answer = question.answer(&mut cx);
        let Context { reads, kinds, .. } = cx;
        self.graph.record(id, reads, kinds);
        (answer, id)
    }
}

/// Implements [`Question`] by naming the function that answers.
macro_rules! question {
    ($name:ty, $answer:ty, $function:expr) => {
        impl crate::incremental::memo::Question for $name {
            type Answer = $answer;

            fn query(&self) -> crate::incremental::memo::Query {
                self.as_query()
            }

            fn cell(
                values: &mut crate::incremental::memo::Values,
            ) -> &mut crate::incremental::memo::Cell<Self, Self::Answer> {
                Self::values(values)
            }

            fn answer(&self, cx: &mut crate::incremental::memo::Context<'_>) -> Self::Answer {
                $function(self, cx)
            }
        }
    };
}
pub(crate) use question;
