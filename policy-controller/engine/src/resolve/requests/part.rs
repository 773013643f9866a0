//! The routes of a group or service, made of its content and of what the groups around it add.

use crate::query::requests::{DescribedPart, DescribedRoute, DescribedRoutes, Surroundings};
use http::Method;
use policy_core::{HeaderMatch, QueryMatch, RequestMatch};
use policy_crds::resource::{
    GroupEntry, GroupRoute, GroupRouteClaims, GrpcService, GrpcServiceMethod, HttpRouteGroup,
    included,
};
use policy_crds::{Body, Claims, Invalid, Object, ObjectKey, Resource};

/// The most header predicates of a route, and the most of its query parameters, those of the groups
/// around it among them.
pub(super) const MAX_PREDICATES: usize = 16;

/// A group as far as it can be read.
#[derive(Clone, Copy)]
pub(super) struct ReadGroup<'a> {
    pub(super) group: &'a HttpRouteGroup,
    /// The conditions of routes that cannot be read whole.
    pub(super) unreadable: &'a [GroupRouteClaims],
    /// True if its routes may have more predicates than can be read.
    pub(super) narrower: bool,
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

impl DescribedRoutes {
    /// The routes, in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = DescribedRoute> {
        self.parts.iter().flat_map(DescribedPart::routes)
    }
}

impl DescribedPart {
    fn routes(&self) -> Vec<DescribedRoute> {
        let key = &self.object.meta.key;
        match (ReadGroup::of(&self.object.body), service_of(&self.object)) {
            (Some(read), _) => of_group(key, read.group, &self.around, self.entries),
            (None, Some(service)) => of_service(key, service),
            (None, None) => Vec::new(),
        }
    }
}

/// The service of an object, as far as it can be read.
pub(super) fn service_of(object: &Object) -> Option<&GrpcService> {
    match &object.body {
        Body::Valid(Resource::GrpcService(service)) => Some(service),
        Body::Invalid(Invalid { claims: Claims::GrpcService(claims), .. }) => {
            claims.service.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The routes that a valid group or service describes itself.
pub(crate) fn own_routes(object: &Object) -> Vec<DescribedRoute> {
    let key = &object.meta.key;
    match &object.body {
        Body::Valid(Resource::HttpRouteGroup(group)) => {
            let around = Surroundings::default().within(ReadGroup::whole(group));
            of_group(key, group, &around, group.routes.len())
        }
        Body::Valid(Resource::GrpcService(service)) => of_service(key, service),
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

fn of_group(
    key: &ObjectKey,
    group: &HttpRouteGroup,
    around: &Surroundings,
    entries: usize,
) -> Vec<DescribedRoute> {
    let all = group.routes.iter().enumerate().take(entries);
    let routes = all.filter_map(|(place, entry)| match entry {
        GroupEntry::Route(route) => Some((place, route)),
        GroupEntry::Include(_) => None,
    });
    let each = |(place, route): (usize, &GroupRoute)| {
        let each = each_method(route, around).map(|(one, matches)| {
            let GroupRoute { path, methods, headers, query, labels } = one;
            let (holder, method) = (key.clone(), methods.into_iter().next());
            DescribedRoute { holder, place, path, method, headers, query, labels, matches }
        });
        each.collect::<Vec<_>>()
    };
    routes.flat_map(each).collect()
}

/// A route for each of its methods, with all that the groups around it add; and its matches.
pub(super) fn each_method(
    route: &GroupRoute,
    around: &Surroundings,
) -> impl Iterator<Item = (GroupRoute, Vec<RequestMatch>)> {
    route.each_method().map(|method| {
        let one = GroupRoute {
            path: route.path.clone(),
            methods: method.into_iter().cloned().collect(),
            headers: bounded(&route.headers, &around.headers),
            query: bounded(&route.query, &around.query),
            labels: included(&route.labels, &around.labels),
        };
        let matches = one.matches(&[], &[]);
        (one, matches)
    })
}

fn of_service(key: &ObjectKey, service: &GrpcService) -> Vec<DescribedRoute> {
    let own = service.methods.iter().map(Some);
    let whole = service.methods.is_empty().then_some(None);
    let route =
        |(place, (method, request)): (usize, (Option<&GrpcServiceMethod>, RequestMatch))| {
            DescribedRoute {
                holder: key.clone(),
                place,
                path: service.path_of(method),
                method: Some(Method::POST),
                headers: Vec::new(),
                query: Vec::new(),
                labels: method.map(|method| method.labels.clone()).unwrap_or_default(),
                matches: vec![request],
            }
        };
    own.chain(whole).zip(service.matches()).enumerate().map(route).collect()
}

impl Surroundings {
    /// The same with the predicates of a group.
    pub(super) fn within(&self, own: ReadGroup<'_>) -> Self {
        Self {
            headers: distinct(&self.headers, &own.group.headers),
            query: distinct(&self.query, &own.group.query),
            labels: self.labels.clone(),
            narrower: self.narrower || own.narrower,
        }
    }

    /// True if a route would have more predicates than it may.
    pub(super) fn exceeds(&self, headers: &[HeaderMatch], query: &[QueryMatch]) -> bool {
        exceeds(headers, &self.headers) || exceeds(query, &self.query)
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
pub(super) fn bounded<T: Clone + PartialEq>(own: &[T], outer: &[T]) -> Vec<T> {
    let mut all = distinct(own, outer);
    all.truncate(MAX_PREDICATES);
    all
}
