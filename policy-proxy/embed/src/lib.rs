//! The sidecar's check inside another service, without a sidecar.
//!
//! A service learns the policies of its workload ([`Policies`]), listens with mesh TLS ([`Server`]),
//! and gets the requests that policy permits, with the canonical target and headers about the client.
//!
//! ```no_run
//! use policy_embed::{MeshTls, Policies, WorkloadKey};
//! # async fn run(router: impl policy_embed::Application) -> Result<(), policy_embed::EmbedError> {
//! let workload = WorkloadKey::pod("shop", "web-0");
//! let policies = Policies::from_directory("policies", &workload).await?;
//! let tls = MeshTls::from_files("tls.crt", "tls.key", "ca.crt", "web.shop.example").await?;
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
//! policies.ready().await;
//! policies.server(8080)?.tls(tls).serve(listener, router).await;
//! # Ok(())
//! # }
//! ```
//!
//! `router` is an axum `Router`, the `Routes` of tonic, or any other tower service whose requests
//! have hyper's body; the folder `examples` has one of each of the first two. **The server decides
//! around the whole service**: nothing of the application has read a request before.
//!
//! # A server of one's own
//!
//! With another acceptor, [`Policies::layer`] is the check alone, for a server that puts an
//! [`Arc<Peer>`](Peer) into the extensions of each request. It goes around the whole service
//! ([`PolicyLayer::whole_service`]): inside of a router it refuses targets that are not canonical,
//! because the router has read another one than policy would decide about. With the feature `axum`
//! it may be inside of axum's routers, `Router::nest` included; without this feature it must not be
//! inside of a router that takes prefixes out of targets. An application that switches protocols
//! (WebSocket) takes the [`TunnelGuard`] of the request and ends the tunnel when the guard says so;
//! otherwise its 101 is answered 502. [`Server`] ends its connections itself.
//!
//! ```no_run
//! use hyper::body::Incoming;
//! use hyper_util::rt::TokioIo;
//! use hyper_util::service::TowerToHyperService;
//! use policy_embed::{Peer, PeerTls, Policies};
//! use std::sync::Arc;
//! use tower::{Layer, ServiceExt};
//!
//! # async fn run(policies: Policies, router: axum::Router) -> Result<(), Box<dyn std::error::Error>> {
//! let checked = policies.layer(8080)?.whole_service().layer(router);
//! let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
//! loop {
//!     // One that fails, as for want of file descriptors, does not end the others.
//!     let Ok((stream, client)) = listener.accept().await else {
//!         tokio::time::sleep(std::time::Duration::from_millis(50)).await;
//!         continue;
//!     };
//!     let peer = Arc::new(Peer::new(client, PeerTls::Absent));
//!     let service = checked.clone().map_request(move |mut request: http::Request<Incoming>| {
//!         request.extensions_mut().insert(Arc::clone(&peer));
//!         request
//!     });
//!     let http = hyper::server::conn::http1::Builder::new();
//!     tokio::spawn(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
//! }
//! # }
//! ```
//!
//! # Features
//!
//! | feature | has | links |
//! |---|---|---|
//! | `directory` (default) | [`Policies::from_directory`] | neither gRPC nor protobuf, and no command line |
//! | `controller` | `Policies::connect`, identities from an issuer | tonic |
//! | `axum` | layers inside of axum's routers | axum |
//!
//! Rust 1.95 or newer; Linux.
//!
//! # What is not supported
//!
//! - Bytes that are not HTTP, transport headers and redirected connections: the sidecar's work.
//! - Bounds that begin with the end of a request, changes of its trailers, and an idle bound on
//!   tunnels ([`policy_enforce::middleware::layer`]).

mod accept;
mod connection;
#[cfg(feature = "controller")]
mod controller;
#[cfg(feature = "directory")]
mod directory;
mod error;
mod follower;
mod mesh_tls;
mod policies;
mod server;
mod service;
mod stream;

#[cfg(feature = "controller")]
pub use controller::ControllerAddress;
#[cfg(feature = "directory")]
pub use directory::DirectoryConfig;
pub use error::EmbedError;
pub use mesh_tls::MeshTls;
pub use policies::Policies;
pub use policy_core::{Denied, Identity, WorkloadKey};
pub use policy_enforce::PolicyLayer;
pub use policy_enforce::middleware::PolicyService;
pub use policy_enforce::middleware::layer::{
    EndedByPolicy, PolicyBody, PolicyFuture, TunnelEnd, TunnelGuard,
};
pub use policy_enforce::record::{AccessLog, Format, Record, Recorder, RequestRecord, Verdict};
pub use policy_enforce::respond::Exceeded;
pub use policy_tls::identity::IdentityConfig;
pub use policy_tls::peer::{Peer, PeerTls};
pub use server::Server;
pub use service::Application;
