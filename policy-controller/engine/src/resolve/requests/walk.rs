//! The walk through a group and those that it includes.
//!
//! The routes of a group come before those that it includes, and those that the groups of its namespace
//! describe before all others: where the walk has to stop, nobody loses routes by what others write.

use crate::incremental::Context;
use crate::query::condition::Reason;
use crate::query::requests::{DescribedRoute, DescribedRoutes, IncludeFault};
use crate::resolve::grant::reason;
use crate::resolve::reference::{follow, is_permitted, was_permitted};
use policy_core::{HeaderMatch, QueryMatch};
use policy_crds::resource::{
    GroupEntry, GroupInclude, GroupRoute, GroupRouteClaims, HttpRouteGroup, RouteLabels, included,
};
use policy_crds::{Body, Claims, Field, Invalid, ObjectKey, Resource};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// The longest chain of groups, the outermost among them.
const MAX_DEPTH: usize = 16;

/// The most routes of a group as they are written, those of included groups among them; and the most
/// includes that are followed for it. One group has fewer routes of its own.
const MAX_ROUTES: usize = 1024;

/// The most header predicates of a route, and the most of its query parameters, those of the groups
/// around it among them.
const MAX_PREDICATES: usize = 16;

/// A group as far as it can be read.
#[derive(Clone, Copy)]
pub(super) struct ReadGroup<'a> {
    group: &'a HttpRouteGroup,
    /// The conditions of routes that cannot be read whole.
    unreadable: &'a [GroupRouteClaims],
    /// True if its routes may have more predicates than can be read.
    narrower: bool,
}

impl<'a> ReadGroup<'a> {
    /// The group of an object, valid or not; `None` if it is of another kind.
    pub(super) fn of(body: &'a Body) -> Option<Self> {
        match body {
            Body::Valid(Resource::HttpRouteGroup(group)) => Some(Self::whole(group)),
            Body::Invalid(Invalid { claims: Claims::HttpRouteGroup(claims), .. }) => Some(Self {
                group: &claims.group,
                unreadable: &claims.unreadable,
                narrower: claims.narrower,
            }),
            Body::Valid(_) | Body::Invalid(_) => None,
        }
    }

    /// A valid group.
    pub(super) fn whole(group: &'a HttpRouteGroup) -> Self {
        Self { group, unreadable: &[], narrower: false }
    }
}

/// True if a group or service that cannot be followed denies what can be read of it: it is invalid, or the
/// ReferenceGrant that permitted it is.
pub(super) fn denies_through(cx: &mut Context<'_>, from: &ObjectKey, to: &ObjectKey) -> bool {
    is_permitted(cx, from, Field::Include, to) || was_permitted(cx, from, Field::Include, to)
}

/// A walk. Each inclusion is walked, because labels and predicates may differ from one to the next.
pub(super) struct Walk<'a> {
    /// True if the routes themselves are asked for, not their number alone.
    keeps: bool,
    /// The includes of groups of the first one's namespace, which no other namespace had a part in.
    near: VecDeque<Waiting<'a>>,
    /// All others.
    far: VecDeque<Waiting<'a>>,
    /// Number of routes as they are written.
    written: usize,
    /// Number of includes.
    includes: usize,
    /// True if there is more than is looked at.
    is_cut: bool,
    /// Number of routes, each method counted.
    pub(super) count: usize,
    /// The faults, and if they are asked for, the routes.
    pub(super) found: DescribedRoutes,
}

/// An include that is not followed yet.
struct Waiting<'a> {
    /// The groups from the first one to the one that includes: a group may be included twice, but not by
    /// itself.
    chain: Rc<[ObjectKey]>,
    include: &'a GroupInclude,
    outer: Rc<Inherited>,
}

/// All that a route gets from the groups around it.
#[derive(Clone, Default)]
struct Inherited {
    headers: Vec<HeaderMatch>,
    query: Vec<QueryMatch>,
    labels: RouteLabels,
    /// True if some of the predicates cannot be read.
    narrower: bool,
}

impl Inherited {
    /// The same with the predicates of a group.
    fn within(&self, own: ReadGroup<'_>) -> Self {
        Self {
            headers: distinct(&self.headers, &own.group.headers),
            query: distinct(&self.query, &own.group.query),
            labels: self.labels.clone(),
            narrower: self.narrower || own.narrower,
        }
    }
}

/// The elements of both lists, each once, up to one more than a route may have.
fn distinct<T: Clone + PartialEq>(one: &[T], other: &[T]) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for item in one.iter().chain(other) {
        if all.len() > MAX_PREDICATES {
            break;
        }
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}

fn exceeds<T: Clone + PartialEq>(own: &[T], outer: &[T]) -> bool {
    own.len().saturating_add(outer.len()) > MAX_PREDICATES
        && distinct(own, outer).len() > MAX_PREDICATES
}

/// The first ones of both lists, as many as a route may have: fewer predicates match more requests, and
/// a route without all of its own denies.
fn bounded<T: Clone + PartialEq>(own: &[T], outer: &[T]) -> Vec<T> {
    let mut all = distinct(own, outer);
    all.truncate(MAX_PREDICATES);
    all
}

impl<'a> Walk<'a> {
    /// Walks through a group. The routes are kept if `keeps`.
    pub(super) fn through(
        cx: &mut Context<'a>,
        key: &ObjectKey,
        group: ReadGroup<'a>,
        keeps: bool,
    ) -> Self {
        let mut walk = Self::own(key, group, keeps);
        while !walk.is_cut
            && let Some(next) = walk.near.pop_front().or_else(|| walk.far.pop_front())
        {
            walk.include(cx, &next);
        }
        walk
    }

    /// Looks at the group's own routes alone.
    pub(super) fn own(key: &ObjectKey, group: ReadGroup<'a>, keeps: bool) -> Self {
        let mut walk = Self {
            keeps,
            near: VecDeque::new(),
            far: VecDeque::new(),
            written: 0,
            includes: 0,
            is_cut: false,
            count: 0,
            found: DescribedRoutes::default(),
        };
        walk.group([key.clone()].into(), group, &Inherited::default());
        walk
    }

    /// Adds the routes of the last group of a chain, and lets its includes wait.
    fn group(&mut self, chain: Rc<[ObjectKey]>, read: ReadGroup<'a>, outer: &Inherited) {
        let own = Rc::new(outer.within(read));
        let group = read.group;
        for conditions in read.unreadable.iter().filter(|_| self.keeps) {
            let GroupRouteClaims { path, methods, headers, query } = conditions.clone();
            let headers = bounded(&headers, &own.headers);
            let query = bounded(&query, &own.query);
            let all = GroupRouteClaims { path, methods, headers, query };
            self.found.unreadable.extend(all.matches());
        }
        for (place, entry) in group.routes.iter().enumerate() {
            if let GroupEntry::Route(route) = entry {
                self.route(&chain, place, route, &own);
            }
        }
        for entry in &group.routes {
            let GroupEntry::Include(include) = entry else { continue };
            self.includes = self.includes.saturating_add(1);
            if self.includes > MAX_ROUTES {
                return self.too_large();
            }
            let first = chain.first().map(|first| &first.namespace);
            let is_near = outsider(&chain).is_none() && first == Some(&include.group.namespace);
            let waiting = Waiting { chain: chain.clone(), include, outer: own.clone() };
            if is_near { &mut self.near } else { &mut self.far }.push_back(waiting);
        }
    }

    fn route(&mut self, chain: &[ObjectKey], place: usize, route: &GroupRoute, outer: &Inherited) {
        self.written = self.written.saturating_add(1);
        if self.written > MAX_ROUTES {
            return self.too_large();
        }
        if exceeds(&route.headers, &outer.headers) || exceeds(&route.query, &outer.query) {
            self.too_narrow(chain);
        }
        self.count = self.count.saturating_add(route.each_method().count());
        let Some(holder) = chain.last().filter(|_| self.keeps) else { return };
        for method in route.each_method() {
            let one = GroupRoute {
                path: route.path.clone(),
                methods: method.into_iter().cloned().collect(),
                headers: bounded(&route.headers, &outer.headers),
                query: bounded(&route.query, &outer.query),
                labels: included(&route.labels, &outer.labels),
            };
            let matches = one.matches(&[], &[]);
            if outer.narrower {
                self.found.unreadable.extend(matches);
                continue;
            }
            let GroupRoute { path, methods: _, headers, query, labels } = one;
            let (holder, method) = (holder.clone(), method.cloned());
            let found =
                DescribedRoute { holder, place, path, method, headers, query, labels, matches };
            self.found.routes.push(Arc::new(found));
        }
    }

    fn include(&mut self, cx: &mut Context<'a>, waiting: &Waiting<'a>) {
        let Waiting { chain, include, outer } = waiting;
        let (to, Some(from)) = (&include.group, chain.last()) else { return };
        if chain.contains(to) {
            return self.fault(chain, Reason::Cycle, format!("{to} leads back to itself"));
        }
        if chain.len() >= MAX_DEPTH {
            let message = format!("{to} is included by a chain of more than {MAX_DEPTH} groups");
            return self.fault(chain, Reason::TooDeep, message);
        }
        let object = match follow(cx, from, Field::Include, to) {
            Ok(followed) => followed.object,
            Err(error) => {
                self.fault(chain, reason(error), format!("{to} {}", error.as_str()));
                // The routes are asked for, and what it describes denies.
                if !self.keeps || !denies_through(cx, from, to) {
                    return;
                }
                let Some(object) = cx.object(to) else { return };
                object
            }
        };
        let Some(group) = ReadGroup::of(&object.body) else { return };
        // The outermost includer has the last word.
        let labels = included(&include.labels, &outer.labels);
        let chain = chain.iter().cloned().chain([to.clone()]).collect();
        self.group(chain, group, &Inherited { labels, ..Inherited::clone(outer) });
    }

    fn too_large(&mut self) {
        self.is_cut = true;
        let message = format!("describes more than {MAX_ROUTES} routes, included ones among them");
        let fault = IncludeFault { reason: Reason::TooLarge, message: message.into() };
        self.found.fault(fault);
    }

    /// Adds the fault of a route of the last group of a chain. A group of another namespace may be whole
    /// without those around it, so that it is named with the fault.
    fn too_narrow(&mut self, chain: &[ObjectKey]) {
        let Some(named) = outsider(chain).or(chain.last()) else { return };
        let message = format!(
            "a route of {named} has more than {MAX_PREDICATES} predicates on headers or on query \
             parameters, those of the groups around it among them"
        );
        self.found.fault(IncludeFault { reason: Reason::TooLarge, message: message.into() });
    }

    /// Adds a fault of an include in the last group of a chain, which is named unless the walk began
    /// there. Of what other namespaces include, nothing is said but the group that leads there: its own
    /// conditions tell those who may know.
    fn fault(&mut self, chain: &[ObjectKey], reason: Reason, message: String) {
        let message = match (outsider(chain), chain) {
            (Some(outsider), _) => format!("{outsider} is broken: its conditions say why"),
            (None, [_, .., from]) => format!("{from}: {message}"),
            (None, _) => message,
        };
        self.found.fault(IncludeFault { reason, message: message.into() });
    }
}

/// The first group of a chain that is not of the namespace in which the chain begins.
fn outsider(chain: &[ObjectKey]) -> Option<&ObjectKey> {
    let first = chain.first()?;
    chain.iter().find(|group| group.namespace != first.namespace)
}
