//! The regular expressions of each namespace, and the objects for which it has no room.
//!
//! An object has a bound of its own, and everybody may write many objects. So those of a namespace have one
//! together, which the oldest objects have first. An object beyond it counts as invalid: it grants nothing, and
//! what it may match is denied, without its expressions.

use crate::contributions::{beginning, expressions_of};
use policy_core::{HeaderMatch, PathPattern, QueryMatch, RequestMatch, ValueMatch};
use policy_crds::resource::{
    GroupClaims, GroupEntry, GroupRoute, GroupRouteClaims, HttpRouteGroup, RouteClaims,
};
use policy_crds::{Body, Claims, FieldError, Invalid, Object, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most bytes that the expressions of the objects of a namespace take when compiled: as many as those of
/// two full Servers (docs/watch-api.md, *Bounds*).
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The place of an object among those of its namespace: by age, those without a time last, then by name.
type Age = (bool, Option<i64>, ObjectKey);

/// An object with expressions.
#[derive(Clone, Debug)]
struct Expressive {
    object: Arc<Object>,
    bytes: usize,
}

/// The objects with expressions of a namespace.
#[derive(Clone, Debug, Default)]
struct Budget {
    by_age: BTreeMap<Age, Expressive>,
    /// The bytes of all of them.
    sum: usize,
    ages: BTreeMap<ObjectKey, Age>,
    refused: BTreeSet<ObjectKey>,
}

/// The objects with expressions, by namespace. A copy shares the namespaces that do not change.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpressionBudgets(BTreeMap<Arc<str>, Arc<Budget>>);

impl ExpressionBudgets {
    /// True if an object with expressions has this name.
    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.0.get(&key.namespace).is_some_and(|budget| budget.ages.contains_key(key))
    }

    /// True if an object of this name counts as invalid, because its namespace has no room for it.
    pub(super) fn refuses(&self, key: &ObjectKey) -> bool {
        self.0.get(&key.namespace).is_some_and(|budget| budget.refused.contains(key))
    }

    /// Takes the place of an object of this name; `None`: it is gone, or has no expressions. Returns what counts
    /// from now on in place of each object whose state differs.
    pub(super) fn set(
        &mut self,
        key: &ObjectKey,
        object: Option<(&Arc<Object>, usize)>,
    ) -> Vec<Arc<Object>> {
        let budget = Arc::make_mut(self.0.entry(key.namespace.clone()).or_default());
        if let Some(age) = budget.ages.remove(key) {
            let before = budget.by_age.remove(&age);
            budget.sum = budget.sum.saturating_sub(before.map_or(0, |before| before.bytes));
        }
        if let Some((object, bytes)) = object {
            let created = object.meta.created;
            let age = (created.is_none(), created, key.clone());
            budget.ages.insert(key.clone(), age.clone());
            budget.sum = budget.sum.saturating_add(bytes);
            budget.by_age.insert(age, Expressive { object: object.clone(), bytes });
        }
        let changed = budget.judge(key);
        if budget.by_age.is_empty() {
            self.0.remove(&key.namespace);
        }
        changed
    }
}

impl Budget {
    /// Decides for which objects there is room, after an event of this one.
    fn judge(&mut self, of: &ObjectKey) -> Vec<Arc<Object>> {
        if self.sum <= MAX_BYTES && self.refused.is_empty() {
            let own = self.ages.get(of).and_then(|age| self.by_age.get(age));
            return own.map(|own| own.object.clone()).into_iter().collect();
        }
        let before = std::mem::take(&mut self.refused);
        let (mut sum, mut changed) = (0_usize, Vec::new());
        for ((.., key), Expressive { object, bytes }) in &self.by_age {
            let with = sum.saturating_add(*bytes);
            let fits = with <= MAX_BYTES;
            if fits {
                sum = with;
            } else {
                self.refused.insert(key.clone());
            }
            if key == of || before.contains(key) == fits {
                changed.push(if fits { object.clone() } else { Arc::new(refused(object, *bytes)) });
            }
        }
        changed
    }
}

/// The bytes that the expressions of an object take when compiled.
pub(super) fn bytes_of(object: &Object) -> usize {
    let sum = |bytes: usize, more: usize| bytes.saturating_add(more);
    match &object.body {
        Body::Valid(Resource::Route(route)) => route.matches().map(expressions_of).fold(0, sum),
        Body::Valid(Resource::HttpRouteGroup(group)) => of_group(group, &[]),
        Body::Valid(Resource::SmiRouteGroup(group)) => {
            let requests = group.matches.iter().flat_map(|own| &own.requests);
            requests.map(|wanted| expressions_of(wanted)).fold(0, sum)
        }
        // What can be read of an invalid one denies, with its expressions.
        Body::Invalid(Invalid { claims: Claims::Route(own), .. }) => {
            own.matches.iter().chain(&own.unreadable).map(expressions_of).fold(0, sum)
        }
        Body::Invalid(Invalid { claims: Claims::HttpRouteGroup(own), .. }) => {
            of_group(&own.group, &own.unreadable)
        }
        Body::Valid(_) | Body::Invalid(_) => 0,
    }
}

/// The bytes of the expressions of a group, and of its elements that cannot be read.
fn of_group(group: &HttpRouteGroup, unreadable: &[GroupRouteClaims]) -> usize {
    let routes = group.routes.iter().filter_map(|entry| match entry {
        GroupEntry::Route(route) => Some((&route.headers, &route.query)),
        GroupEntry::Include(_) => None,
    });
    let unreadable = unreadable.iter().map(|one| (&one.headers, &one.query));
    let all = routes.chain(unreadable).chain([(&group.headers, &group.query)]);
    let wanted = |(headers, query): (&Vec<HeaderMatch>, &Vec<QueryMatch>)| {
        let path = PathPattern::prefix("/");
        expressions_of(&RequestMatch::new(path, None, headers.clone(), query.clone()))
    };
    all.map(wanted).fold(0, usize::saturating_add)
}

/// The object that counts in place of one for which its namespace has no room.
fn refused(object: &Object, bytes: usize) -> Object {
    let (mut errors, mut claims) = match &object.body {
        Body::Valid(resource) => (Vec::new(), object.meta.key.kind.spec().claims(Some(resource))),
        Body::Invalid(Invalid { errors, claims }) => (errors.clone(), claims.clone()),
    };
    let namespace = &object.meta.key.namespace;
    let message = format!(
        "its regular expressions take {bytes} bytes when compiled, and those of older objects of namespace \
         `{namespace}` leave no room for them: at most {MAX_BYTES} are allowed in a namespace"
    );
    errors.push(FieldError { field: "spec".to_owned(), message });
    if let Claims::Route(own) = &mut claims {
        **own = without_expressions(RouteClaims::clone(own));
    }
    if let Claims::HttpRouteGroup(own) = &mut claims {
        **own = group_without_expressions(GroupClaims::clone(own));
    }
    Object { meta: object.meta.clone(), body: Body::Invalid(Invalid { errors, claims }) }
}

/// The claims of a route without expressions: what one may have matched is denied before other routes.
fn without_expressions(claims: RouteClaims) -> RouteClaims {
    let has_one = |wanted: &RequestMatch| expressions_of(wanted) > 0;
    let (with, matches): (Vec<_>, Vec<_>) = claims.matches.into_iter().partition(has_one);
    let unreadable = claims.unreadable.into_iter().chain(with);
    let mut plain: Vec<RequestMatch> = unreadable.map(|wanted| wider(&wanted)).collect();
    plain.dedup();
    RouteClaims { matches, unreadable: plain, ..claims }
}

/// A match of more requests, without expressions.
fn wider(wanted: &RequestMatch) -> RequestMatch {
    let (path, method, headers, query) = wanted.parts();
    let path = match path {
        PathPattern::Regex(pattern) => PathPattern::prefix(&beginning(pattern.source())),
        PathPattern::Segments { .. } => path.clone(),
    };
    RequestMatch::new(path, method.cloned(), exact_headers(headers), exact_query(query))
}

fn exact_headers(headers: &[HeaderMatch]) -> Vec<HeaderMatch> {
    let exact = |one: &&HeaderMatch| matches!(one.value, ValueMatch::Exact(_));
    headers.iter().filter(exact).cloned().collect()
}

fn exact_query(query: &[QueryMatch]) -> Vec<QueryMatch> {
    let exact = |one: &&QueryMatch| matches!(one.value, ValueMatch::Exact(_));
    query.iter().filter(exact).cloned().collect()
}

/// The claims of a group without expressions.
fn group_without_expressions(claims: GroupClaims) -> GroupClaims {
    let GroupClaims { group, unreadable, narrower } = claims;
    let mut wider: Vec<GroupRouteClaims> = Vec::new();
    let mut routes = Vec::new();
    for entry in group.routes {
        if let GroupEntry::Route(route) = &entry
            && !is_plain(&route.headers, &route.query)
        {
            let GroupRoute { path, methods, headers, query, labels: _ } = route.clone();
            wider.push(GroupRouteClaims { path: Some(path), methods, headers, query });
        } else {
            routes.push(entry);
        }
    }
    let narrower = narrower || !is_plain(&group.headers, &group.query);
    let (headers, query) = (exact_headers(&group.headers), exact_query(&group.query));
    let unreadable = unreadable.into_iter().chain(wider).map(|one| GroupRouteClaims {
        headers: exact_headers(&one.headers),
        query: exact_query(&one.query),
        ..one
    });
    let unreadable = unreadable.collect();
    GroupClaims {
        group: HttpRouteGroup { routes, headers, query, delegated_from: group.delegated_from },
        unreadable,
        narrower,
    }
}

fn is_plain(headers: &[HeaderMatch], query: &[QueryMatch]) -> bool {
    exact_headers(headers).len() == headers.len() && exact_query(query).len() == query.len()
}
