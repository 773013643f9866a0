//! The mixed load: several generators at a time, each with connections of its own for one turn.

use anyhow::Context;
use policy_bench::load::{Load, Protocol, Running};
use policy_bench::proxies::Proxy;
use std::path::Path;

/// The loads of a proxy, and what they have done so far.
pub(crate) struct Traffic<'a> {
    loads: Vec<(&'static str, Load)>,
    generator: &'a Path,
    running: Vec<(&'static str, Running)>,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) connections: u64,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(proxy: &Proxy, generator: &'a Path, certificates: &Path, share: f64) -> Self {
        let ports = proxy.ports;
        let rate = |rate: f64| Some(rate * share);
        let to = |target, count: f64| Load { rate: rate(count), ..Load::to(target) };
        let calls = Load { path: "/zz/Call".to_owned(), ..to(ports.grpc, 500.0) };
        let tls = |load: Load| Load { tls: Some(certificates.to_owned()), ..load };
        let new = |load: Load| Load { new_connection: true, sources: 8, ..load };
        let denied =
            |load: Load, path: &str, expect| Load { path: path.to_owned(), expect, ..load };
        let many = Load { streams: 10, connections: 8, ..to(ports.http2, 1000.0) };
        let loads = vec![
            ("HTTP/1.1", to(ports.http1, 2000.0)),
            ("bodies", Load { body: 65_536, ..to(ports.http1, 50.0) }),
            ("new connections", new(to(ports.http1, 200.0))),
            ("TLS", tls(to(ports.tls1, 500.0))),
            ("new TLS connections", new(tls(to(ports.tls1, 50.0)))),
            ("HTTP/2", Load { protocol: Protocol::Http2, ..many }),
            ("gRPC", Load { protocol: Protocol::Grpc, ..calls.clone() }),
            ("gRPC streams", Load { protocol: Protocol::GrpcStream, ..calls }),
            ("opaque", Load { protocol: Protocol::Echo, ..to(ports.raw, 500.0) }),
            ("denied by route", denied(to(ports.routed, 200.0), "/nope", 404)),
            ("denied by identity", denied(to(ports.meshed, 200.0), "/zz/x", 403)),
        ];
        Self { loads, generator, running: Vec::new(), operations: 0, bytes: 0, connections: 0 }
    }

    /// Starts every load, with new connections, for so many seconds.
    pub(crate) fn turn(&mut self, seconds: f64) -> anyhow::Result<()> {
        for (name, load) in &self.loads {
            let load = Load { seconds, ..load.clone() };
            self.running.push((name, load.start(self.generator, None)?));
        }
        Ok(())
    }

    /// Waits until the loads of this turn have ended. A wrong answer is an error.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        for (name, running) in self.running.drain(..) {
            let outcome = running.finish().context(name)?;
            self.operations += outcome.operations;
            self.bytes += outcome.bytes;
            self.connections += outcome.connections;
        }
        Ok(())
    }
}
