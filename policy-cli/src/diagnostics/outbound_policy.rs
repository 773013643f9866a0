//! Linkerd's outbound policy: what objects state about the calls that pods make. Our controller serves
//! none of it to Linkerd's proxies unless it forwards their requests to Linkerd's controller, and our
//! own sidecars have none.

use policy_crds::annotation::field;
use policy_crds::resource::ParentRef;
use policy_crds::{Body, Claims, Invalid, Kind, Object, Resource};
use serde_json::Value;

/// Outbound policy that an object states and that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboundPolicy {
    /// The first field that states it.
    pub(crate) field: String,
    /// The fields in words, with their verb.
    subject: String,
}

/// Kinds that may state outbound policy.
pub(crate) const KINDS: [Kind; 5] = [
    Kind::PolicyHttpRoute,
    Kind::GatewayHttpRoute,
    Kind::GrpcRoute,
    Kind::EgressNetwork,
    Kind::Service,
];

/// Beginnings of the names of annotations of Services.
const OF_SERVICES: [&str; 3] =
    ["balancer.linkerd.io/failure-accrual", "retry.linkerd.io/", "timeout.linkerd.io/"];

/// The consequence for both kinds of proxies.
pub(crate) const CONSEQUENCE: &str = "Portcullis' controller hands Linkerd's proxies no outbound policy, \
     unless --linkerd-policy-addr forwards their requests to Linkerd's controller, and Portcullis' \
     sidecars have none";

impl OutboundPolicy {
    /// Returns the outbound policy that an object states: a route by its parents, a Service by its
    /// annotations, an EgressNetwork as a whole.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let kind = object.meta.key.kind;
        if kind == Kind::Service {
            return Self::of_annotations(object.meta.annotations.keys().map(|name| &**name));
        }
        if kind == Kind::EgressNetwork {
            return Some(Self { field: String::new(), subject: "has no effect".to_owned() });
        }
        Self::of_parents(parents(object))
    }

    /// Returns the outbound policy that a route states whose kind is not parsed, such as a TLSRoute.
    pub(crate) fn of_unread_route(route: &Value) -> Option<Self> {
        let parents = super::metadata::items(route, "/spec/parentRefs").map(|parent| {
            let text = |name: &str, default: &str| {
                parent.get(name).and_then(Value::as_str).unwrap_or(default).into()
            };
            ParentRef {
                group: text("group", Kind::GatewayHttpRoute.group()),
                kind: text("kind", "Gateway"),
                namespace: None,
                name: text("name", ""),
                port: None,
                section: None,
            }
        });
        Self::of_parents(&parents.collect::<Vec<_>>())
    }

    fn of_parents(parents: &[ParentRef]) -> Option<Self> {
        let mut outbound = parents.iter().enumerate().filter(|(_, parent)| parent.is_outbound());
        let (index, first) = outbound.next()?;
        let more = match outbound.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(Self {
            field: format!("spec.parentRefs[{index}]"),
            subject: format!("has no effect on calls of {} {}{more}", first.kind, first.name),
        })
    }

    fn of_annotations<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let states = |name: &&str| OF_SERVICES.iter().any(|beginning| name.starts_with(beginning));
        let mut stated = names.filter(states);
        let first = stated.next()?;
        let subject = match stated.count() {
            0 => "has no effect".to_owned(),
            1 => "this and 1 more annotation have no effect".to_owned(),
            more => format!("this and {more} more annotations have no effect"),
        };
        Some(Self { field: field(first), subject })
    }

    /// The message of a warning about its field.
    pub(crate) fn message(&self) -> String {
        format!("{}: {CONSEQUENCE}", self.subject)
    }
}

/// Returns the parents of a route, valid or not.
fn parents(object: &Object) -> &[ParentRef] {
    match &object.body {
        Body::Valid(Resource::Route(route)) => &route.parents,
        Body::Invalid(Invalid { claims: Claims::Route(claims), .. }) => &claims.parents,
        Body::Valid(_) | Body::Invalid(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &Value) -> Option<(String, String)> {
        let object = policy_crds::parse(value).unwrap();
        OutboundPolicy::of(&object).map(|policy| (policy.field, policy.subject))
    }

    fn route(api: &str, kind: &str, parents: Value) -> Value {
        json!({
            "apiVersion": api, "kind": kind, "metadata": {"name": "r", "namespace": "shop"},
            "spec": {"parentRefs": parents},
        })
    }

    fn service(annotations: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
            "spec": {"ports": [{"port": 80}]},
        })
    }

    fn stated(field: &str, subject: &str) -> Option<(String, String)> {
        Some((field.to_owned(), subject.to_owned()))
    }

    #[test]
    fn a_route_states_outbound_policy_by_a_service_or_an_egress_network_among_its_parents() {
        let server = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web"});
        let web = json!({"group": "", "kind": "Service", "name": "web", "port": 80});
        let core = json!({"group": "core", "kind": "Service", "name": "cart"});
        let out = json!({
            "group": "policy.linkerd.io", "kind": "EgressNetwork", "name": "out", "port": 443,
        });
        for (api, kind) in [
            ("gateway.networking.k8s.io/v1", "HTTPRoute"),
            ("gateway.networking.k8s.io/v1", "GRPCRoute"),
            ("policy.linkerd.io/v1beta3", "HTTPRoute"),
        ] {
            let route = |parents: Value| route(api, kind, parents);
            let of_web = stated("spec.parentRefs[1]", "has no effect on calls of Service web");
            assert_eq!(of(&route(json!([server, web]))), of_web);
            let of_cart =
                stated("spec.parentRefs[0]", "has no effect on calls of Service cart and 1 more");
            assert_eq!(of(&route(json!([core, server, web]))), of_cart);
            let of_out =
                stated("spec.parentRefs[0]", "has no effect on calls of EgressNetwork out");
            assert_eq!(of(&route(json!([out]))), of_out);
            assert_eq!(of(&route(json!([server, {"name": "gateway"}]))), None);
        }
    }

    #[test]
    fn a_route_of_a_kind_that_is_not_read_states_it_alike() {
        let of = |parents: Value| {
            let route = route("gateway.networking.k8s.io/v1alpha2", "TLSRoute", parents);
            OutboundPolicy::of_unread_route(&route).map(|policy| policy.subject)
        };
        let web = json!([{"name": "gateway"}, {"group": "", "kind": "Service", "name": "web"}]);
        assert_eq!(of(web).as_deref(), Some("has no effect on calls of Service web"));
        assert_eq!(of(json!([{"name": "web"}, {"kind": "Service", "name": "web"}, 7])), None);
        assert_eq!(of(Value::Null), None);
    }

    #[test]
    fn a_service_states_it_by_annotations_and_an_egress_network_as_a_whole() {
        let accrual = "balancer.linkerd.io/failure-accrual-consecutive-max-failures";
        let retry = service(json!({"retry.linkerd.io/http": "5xx", "linkerd.io/inject": "x"}));
        let name = "metadata.annotations[\"retry.linkerd.io/http\"]";
        assert_eq!(of(&retry), stated(name, "has no effect"));
        let three = service(json!({
            accrual: "7", "timeout.linkerd.io/request": "1s", "retry.linkerd.io/limit": "2",
        }));
        let name = format!("metadata.annotations[\"{accrual}\"]");
        assert_eq!(of(&three), stated(&name, "this and 2 more annotations have no effect"));
        assert_eq!(of(&service(json!({"balancer.linkerd.io/other": "7"}))), None);
        let network = json!({
            "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "EgressNetwork",
            "metadata": {"name": "out", "namespace": "shop"}, "spec": {"trafficPolicy": "Allow"},
        });
        assert_eq!(of(&network), stated("", "has no effect"));
    }
}
