//! Requests that many policies name: the routes that groups and services describe, and the routes of a
//! Server that bindings make of them.

use super::condition::Reason;
use super::grant::CreationOrder;
use http::Method;
use policy_core::{HeaderMatch, HostPattern, QueryMatch, RequestMatch, Route};
use policy_crds::resource::{GroupPath, Inexpressible, RouteLabels, SelectableRoute};
use policy_crds::{Object, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The routes that an HttpRouteGroup or a GrpcService describes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DescribedRoutesOf(pub(crate) ObjectKey);

/// The number of routes of an HttpRouteGroup and what is wrong with it, without the routes: most groups
/// are asked for no more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupSummaryOf(pub(crate) ObjectKey);

/// See [`GroupSummaryOf`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupSummary {
    /// The number of routes, each method counted, included ones among them.
    pub(crate) count: usize,
    /// The references that could not be followed.
    pub(crate) faults: Vec<IncludeFault>,
}

/// The routes of the groups or services that a binding names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BindingRoutesOf(pub(crate) ObjectKey);

/// See [`DescribedRoutesOf`] and [`BindingRoutesOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DescribedRoutes {
    /// The routes that could be found, in order, by the groups or services that have them.
    pub(crate) parts: Vec<DescribedPart>,
    /// The number of matches of all of them.
    pub(crate) matches: usize,
    /// About as many bytes as the paths and predicates of these matches take.
    pub(crate) texts: usize,
    /// The references that could not be followed. If there is one, nothing is granted on any of the
    /// routes.
    pub(crate) faults: Vec<IncludeFault>,
    /// The conditions that could be read of routes that cannot be read whole. They deny before every
    /// other route.
    pub(crate) unreadable: Vec<RequestMatch>,
}

/// The routes of one group or service, with what the groups around it add. They are made where they are looked
/// at: a group of a few lines may include a thousand routes, and each of many bindings names it.
#[derive(Clone, Debug)]
pub(crate) struct DescribedPart {
    /// The group or service.
    pub(crate) object: Arc<Object>,
    /// All that its routes have besides their own.
    pub(crate) around: Arc<Surroundings>,
    /// The number of its entries that count, from the first.
    pub(crate) entries: usize,
}

impl PartialEq for DescribedPart {
    /// Whatever else an object says, routes are made of its name and its content.
    fn eq(&self, other: &Self) -> bool {
        let of = |part: &Self| (part.entries, part.object.meta.key.clone());
        of(self) == of(other)
            && self.around == other.around
            && (Arc::ptr_eq(&self.object, &other.object) || self.object.body == other.object.body)
    }
}

/// All that a route gets from its group and from the groups around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Surroundings {
    /// Header predicates, each once.
    pub(crate) headers: Vec<HeaderMatch>,
    /// Query parameter predicates, each once.
    pub(crate) query: Vec<QueryMatch>,
    /// Labels, which win over those of the route.
    pub(crate) labels: RouteLabels,
    /// True if some of the predicates cannot be read.
    pub(crate) narrower: bool,
}

/// A route of one method, or of any, with all that its includers add.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DescribedRoute {
    /// The group or service that it is written in.
    pub(crate) holder: ObjectKey,
    /// Its place there.
    pub(crate) place: usize,
    /// Its path.
    pub(crate) path: GroupPath,
    /// Its method; absent: any.
    pub(crate) method: Option<Method>,
    /// Header predicates, each once.
    pub(crate) headers: Vec<HeaderMatch>,
    /// Query parameter predicates, each once.
    pub(crate) query: Vec<QueryMatch>,
    /// The labels that authors wrote.
    pub(crate) labels: RouteLabels,
    /// The requests that it matches.
    pub(crate) matches: Vec<RequestMatch>,
}

impl DescribedRoute {
    /// The route as selectors see it.
    pub(crate) fn selectable(&self) -> SelectableRoute<'_> {
        SelectableRoute { path: &self.path, method: self.method.as_ref(), labels: &self.labels }
    }
}

/// An error of a reference to a group or a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncludeFault {
    /// For programs.
    pub(crate) reason: Reason,
    /// For people.
    pub(crate) message: Arc<str>,
}

/// The routes that bindings give a Server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BoundRoutesOf(pub(crate) ObjectKey);

/// See [`BoundRoutesOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BoundRoutes {
    /// True if a binding counts for the Server, in effect or not.
    pub(crate) bound: bool,
    /// True if one of them is in effect, if only for hosts that others hold.
    pub(crate) accepted: bool,
    /// The routes, each with the place of its oldest binding.
    pub(crate) routes: Vec<(CreationOrder, Arc<Route>)>,
    /// Hosts of bindings that others hold, and of which no tree of the Server decides.
    pub(crate) lost: BTreeSet<HostPattern>,
    /// The routes of what cannot be read, which deny before all others.
    pub(crate) first: Vec<Arc<Route>>,
}

/// The bindings of a namespace that may name any of its Servers, because their target cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UnreadBindingsIn(pub(crate) Arc<str>);

/// The bindings of a Server that would bring it too many matches, each with the number of matches for
/// which there is room nonetheless.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OversizedBindingsOf(pub(crate) ObjectKey);

/// See [`OversizedBindingsOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OversizedBindings {
    /// The room of each.
    pub(crate) rooms: BTreeMap<ObjectKey, usize>,
    /// About as many bytes as the routes take for which there is room.
    pub(crate) bytes: usize,
}

/// The Servers of a namespace for whose routes of bindings it has no room: the oldest have it first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServersWithoutRoom(pub(crate) Arc<str>);

/// The routes that a class selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassSelectionOf(pub(crate) ObjectKey);

/// See [`ClassSelectionOf`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClassSelection {
    /// The Servers that have routes of it.
    pub(crate) servers: BTreeSet<ObjectKey>,
    /// The first route that is not selected because a condition on it cannot be evaluated.
    pub(crate) inexpressible: Option<(Arc<str>, Inexpressible)>,
}
