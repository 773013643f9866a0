//! Answers, what each of them read, and who read them.
//!
//! A question is a pure function of its key, the index and the configuration. Its answer is kept
//! together with every topic and every other answer it read, including objects it looked for and
//! did not find. When topics are touched, the questions that read them are answered again, in an
//! order in which each comes after all it may read; whoever read an answer follows only if the
//! answer came out different.

use crate::config::ControllerConfig;
use crate::index::{Edge, Index, KindSet, Topic, Touched};
use hashbrown::{HashMap, HashSet};
use policy_core::ServerPolicy;
use policy_crds::{Kind, Object, ObjectKey};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// A question about the index.
pub(crate) trait Question: Clone + Eq + Hash {
    /// What is answered.
    type Answer: Clone + PartialEq;

    /// The question among all others.
    fn query(&self) -> Query;

    /// Where its answers are kept.
    fn cell(values: &mut Values) -> &mut HashMap<Self, Self::Answer>;

    /// Answers it, from nothing but what `cx` gives.
    fn answer(&self, cx: &mut Context<'_>) -> Self::Answer;
}

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
            $($name: HashMap<$name, $answer>,)*
        }

        $(
            impl $name {
                /// This question among all others.
                pub(crate) fn as_query(&self) -> Query {
                    Query::$name(self.clone())
                }

                /// Where its answers are kept.
                pub(crate) fn values(values: &mut Values) -> &mut HashMap<Self, $answer> {
                    &mut values.$name
                }
            }
        )*

        impl Query {
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

use super::authentication::Members;
use super::condition::{Conditions, ObjectCondition};
use super::grant::{
    Granted, PolicyGrant, RouteGrants, ServerAuthorizationGrant, ServerGrants, Set,
};
use super::namespace::{NamespaceDefaults, NamespaceSettings};
use super::owner::{Owners, PortsOwned, SelectorKeys, ServersOf};
use super::precedence::{Differences, Differing};
use super::rate_limit::{Limit, RateLimitOf};
use super::route::{Attached, Attachments, CompiledRoute};
use super::workload::{Resolved, WorkloadOf};
use crate::compile::{Pieces, PolicyOf, ServerPieces};

questions! {
    Members => super::authentication::Answer,
    NamespaceDefaults => NamespaceSettings,
    ServersOf => Arc<[super::owner::Claim]>,
    SelectorKeys => Arc<std::collections::BTreeSet<Arc<str>>>,
    PortsOwned => Arc<Owners>,
    PolicyGrant => Granted,
    ServerAuthorizationGrant => Granted,
    ServerGrants => Set,
    RouteGrants => Set,
    CompiledRoute => Option<Arc<policy_core::Route>>,
    Attached => Arc<Attachments>,
    Differing => Arc<Differences>,
    RateLimitOf => Limit,
    ServerPieces => Arc<Pieces>,
    PolicyOf => Arc<ServerPolicy>,
    WorkloadOf => Option<Arc<Resolved>>,
    Conditions => Arc<[ObjectCondition]>,
}

/// Something that was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Read {
    Topic(Topic),
    Query(Query),
}

/// What is known of an answer besides itself.
#[derive(Debug, Default)]
struct Entry {
    reads: HashSet<Read>,
    readers: HashSet<Query>,
    kinds: KindSet,
}

/// Answers and what they read.
#[derive(Default)]
pub(crate) struct Memo {
    values: Values,
    entries: HashMap<Query, Entry>,
    topics: HashMap<Topic, HashSet<Query>>,
    policies: Interned,
    answered: u64,
}

/// What a question may use. All that it reads is written down.
pub(crate) struct Context<'a> {
    index: &'a Index,
    /// The configuration, which never changes.
    pub(crate) config: &'a ControllerConfig,
    memo: &'a mut Memo,
    reads: HashSet<Read>,
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
        let (answer, kinds) = self.memo.ask(question, self.index, self.config);
        self.kinds.extend(kinds);
        self.reads.insert(Read::Query(question.query()));
        answer
    }

    /// The one allocation of a policy equal to this.
    pub(crate) fn intern(&mut self, policy: ServerPolicy) -> Arc<ServerPolicy> {
        self.memo.policies.intern(policy)
    }

    fn read(&mut self, topic: Topic) {
        self.kinds.extend(topic.kinds());
        self.reads.insert(Read::Topic(topic));
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
        let query = question.query();
        if let Some(answer) = Q::cell(&mut self.values).get(question)
            && let Some(entry) = self.entries.get(&query)
        {
            return (answer.clone(), entry.kinds);
        }
        let answer = self.compute(question, index, config);
        Q::cell(&mut self.values).insert(question.clone(), answer.clone());
        let kinds = self.entries.get(&query).map(|entry| entry.kinds).unwrap_or_default();
        (answer, kinds)
    }

    /// Answers again whatever read what was touched. Returns the answers that came out different,
    /// each with the kinds of the objects that made it so.
    pub(crate) fn update(
        &mut self,
        touched: &Touched,
        index: &Index,
        config: &ControllerConfig,
    ) -> BTreeMap<Query, KindSet> {
        let mut dirty: BTreeMap<Query, KindSet> = BTreeMap::new();
        for (topic, kinds) in touched {
            for query in self.topics.get(topic).into_iter().flatten() {
                dirty.entry(query.clone()).or_default().extend(*kinds);
            }
        }
        let mut changed = BTreeMap::new();
        while let Some((query, causes)) = dirty.pop_first() {
            if !query.refresh(self, index, config) {
                continue;
            }
            for reader in self.entries.get(&query).into_iter().flat_map(|entry| &entry.readers) {
                dirty.entry(reader.clone()).or_default().extend(causes);
            }
            changed.insert(query, causes);
        }
        changed
    }

    /// Forgets every answer that no root depends on.
    pub(crate) fn retain(&mut self, roots: impl IntoIterator<Item = Query>) {
        let mut live: HashSet<Query> = HashSet::new();
        let mut open: Vec<Query> = roots.into_iter().collect();
        while let Some(query) = open.pop() {
            if let Some(entry) = self.entries.get(&query)
                && live.insert(query)
            {
                open.extend(entry.reads.iter().filter_map(|read| match read {
                    Read::Query(query) => Some(query.clone()),
                    Read::Topic(_) => None,
                }));
            }
        }
        let dead: Vec<Query> =
            self.entries.keys().filter(|query| !live.contains(*query)).cloned().collect();
        for query in dead {
            if let Some(entry) = self.entries.remove(&query) {
                self.unread(&query, &entry.reads);
            }
            query.forget(&mut self.values);
        }
        self.policies.sweep();
    }

    /// Forgets one answer, if no other was made from it.
    pub(crate) fn forget(&mut self, query: &Query) {
        if self.entries.get(query).is_some_and(|entry| entry.readers.is_empty())
            && let Some(entry) = self.entries.remove(query)
        {
            self.unread(query, &entry.reads);
            query.forget(&mut self.values);
        }
    }

    /// How many answers are kept.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many times a question was answered anew.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    fn refresh<Q: Question>(
        &mut self,
        question: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> bool {
        let answer = self.compute(question, index, config);
        let cell = Q::cell(&mut self.values);
        if cell.get(question) == Some(&answer) {
            return false;
        }
        cell.insert(question.clone(), answer);
        true
    }

    fn compute<Q: Question>(
        &mut self,
        question: &Q,
        index: &Index,
        config: &ControllerConfig,
    ) -> Q::Answer {
        self.answered = self.answered.saturating_add(1);
        let mut cx =
            Context { index, config, memo: self, reads: HashSet::new(), kinds: KindSet::default() };
        let answer = question.answer(&mut cx);
        let Context { reads, kinds, .. } = cx;
        self.record(question.query(), reads, kinds);
        answer
    }

    fn record(&mut self, query: Query, reads: HashSet<Read>, kinds: KindSet) {
        let before = match self.entries.get_mut(&query) {
            Some(entry) => {
                entry.kinds = kinds;
                std::mem::take(&mut entry.reads)
            }
            None => HashSet::new(),
        };
        let gone: HashSet<Read> = before.difference(&reads).cloned().collect();
        self.unread(&query, &gone);
        for read in reads.difference(&before) {
            match read {
                Read::Topic(topic) => {
                    self.topics.entry(topic.clone()).or_default().insert(query.clone());
                }
                Read::Query(other) => {
                    let entry = self.entries.entry(other.clone()).or_default();
                    entry.readers.insert(query.clone());
                }
            }
        }
        let entry = self.entries.entry(query).or_default();
        entry.reads = reads;
        entry.kinds = kinds;
    }

    fn unread(&mut self, query: &Query, reads: &HashSet<Read>) {
        for read in reads {
            match read {
                Read::Topic(topic) => {
                    if let Some(readers) = self.topics.get_mut(topic) {
                        readers.remove(query);
                        if readers.is_empty() {
                            self.topics.remove(topic);
                        }
                    }
                }
                Read::Query(other) => {
                    if let Some(entry) = self.entries.get_mut(other) {
                        entry.readers.remove(query);
                    }
                }
            }
        }
    }
}

/// Policies by content, as long as somebody holds them.
#[derive(Default)]
struct Interned {
    by_hash: HashMap<u64, Vec<Weak<ServerPolicy>>>,
}

impl Interned {
    fn intern(&mut self, policy: ServerPolicy) -> Arc<ServerPolicy> {
        let held = self.by_hash.entry(content_hash(&policy)).or_default();
        if let Some(equal) = held.iter().filter_map(Weak::upgrade).find(|p| **p == policy) {
            return equal;
        }
        let policy = Arc::new(policy);
        held.retain(|weak| weak.strong_count() > 0);
        held.push(Arc::downgrade(&policy));
        policy
    }

    fn sweep(&mut self) {
        self.by_hash.retain(|_, held| held.iter().any(|weak| weak.strong_count() > 0));
    }
}

/// A hash of everything a policy says; equal for equal policies of one build.
pub(crate) fn content_hash(policy: &ServerPolicy) -> u64 {
    let mut hasher = DefaultHasher::new();
    policy.hash(&mut hasher);
    hasher.finish()
}
