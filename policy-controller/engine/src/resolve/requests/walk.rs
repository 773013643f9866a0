//! The walk through a group and those that it includes.
//!
//! The routes of a group come before those that it includes, and those that the groups of its namespace
//! describe before all others: where the walk has to stop, nobody loses routes by what others write.

use super::part::{MAX_PREDICATES, ReadGroup, bounded, each_method};
use crate::incremental::Context;
use crate::query::condition::Reason;
use crate::query::requests::{DescribedPart, DescribedRoutes, IncludeFault, Surroundings};
use crate::resolve::grant::reason;
use crate::resolve::reference::{follow, is_permitted, was_permitted};
use policy_core::RequestMatch;
use policy_crds::resource::{GroupEntry, GroupInclude, GroupRoute, GroupRouteClaims, included};
use policy_crds::{Field, Object, ObjectKey};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// The longest chain of groups, the outermost among them.
const MAX_DEPTH: usize = 16;

/// The most routes of a group as they are written, those of included groups among them; and the most
/// includes that are followed for it. One group has fewer routes of its own.
const MAX_ROUTES: usize = 1024;

/// About as many bytes as a predicate of a match takes.
const PREDICATE_BYTES: usize = 96;

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
    /// The conditions of what cannot be read whole, each once: a group may be included many times.
    unreadable: HashSet<RequestMatch>,
}

/// An include that is not followed yet.
struct Waiting<'a> {
    /// The groups from the first one to the one that includes: a group may be included twice, but not by
    /// itself.
    chain: Rc<[ObjectKey]>,
    include: &'a GroupInclude,
    outer: Arc<Surroundings>,
}

impl<'a> Walk<'a> {
    /// Walks through a group. The routes are kept if `keeps`.
    pub(super) fn through(
        cx: &mut Context<'a>,
        object: &'a Arc<Object>,
        group: ReadGroup<'a>,
        keeps: bool,
    ) -> Self {
        let mut walk = Self {
            keeps,
            near: VecDeque::new(),
            far: VecDeque::new(),
            written: 0,
            includes: 0,
            is_cut: false,
            count: 0,
            found: DescribedRoutes::default(),
            unreadable: HashSet::new(),
        };
        let chain = [object.meta.key.clone()].into();
        walk.group(chain, (object, group), &Surroundings::default());
        while !walk.is_cut
            && let Some(next) = walk.near.pop_front().or_else(|| walk.far.pop_front())
        {
            walk.include(cx, &next);
        }
        walk
    }

    /// Adds the routes of the last group of a chain, and lets its includes wait.
    fn group(
        &mut self,
        chain: Rc<[ObjectKey]>,
        (object, read): (&Arc<Object>, ReadGroup<'a>),
        outer: &Surroundings,
    ) {
        let own = Arc::new(outer.within(read));
        let group = read.group;
        let keeps = self.keeps;
        for conditions in read.unreadable.iter().filter(|_| keeps) {
            let GroupRouteClaims { path, methods, headers, query } = conditions.clone();
            let headers = bounded(&headers, &own.headers);
            let query = bounded(&query, &own.query);
            let all = GroupRouteClaims { path, methods, headers, query };
            self.unreadable(all.matches());
        }
        let mut entries = 0_usize;
        for entry in &group.routes {
            if let GroupEntry::Route(route) = entry {
                self.route(&chain, route, &own);
            }
            if self.is_cut {
                break;
            }
            entries = entries.saturating_add(1);
        }
        if self.keeps && !own.narrower {
            let (object, around) = (object.clone(), own.clone());
            self.found.parts.push(DescribedPart { object, around, entries });
        }
        if self.is_cut {
            return;
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

    /// Counts a route of the last group of a chain.
    fn route(&mut self, chain: &[ObjectKey], route: &GroupRoute, around: &Surroundings) {
        self.written = self.written.saturating_add(1);
        if self.written > MAX_ROUTES {
            return self.too_large();
        }
        if around.exceeds(&route.headers, &route.query) {
            self.too_narrow(chain);
        }
        let methods = route.each_method().count();
        self.count = self.count.saturating_add(methods);
        if !self.keeps {
            return;
        }
        if around.narrower {
            let all: Vec<_> = each_method(route, around).flat_map(|(_, matches)| matches).collect();
            return self.unreadable(all);
        }
        let matches = route.path.patterns().len().saturating_mul(methods);
        self.found.matches = self.found.matches.saturating_add(matches);
        let predicates = [route.headers.len(), around.headers.len(), route.query.len()];
        let predicates =
            predicates.iter().fold(around.query.len(), |sum, n| sum.saturating_add(*n));
        let texts =
            predicates.saturating_mul(PREDICATE_BYTES).saturating_add(route.path.as_str().len());
        self.found.texts = self.found.texts.saturating_add(matches.saturating_mul(texts));
    }

    fn unreadable(&mut self, matches: Vec<RequestMatch>) {
        for one in matches {
            if self.unreadable.insert(one.clone()) {
                self.found.unreadable.push(one);
            }
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
        self.group(chain, (object, group), &Surroundings { labels, ..Surroundings::clone(outer) });
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
