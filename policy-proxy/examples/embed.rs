//! Enforces a policy inside a hyper server of one's own; the crate policy-embed has one that does more.
//!
//! ```text
//! cargo run -p policy-proxy --example embed
//! curl -i http://127.0.0.1:8081/open     # 200
//! curl -i http://127.0.0.1:8081/closed   # 403
//! curl -i http://127.0.0.1:8081/other    # 404
//! ```
//!
//! The policy is written here; a real server would fill its store from the controller.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use policy_core::{
    AuthorizationSet, DefaultPolicy, InformationalHeaders, ObjectRef, Origin, Owner, PathHandling,
    PathPattern, Protocol, RequestMatch, Revision, Route, RouteKind, RouteTable, Rule,
    ServerPolicy, UndeclaredPorts, Unmatched, UpstreamReuse,
};
use policy_enforce::record::{AccessLog, Format};
use policy_enforce::{PolicyLayer, PolicyStore, StoreConfig, Telemetry};
use policy_tls::peer::{Peer, PeerTls};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tower::{Service, ServiceExt, service_fn as tower_service_fn};
use tower_layer::Layer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = NonZeroU16::new(8081).ok_or("port 0")?;
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1)))?;
    store.declare(&BTreeSet::from([port]), UndeclaredPorts::Deny);
    store.apply(port, Arc::new(policy()), Revision::default())?;
    let layer = PolicyLayer::new(&store, port, "example/embed")
        .with_recorder(Arc::new(AccessLog::to_stderr(Format::Json)));
    let service = layer.whole_service().layer(tower_service_fn(hello));
    let listener = TcpListener::bind(("127.0.0.1", port.get())).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, from) = listener.accept().await?;
        // The peer. A server that terminates TLS passes the verified identity here.
        let peer = Arc::new(Peer::new(from, PeerTls::Absent));
        let service = service.clone();
        tokio::spawn(async move {
            let serve = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer.clone());
                let mut service = service.clone();
                async move { service.ready().await?.call(request).await }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), serve);
            if let Err(error) = connection.await {
                eprintln!("connection from {from}: {error}");
            }
        });
    }
}

/// The application.
async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("hello from {}\n", request.uri().path()))))
}

/// `/open` permits every client, `/closed` none, and there are no other routes.
fn policy() -> ServerPolicy {
    let everybody = DefaultPolicy::AllUnauthenticated.authorizations();
    ServerPolicy {
        owner: Owner::Server(ObjectRef::new("policy.linkerd.io", "Server", "example", "embed")),
        protocol: Protocol::Detect { timeout: Duration::from_secs(10) },
        deny: None,
        paths: PathHandling::Canonical,
        informational_headers: InformationalHeaders::Enabled,
        upstream_reuse: UpstreamReuse::Usual,
        authorizations: AuthorizationSet::default(),
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: vec![route("/open", everybody), route("/closed", AuthorizationSet::default())],
            hosts: BTreeMap::new(),
            otherwise: Unmatched::NotFound,
        },
        rate_limit: None,
        effects: Vec::new(),
        withheld: Vec::new(),
    }
}

fn route(path: &str, authorizations: AuthorizationSet) -> Arc<Route> {
    let name = path.trim_start_matches('/');
    let object = ObjectRef::new("gateway.networking.k8s.io", "HTTPRoute", "example", name);
    let matches = vec![RequestMatch::path(PathPattern::prefix(path))];
    Arc::new(Route {
        origin: Origin::Objects([object].into()),
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: Vec::new().into(),
        rules: vec![Rule { matches: matches.into(), effects: Vec::new().into() }].into(),
        authorizations,
        inherits_server: false,
        withheld: Vec::new().into(),
    })
}
