//! Requests that are described once and named by many policies, as typed values: groups of routes,
//! services of gRPC, what binds them to Servers, what selects among them, and the policies that have no
//! other kind of target.

use crate::group_path::GroupPath;
use crate::inbound::Consent;
use crate::key::ObjectKey;
use crate::route_selector::{RouteLabels, RouteSelector};
use crate::target::PolicyTarget;
use http::{HeaderName, HeaderValue, Method};
use policy_core::filter::{HeaderRewrite, Streams, Timeouts};
use policy_core::{
    EffectCondition, HeaderCondition, HeaderMatch, HostPattern, PathPattern, QueryMatch,
    RequestMatch, SegmentCondition,
};
use std::sync::Arc;
use std::time::Duration;

/// HttpRouteGroup: routes, described once. It decides nothing until it is bound to a Server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRouteGroup {
    /// Routes and other groups; never empty.
    pub routes: Vec<GroupEntry>,
    /// Predicates that every route has besides its own.
    pub headers: Vec<HeaderMatch>,
    /// The same over query parameters.
    pub query: Vec<QueryMatch>,
    /// The hosts under which it agrees to be delegated to.
    pub delegated_from: Vec<Consent>,
}

/// An element of an [`HttpRouteGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEntry {
    /// A route.
    Route(GroupRoute),
    /// The routes of another group.
    Include(GroupInclude),
}

/// A route of an [`HttpRouteGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRoute {
    /// Its path.
    pub path: GroupPath,
    /// Its methods, each once; empty: any.
    pub methods: Vec<Method>,
    /// Header predicates; all must match.
    pub headers: Vec<HeaderMatch>,
    /// Query parameter predicates; all must match.
    pub query: Vec<QueryMatch>,
    /// The labels that its author wrote.
    pub labels: RouteLabels,
}

/// An included group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInclude {
    /// The group.
    pub group: ObjectKey,
    /// Labels of all of its routes. They win over those of the routes themselves.
    pub labels: RouteLabels,
}

impl GroupRoute {
    /// The methods one by one; one absent method where it is for any.
    pub fn each_method(&self) -> impl Iterator<Item = Option<&Method>> {
        let any = self.methods.is_empty().then_some(None);
        self.methods.iter().map(Some).chain(any)
    }

    /// True if some request of this method matches both routes for the same reasons: paths of one
    /// shape, and the same predicates.
    pub fn is_duplicate_of(&self, other: &Self) -> bool {
        let shared = |method| other.each_method().any(|own| own == method);
        self.path.has_shape_of(&other.path)
            && self.each_method().any(shared)
            && same(&self.headers, &other.headers)
            && same(&self.query, &other.query)
    }

    /// Its matches, with the predicates of the groups that hold it.
    pub fn matches(&self, headers: &[HeaderMatch], query: &[QueryMatch]) -> Vec<RequestMatch> {
        let headers = [&self.headers[..], headers].concat();
        let query = [&self.query[..], query].concat();
        let patterns = self.path.patterns();
        let of_method = |method: Option<&Method>| {
            let request =
                |path| RequestMatch::new(path, method.cloned(), headers.clone(), query.clone());
            patterns.iter().cloned().map(request).collect::<Vec<_>>()
        };
        self.each_method().flat_map(of_method).collect()
    }
}

/// The parts of an invalid [`HttpRouteGroup`] that could be read. It permits nothing, and nothing that it
/// may have been meant to refuse is permitted by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupClaims {
    /// The elements that could be read, and the predicates. Its routes keep their place, and deny.
    pub group: HttpRouteGroup,
    /// Of each other element, the conditions that could be read. They deny before every other route.
    pub unreadable: Vec<GroupRouteClaims>,
    /// True if predicates of the group could not be read: each of its routes may have been narrower, so
    /// that all of them deny before every other route.
    pub narrower: bool,
}

impl GroupClaims {
    /// The claims of a group that was valid; `None`: of one of which nothing could be read.
    pub(crate) fn of(group: Option<&HttpRouteGroup>) -> Self {
        let (routes, headers, query, delegated_from) = (vec![], vec![], vec![], vec![]);
        let nothing = || HttpRouteGroup { routes, headers, query, delegated_from };
        let unreadable = match group {
            Some(_) => Vec::new(),
            None => vec![GroupRouteClaims::default()],
        };
        Self { group: group.cloned().unwrap_or_else(nothing), unreadable, narrower: false }
    }
}

/// The conditions that could be read of a route of a group. The default matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRouteClaims {
    /// Its path; absent: any.
    pub path: Option<GroupPath>,
    /// Its methods; empty: any.
    pub methods: Vec<Method>,
    /// Header predicates.
    pub headers: Vec<HeaderMatch>,
    /// Query parameter predicates.
    pub query: Vec<QueryMatch>,
}

impl GroupRouteClaims {
    /// The requests that meet these conditions.
    pub fn matches(&self) -> Vec<RequestMatch> {
        let patterns = match &self.path {
            Some(path) => path.patterns(),
            None => vec![PathPattern::prefix("/")],
        };
        let any = self.methods.is_empty().then_some(None);
        let methods = self.methods.iter().cloned().map(Some).chain(any);
        let of_method = |method: Option<Method>| {
            let request = |path| {
                let (headers, query) = (self.headers.clone(), self.query.clone());
                RequestMatch::new(path, method.clone(), headers, query)
            };
            patterns.iter().cloned().map(request).collect::<Vec<_>>()
        };
        methods.flat_map(of_method).collect()
    }
}

/// True if both lists have the same elements, each of which is there once.
fn same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && one.iter().all(|item| other.contains(item))
}

/// HttpRouteBinding: the routes of groups on a Server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRouteBinding {
    /// The Server, in its namespace.
    pub server: Arc<str>,
    /// The groups; never empty, and each once.
    pub groups: Vec<ObjectKey>,
    /// Hosts; empty: every host.
    pub hostnames: Vec<HostPattern>,
}

/// The parts of an invalid binding that could be read. It permits nothing, and its Server stays bound to
/// routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingClaims {
    /// Name of the Server; unreadable: it may have been any one of the namespace.
    pub server: Option<Arc<str>>,
    /// The groups or services that could be read. Their routes deny.
    pub named: Vec<ObjectKey>,
    /// True if one could not be read: it may have described any request.
    pub unread: bool,
    /// The hosts that could be read; empty: every host.
    pub hostnames: Vec<HostPattern>,
    /// True if a host could not be read: it may have been any host.
    pub any_host: bool,
}

impl BindingClaims {
    /// The claims of a binding of which nothing could be read.
    pub(crate) fn of_nothing() -> Self {
        let (named, hostnames) = (Vec::new(), Vec::new());
        Self { server: None, named, unread: true, hostnames, any_host: true }
    }
}

/// HttpRouteClass: some of the routes that are bound to a Server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRouteClass {
    /// The Server, in its namespace.
    pub server: Arc<str>,
    /// Selects the routes.
    pub selector: RouteSelector,
}

/// GrpcService: a service and its methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcService {
    /// The name with its package, case-sensitive.
    pub service: Arc<str>,
    /// Methods, each once; empty: all that the service has.
    pub methods: Vec<GrpcServiceMethod>,
}

/// The parts of an invalid [`GrpcService`] that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceClaims {
    /// The service with the methods that could be read, which keep their place, and deny.
    pub service: Option<GrpcService>,
    /// Of each other method, what could be read. It denies before every other route.
    pub unreadable: Vec<RequestMatch>,
}

impl ServiceClaims {
    /// The claims of a service that was valid; `None`: of one of which nothing could be read.
    pub(crate) fn of(service: Option<&GrpcService>) -> Self {
        let unreadable = match service {
            Some(_) => Vec::new(),
            None => vec![RequestMatch::grpc(None, None)],
        };
        Self { service: service.cloned(), unreadable }
    }
}

/// A method of a [`GrpcService`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcServiceMethod {
    /// The name, case-sensitive.
    pub name: Arc<str>,
    /// The labels that its author wrote.
    pub labels: RouteLabels,
}

impl GrpcService {
    /// The path of a method for selectors, or, where none is listed, of each with the parameter `method`.
    /// gRPC itself has no slash at its end.
    pub fn path_of(&self, method: Option<&GrpcServiceMethod>) -> GroupPath {
        GroupPath::grpc(&self.service, method.map(|method| &*method.name))
    }

    /// The matches of the service: one for each method, or one for all of them.
    pub fn matches(&self) -> Vec<RequestMatch> {
        if self.methods.is_empty() {
            return vec![RequestMatch::grpc(Some(&self.service), None)];
        }
        let one = |method: &GrpcServiceMethod| {
            RequestMatch::grpc(Some(&self.service), Some(&method.name))
        };
        self.methods.iter().map(one).collect()
    }
}

/// GrpcServiceBinding: services on a Server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcServiceBinding {
    /// The Server, in its namespace.
    pub server: Arc<str>,
    /// The services; never empty, and each once.
    pub services: Vec<ObjectKey>,
}

/// GrpcServiceClass: some methods of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcServiceClass {
    /// The GrpcService, in its namespace.
    pub service: Arc<str>,
    /// Selects the methods.
    pub selector: RouteSelector,
}

/// TimeoutPolicy: bounds on parts of an exchange; at least one is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeoutPolicy {
    /// The object that it is about.
    pub target: PolicyTarget,
    /// From the arrival of the request's head to the end that `streams` says.
    pub request: Option<Duration>,
    /// From the end of the request to the head of the response.
    pub response: Option<Duration>,
    /// The longest time without a byte of either body.
    pub idle: Option<Duration>,
    /// The end of the bound on the request.
    pub streams: Streams,
}

impl TimeoutPolicy {
    /// The bounds, for the requests that meet these conditions.
    pub fn timeouts(&self, when: Vec<SegmentCondition>) -> Timeouts {
        let Self { target: _, request, response, idle, streams } = self;
        Timeouts { when, request: *request, response: *response, idle: *idle, streams: *streams }
    }
}

/// HeaderRewritePolicy: changes of the headers of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRewritePolicy {
    /// The object that it is about.
    pub target: PolicyTarget,
    /// Rules, in order; never empty.
    pub rules: Vec<HeaderRewriteRule>,
    /// True if requests must not be forwarded without the changes.
    pub required: bool,
}

/// A rule of a [`HeaderRewritePolicy`]: first `clear`, then `set`, then `add`. It changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRewriteRule {
    /// Conditions on the headers of the request as it was received; all must hold.
    pub when: Vec<HeaderCondition>,
    /// Names removed.
    pub clear: Vec<HeaderName>,
    /// Values that replace all of that name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Values appended.
    pub add: Vec<(HeaderName, HeaderValue)>,
}

impl HeaderRewritePolicy {
    /// The rules as effects, in order, for the requests that meet these conditions.
    pub fn rewrites(&self, when: &[SegmentCondition]) -> Vec<HeaderRewrite> {
        let rewrite = |rule: &HeaderRewriteRule| {
            let HeaderRewriteRule { when: headers, clear, set, add } = rule;
            let segments = when.iter().cloned().map(EffectCondition::Segment);
            let headers = headers.iter().cloned().map(EffectCondition::Header);
            HeaderRewrite {
                when: segments.chain(headers).collect(),
                clear: clear.clone(),
                set: set.clone(),
                add: add.clone(),
                required: self.required,
            }
        };
        self.rules.iter().map(rewrite).collect()
    }
}
