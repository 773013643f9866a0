//! Outbound policy of a Service's port: its endpoints share the load, and nothing else happens to a
//! connection.

use super::destination::{service_host, service_reference};
use super::meta;
use crate::linkerd::http_route::HttpRouteMatch;
use crate::linkerd::meta::Metadata;
use crate::linkerd::outbound::backend::balance_p2c::{Load, PeakEwma};
use crate::linkerd::outbound::backend::endpoint_discovery::{DestinationGet, Kind as Discovery};
use crate::linkerd::outbound::backend::{BalanceP2c, EndpointDiscovery, Kind as BackendKind};
use crate::linkerd::outbound::proxy_protocol::{Detect, Http1, Http2, Kind, Opaque};
use crate::linkerd::outbound::{
    Backend, HttpRoute, OpaqueRoute, OutboundPolicy, ProxyProtocol, Queue, http_route, opaque_route,
};
use policy_core::destination::ServiceName;
use prost_types::Duration;
use std::num::NonZeroU16;

/// Time to find out a connection's protocol, as for inbound ports without a Server.
const DETECT: Duration = Duration { seconds: 10, nanos: 0 };

/// Requests that wait for an endpoint.
const QUEUED: u32 = 100;

/// Time without an endpoint after which those fail. Clients of databases give up after 5 s.
const WITHOUT_ENDPOINT: Duration = Duration { seconds: 3, nanos: 0 };

/// Response time of an endpoint that has answered nothing yet: that of a neighbour in the cluster.
const FIRST_RESPONSE_TIME: Duration = Duration { seconds: 0, nanos: 30_000_000 };

/// Time in which response times fade.
const DECAY: Duration = Duration { seconds: 10, nanos: 0 };

/// Returns the policy of a Service's port. `opaque`: connections are carried as bytes. `domain` ends
/// the names of Services.
pub fn outbound_policy(
    service: &ServiceName,
    port: NonZeroU16,
    opaque: bool,
    domain: &str,
) -> OutboundPolicy {
    let reference = service_reference(service, port);
    let path = format!("{}:{port}", service_host(service, domain));
    let backend = backend(path, reference.clone());
    let kind = if opaque { Kind::Opaque(bytes(backend)) } else { detect(backend) };
    OutboundPolicy { protocol: Some(ProxyProtocol { kind: Some(kind) }), metadata: Some(reference) }
}

fn backend(path: String, metadata: Metadata) -> Backend {
    let discovery = EndpointDiscovery { kind: Some(Discovery::Dst(DestinationGet { path })) };
    let load = PeakEwma { default_rtt: Some(FIRST_RESPONSE_TIME), decay: Some(DECAY) };
    let balancer = BalanceP2c { discovery: Some(discovery), load: Some(Load::PeakEwma(load)) };
    let queue = Queue { capacity: QUEUED, failfast_timeout: Some(WITHOUT_ENDPOINT) };
    Backend {
        metadata: Some(metadata),
        queue: Some(queue),
        kind: Some(BackendKind::Balancer(balancer)),
    }
}

fn detect(backend: Backend) -> Kind {
    let routes = vec![requests(backend.clone())];
    Kind::Detect(Detect {
        timeout: Some(DETECT),
        opaque: Some(bytes(backend)),
        http1: Some(Http1 { routes: routes.clone(), failure_accrual: None }),
        http2: Some(Http2 { routes, failure_accrual: None }),
    })
}

fn bytes(backend: Backend) -> Opaque {
    use opaque_route::distribution::{FirstAvailable, Kind};
    let backend = opaque_route::RouteBackend { backend: Some(backend), filters: Vec::new() };
    let first = Kind::FirstAvailable(FirstAvailable { backends: vec![backend] });
    let distribution = opaque_route::Distribution { kind: Some(first) };
    let rule = opaque_route::Rule { backends: Some(distribution), filters: Vec::new() };
    Opaque {
        routes: vec![OpaqueRoute { metadata: Some(meta::built_in("opaque")), rules: vec![rule] }],
    }
}

fn requests(backend: Backend) -> HttpRoute {
    use http_route::distribution::{FirstAvailable, Kind};
    let backend = http_route::RouteBackend { backend: Some(backend), ..Default::default() };
    let first = Kind::FirstAvailable(FirstAvailable { backends: vec![backend] });
    let rule = http_route::Rule {
        matches: vec![HttpRouteMatch::default()],
        backends: Some(http_route::Distribution { kind: Some(first) }),
        ..Default::default()
    };
    HttpRoute { metadata: Some(meta::built_in("http")), hosts: Vec::new(), rules: vec![rule] }
}
