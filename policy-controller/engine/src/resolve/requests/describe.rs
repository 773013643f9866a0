//! The routes that a group describes, with those of the groups that it includes, and those of a service.

use crate::incremental::{Context, query};
use crate::query::condition::Reason;
use crate::query::requests::{
    BindingRoutesOf, DescribedRoute, DescribedRoutes, DescribedRoutesOf, IncludeFault,
};
use crate::resolve::grant::reason;
use crate::resolve::reference::follow;
use http::Method;
use policy_core::{HeaderMatch, QueryMatch, RequestMatch};
use policy_crds::resource::{
    GroupEntry, GroupInclude, GroupRoute, GrpcService, GrpcServiceMethod, HttpRouteGroup,
    RouteLabels, included,
};
use policy_crds::{Body, Field, ObjectKey, Resource};
use std::sync::Arc;

/// The longest chain of groups, the outermost among them.
const MAX_DEPTH: usize = 16;

/// The most routes of a group, those of included groups among them; and the most includes that are
/// followed for it.
const MAX_ROUTES: usize = 1024;

/// The most references of a binding or group that its condition says in full.
const MAX_FAULTS: usize = 16;

query!(DescribedRoutesOf, Arc<DescribedRoutes>, described);
query!(BindingRoutesOf, Arc<DescribedRoutes>, of_binding);

fn described(query: &DescribedRoutesOf, cx: &mut Context<'_>) -> Arc<DescribedRoutes> {
    Arc::new(match cx.object(&query.0).map(|object| &object.body) {
        Some(Body::Valid(Resource::HttpRouteGroup(group))) => {
            let mut walk = Walk::default();
            walk.group(cx, &query.0, group, &Inherited::default());
            walk.found
        }
        Some(Body::Valid(Resource::GrpcService(service))) => of_service(&query.0, service),
        // A reference to what is missing or invalid is not followed.
        Some(Body::Valid(_) | Body::Invalid(_)) | None => DescribedRoutes::default(),
    })
}

fn of_binding(query: &BindingRoutesOf, cx: &mut Context<'_>) -> Arc<DescribedRoutes> {
    let mut all = DescribedRoutes::default();
    let named = match cx.object(&query.0).map(|object| &object.body) {
        Some(Body::Valid(Resource::HttpRouteBinding(binding))) => &binding.groups[..],
        Some(Body::Valid(Resource::GrpcServiceBinding(binding))) => &binding.services[..],
        Some(Body::Valid(_) | Body::Invalid(_)) | None => &[],
    };
    for key in named {
        if let Err(error) = follow(cx, &query.0, Field::Include, key) {
            let message = format!("{key} {}", error.as_str()).into();
            all.fault(IncludeFault { reason: reason(error), message });
            continue;
        }
        let one = cx.query(&DescribedRoutesOf(key.clone()));
        all.routes.extend(one.routes.iter().cloned());
        if let Some(first) = one.faults.first() {
            // What is wrong inside of another namespace is said there.
            let message = match key.namespace == query.0.namespace {
                true => format!("{key}: {}", first.message),
                false => format!("{key} is broken: its conditions say why"),
            };
            all.fault(IncludeFault { reason: first.reason, message: message.into() });
        }
    }
    Arc::new(all)
}

impl DescribedRoutes {
    fn fault(&mut self, fault: IncludeFault) {
        if self.faults.len() < MAX_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }
}

/// A walk through a group and those that it includes. Each inclusion is walked, because labels and
/// predicates may differ from one to the next.
#[derive(Default)]
struct Walk {
    /// The groups from the first one to the one that is walked: a group may be included twice, but not
    /// by itself.
    stack: Vec<ObjectKey>,
    /// Number of includes that were followed.
    followed: usize,
    found: DescribedRoutes,
}

/// All that a route gets from the groups that include its own.
#[derive(Clone, Default)]
struct Inherited {
    headers: Vec<HeaderMatch>,
    query: Vec<QueryMatch>,
    labels: RouteLabels,
}

impl Inherited {
    /// The same with the predicates of a group.
    fn within(&self, group: &HttpRouteGroup) -> Self {
        Self {
            headers: distinct(&self.headers, &group.headers),
            query: distinct(&self.query, &group.query),
            labels: self.labels.clone(),
        }
    }
}

/// The elements of both lists, each once.
fn distinct<T: Clone + PartialEq>(one: &[T], other: &[T]) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for item in one.iter().chain(other) {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}

impl Walk {
    fn group(
        &mut self,
        cx: &mut Context<'_>,
        key: &ObjectKey,
        group: &HttpRouteGroup,
        outer: &Inherited,
    ) {
        let own = outer.within(group);
        self.stack.push(key.clone());
        for (place, entry) in group.routes.iter().enumerate() {
            match entry {
                GroupEntry::Route(route) => self.route((key, place), route, &own),
                GroupEntry::Include(include) => self.include(cx, key, include, &own),
            }
        }
        self.stack.pop();
    }

    fn route(
        &mut self,
        (holder, place): (&ObjectKey, usize),
        route: &GroupRoute,
        outer: &Inherited,
    ) {
        for method in route.each_method() {
            if self.found.routes.len() >= MAX_ROUTES {
                return self.too_large();
            }
            let one = GroupRoute {
                path: route.path.clone(),
                methods: method.into_iter().cloned().collect(),
                headers: distinct(&route.headers, &outer.headers),
                query: distinct(&route.query, &outer.query),
                labels: included(&route.labels, &outer.labels),
            };
            let matches = one.matches(&[], &[]);
            let GroupRoute { path, methods: _, headers, query, labels } = one;
            let (holder, method) = (holder.clone(), method.cloned());
            let found =
                DescribedRoute { holder, place, path, method, headers, query, labels, matches };
            self.found.routes.push(Arc::new(found));
        }
    }

    fn include(
        &mut self,
        cx: &mut Context<'_>,
        from: &ObjectKey,
        include: &GroupInclude,
        own: &Inherited,
    ) {
        let to = &include.group;
        self.followed = self.followed.saturating_add(1);
        if self.followed > MAX_ROUTES {
            return self.too_large();
        }
        if self.stack.contains(to) {
            return self.fault(from, Reason::Cycle, format!("{to} leads back to itself"));
        }
        if self.stack.len() >= MAX_DEPTH {
            let message = format!("{to} is included by a chain of more than {MAX_DEPTH} groups");
            return self.fault(from, Reason::TooDeep, message);
        }
        let object = match follow(cx, from, Field::Include, to) {
            Ok(followed) => followed.object,
            Err(error) => {
                return self.fault(from, reason(error), format!("{to} {}", error.as_str()));
            }
        };
        let Body::Valid(Resource::HttpRouteGroup(group)) = &object.body else { return };
        // The outermost includer has the last word.
        let labels = included(&include.labels, &own.labels);
        self.group(cx, to, group, &Inherited { labels, ..own.clone() });
    }

    fn too_large(&mut self) {
        let message = format!("describes more than {MAX_ROUTES} routes, included ones among them");
        let fault = IncludeFault { reason: Reason::TooLarge, message: message.into() };
        self.found.fault(fault);
    }

    /// Adds a fault of an include in `from`, which is named unless the walk began there. The groups of
    /// another namespace say it themselves.
    fn fault(&mut self, from: &ObjectKey, reason: Reason, message: String) {
        let message = match self.stack.first() {
            Some(first) if first == from => message,
            Some(first) if first.namespace == from.namespace => format!("{from}: {message}"),
            Some(_) | None => format!("{from} is broken: its conditions say why"),
        };
        self.found.fault(IncludeFault { reason, message: message.into() });
    }
}

fn of_service(key: &ObjectKey, service: &GrpcService) -> DescribedRoutes {
    let own = service.methods.iter().map(Some);
    let whole = service.methods.is_empty().then_some(None);
    let route =
        |(place, (method, request)): (usize, (Option<&GrpcServiceMethod>, RequestMatch))| {
            Arc::new(DescribedRoute {
                holder: key.clone(),
                place,
                path: service.path_of(method),
                method: Some(Method::POST),
                headers: Vec::new(),
                query: Vec::new(),
                labels: method.map(|method| method.labels.clone()).unwrap_or_default(),
                matches: vec![request],
            })
        };
    let routes = own.chain(whole).zip(service.matches()).enumerate().map(route).collect();
    DescribedRoutes { routes, faults: Vec::new() }
}
