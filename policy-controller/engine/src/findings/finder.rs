//! The state of the objects that findings are made from.

use super::finding::{Finding, FindingKind};
use crate::config::ControllerConfig;
use crate::incremental::{Memo, Query};
use crate::index::Index;
use crate::source::{Batch, Change};
use policy_core::ObjectRef;
use policy_crds::{Body, Object, ObjectKey, Resource};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Messages about matches that are never reached, by rule and match.
pub(super) type Unreached = BTreeMap<(usize, usize), String>;

/// The messages of each route.
pub(super) type UnreachedByRoute = BTreeMap<ObjectRef, Unreached>;

/// Computes the findings about objects. The index must have been listed completely, because an
/// object that is not in it counts as missing.
pub(crate) struct Finder<'a> {
    pub(super) index: &'a Index,
    memo: &'a mut Memo,
    pub(super) config: &'a ControllerConfig,
    /// The most workloads that are examined for one Server.
    pub(super) examined: usize,
    /// True if messages may name namespaces besides that of the object. Its author may not be allowed
    /// to read these.
    names_namespaces: bool,
    /// Number of searches for what was meant so far.
    searches: Cell<usize>,
    /// The matches that are never reached, by Server.
    pub(super) unreached: BTreeMap<ObjectKey, Arc<UnreachedByRoute>>,
}

impl<'a> Finder<'a> {
    /// A finder over these objects and answers.
    pub(crate) fn new(
        index: &'a Index,
        memo: &'a mut Memo,
        config: &'a ControllerConfig,
        examined: usize,
    ) -> Self {
        let (names_namespaces, searches, unreached) = (false, Cell::new(0), BTreeMap::new());
        Self { index, memo, config, examined, names_namespaces, searches, unreached }
    }

    /// The finder for a reader of every namespace.
    pub(crate) fn naming_namespaces(self) -> Self {
        Self { names_namespaces: true, ..self }
    }

    /// True if another namespace may be proposed, for which all of them are searched.
    pub(super) fn may_search_namespaces(&self) -> bool {
        self.names_namespaces && self.may_search()
    }

    /// True if something may be proposed, for which objects are searched. Each search takes time in their
    /// number, so that there are few.
    pub(super) fn may_search(&self) -> bool {
        let before = self.searches.get();
        self.searches.set(before.saturating_add(1));
        before < MAX_SEARCHES
    }

    /// Findings about an object of the index. None for an object that breaks a rule, because more
    /// would be wrong than can be said.
    pub(crate) fn of(&mut self, object: &Object) -> Vec<Finding> {
        let Body::Valid(resource) = &object.body else { return Vec::new() };
        let key = &object.meta.key;
        let mut findings = self.conditions(key);
        if let Resource::Server(server) = resource {
            findings.extend(self.large_ports(key));
            let lacking = self.server(key, server);
            findings.extend(lacking.or_else(|| self.grants_nobody(key, server)));
        }
        findings.extend(self.never_reached(object));
        findings.extend(self.described_never_reached(object));
        findings.extend(self.shadowed_rules(object));
        findings.extend(self.not_served(object));
        findings.extend(self.clients(object));
        findings.extend(self.foreign_identities(key, resource));
        findings.extend(self.wide_grants(object));
        findings
    }

    /// The objects without one of them.
    pub(super) fn without(&self, object: &ObjectKey) -> Index {
        let mut without = self.index.clone();
        let changes = vec![Change::Delete(object.clone())];
        without.apply(&Batch { changes, ..Batch::default() });
        without
    }

    /// The answer to a query.
    pub(super) fn query<Q: Query>(&mut self, query: &Q) -> Q::Output {
        self.memo.query(query, self.index, self.config).0
    }
}

/// The most searches for what was meant.
const MAX_SEARCHES: usize = 128;

/// A finding about a field of an object.
pub(super) fn finding(
    object: &ObjectKey,
    kind: FindingKind,
    field: &str,
    message: String,
) -> Finding {
    Finding { object: object.clone(), kind, field: field.to_owned(), message, other: None }
}
