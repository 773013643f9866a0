//! A sidecar in a process of its own, so that a test can read its memory: forwards everything that
//! is well-formed from a free loopback port to the application named on the command line. If a path
//! follows, a route for that path is attached to the port.
//!
//! Prints its address, then serves until its standard input ends.

use anyhow::{Context, Result};
use policy_core::testing::default_policy;
use policy_core::{
    AuthorizationSet, DefaultPolicy, ObjectRef, Origin, PathPattern, Protocol, RequestMatch,
    Revision, Route, RouteKind, Rule, ServerPolicy, UndeclaredPorts, Unmatched,
};
use policy_enforce::store::{PolicyStore, StoreConfig};
use policy_enforce::telemetry::Telemetry;
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// The allocator of the program that ships, because tests read the memory of this one.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> Result<()> {
    let upstream: SocketAddr =
        std::env::args().nth(1).context("usage: sidecar-under-test UPSTREAM [PATH]")?.parse()?;
    let path = std::env::args().nth(2);
    let port = NonZeroU16::new(8080).context("port")?;
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1)))?;
    store.declare(&BTreeSet::from([port]), UndeclaredPorts::Deny);
    store.apply(port, Arc::new(everyone(path.as_deref())), Revision::default())?;
    let mut config = SidecarConfig::new("tests/under-test");
    config.listeners = vec![Listener {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        target: Target::Fixed { port, upstream },
    }];
    config.timeouts.request_head = Duration::from_secs(2);
    config.timeouts.detect = Duration::from_secs(2);
    let sidecar = Sidecar::start(config, store, IdentityHandle::empty(), None)?;
    println!("{}", sidecar.addresses().first().context("no listener")?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn everyone(path: Option<&str>) -> ServerPolicy {
    let mut policy = ServerPolicy {
        protocol: Protocol::Detect { timeout: Duration::from_secs(2) },
        ..default_policy(DefaultPolicy::AllUnauthenticated)
    };
    if let Some(path) = path {
        policy.routes.otherwise = Unmatched::NotFound;
        policy.routes.routes = vec![Arc::new(route(path))];
    }
    policy
}

fn route(path: &str) -> Route {
    let matches = vec![RequestMatch::path(PathPattern::exact(path))];
    Route {
        origin: Origin::Objects(vec![ObjectRef::new("", "HTTPRoute", "ns", "open")].into()),
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: Vec::new().into(),
        rules: vec![Rule { matches: matches.into(), effects: Vec::new().into() }].into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: true,
        withheld: Vec::new().into(),
    }
}
