//! The cases: a base case, and one thing at a time that is different from it.

use policy_bench::attack::Attack;
use policy_bench::load::{Load, Protocol};
use policy_bench::proxies::{Kind, Ports, Side};
use std::net::SocketAddr;
use std::path::Path;

/// One case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Name by which it is chosen.
    pub(crate) name: &'static str,
    /// Title in tables.
    pub(crate) title: &'static str,
    side: Side,
    /// Target of the load.
    entry: Entry,
    protocol: Protocol,
    streams: usize,
    path: &'static str,
    body: usize,
    expect: u16,
    new_connection: bool,
    /// Rules on the port.
    pub(crate) rules: usize,
    /// Worker threads of the proxy.
    pub(crate) workers: usize,
    /// True if attackers are at work meanwhile.
    pub(crate) attacked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Http1,
    Http2,
    Grpc,
    Raw,
    Tls1,
    Tls2,
    Routed,
    Meshed,
    OutHttp,
    OutRaw,
}

const BASE: Case = Case {
    name: "base",
    title: "HTTP/1.1, 1 rule",
    side: Side::Inbound,
    entry: Entry::Http1,
    protocol: Protocol::Http1,
    streams: 1,
    path: "/zz/x",
    body: 0,
    expect: 200,
    new_connection: false,
    rules: 1,
    workers: 1,
    attacked: false,
};

/// Requests per second of an honest client beside attackers.
const MODEST: f64 = 1000.0;

/// Every case, the base case first.
pub(crate) fn all() -> Vec<Case> {
    let unpinned = [
        Case { name: "workers-1", title: "1 worker, not pinned", ..BASE },
        Case { name: "workers-2", title: "2 workers, not pinned", workers: 2, ..BASE },
    ];
    [http1(), tls(), http2(), raw(), outbound(), pair(), unpinned.to_vec()].concat()
}

fn http1() -> Vec<Case> {
    let rules = |name, title, rules| Case { name, title, rules, ..BASE };
    let body = |name, title, path, body| Case { name, title, path, body, ..BASE };
    let denied =
        |name, title, entry, path, expect| Case { name, title, entry, path, expect, ..BASE };
    vec![
        BASE,
        rules("rules-100", "100 rules", 100),
        rules("rules-1000", "1,000 rules", 1000),
        rules("rules-10000", "10,000 rules", 10_000),
        body("body-4k", "4 KiB each way", "/zz/x?4096", 4096),
        body("body-1m", "1 MiB each way", "/zz/x?1048576", 1_048_576),
        denied("denied-route", "denied by route", Entry::Routed, "/nope", 404),
        denied("denied-identity", "denied by identity", Entry::Meshed, "/zz/x", 403),
        Case {
            name: "connect",
            title: "a new connection per request",
            new_connection: true,
            ..BASE
        },
        Case {
            name: "attacked",
            title: "beside 20 attackers with 50 connections each",
            entry: Entry::Routed,
            attacked: true,
            ..BASE
        },
    ]
}

fn tls() -> Vec<Case> {
    let tls = |name, title| Case { name, title, entry: Entry::Tls1, ..BASE };
    vec![
        tls("tls", "mutual TLS, HTTP/1.1"),
        Case {
            entry: Entry::Tls2,
            protocol: Protocol::Http2,
            ..tls("tls-http2", "mutual TLS, HTTP/2, 1 stream")
        },
        Case {
            new_connection: true,
            ..tls("tls-connect", "mutual TLS, a new connection per request")
        },
    ]
}

fn http2() -> Vec<Case> {
    let http2 = |name, title, streams| Case {
        name,
        title,
        entry: Entry::Http2,
        protocol: Protocol::Http2,
        streams,
        ..BASE
    };
    let grpc = |name, title, protocol| Case {
        name,
        title,
        entry: Entry::Grpc,
        protocol,
        path: "/zz/Call",
        ..BASE
    };
    vec![
        http2("http2-1", "HTTP/2, 1 stream", 1),
        http2("http2-10", "HTTP/2, 10 streams", 10),
        http2("http2-100", "HTTP/2, 100 streams", 100),
        grpc("grpc", "gRPC, unary", Protocol::Grpc),
        grpc("grpc-stream", "gRPC, a message and its echo", Protocol::GrpcStream),
    ]
}

fn raw() -> Vec<Case> {
    let raw = |name, title, protocol| Case { name, title, entry: Entry::Raw, protocol, ..BASE };
    vec![
        raw("tcp-echo", "opaque TCP, round trips", Protocol::Echo),
        raw("tcp-download", "opaque TCP, large, to the client", Protocol::Download),
        raw("tcp-upload", "opaque TCP, large, to the application", Protocol::Upload),
    ]
}

/// Bytes that leave in mutual TLS.
fn outbound() -> Vec<Case> {
    let out = Case { side: Side::Outbound, entry: Entry::OutRaw, ..BASE };
    let raw = |name, title, protocol| Case { name, title, protocol, ..out.clone() };
    vec![
        raw("out-echo", "outbound, round trips", Protocol::Echo),
        raw("out-download", "outbound, large, to the client", Protocol::Download),
        raw("out-upload", "outbound, large, to the server", Protocol::Upload),
        Case {
            name: "out-connect",
            title: "outbound, a new connection per request",
            entry: Entry::OutHttp,
            new_connection: true,
            ..out
        },
    ]
}

/// Both proxies of a connection in the mesh.
fn pair() -> Vec<Case> {
    let pair = Case { side: Side::Pair, entry: Entry::OutHttp, ..BASE };
    let http1 = |name, title, new_connection| Case { name, title, new_connection, ..pair.clone() };
    let opaque = Case { side: Side::OpaquePair, entry: Entry::OutRaw, ..pair.clone() };
    let raw = |name, title, protocol| Case { name, title, protocol, ..opaque.clone() };
    vec![
        http1("pair-http1", "the pair, HTTP/1.1", false),
        http1("pair-connect", "the pair, a new connection per request", true),
        raw("pair-echo", "the pair, round trips", Protocol::Echo),
        raw("pair-download", "the pair, large, to the client", Protocol::Download),
        raw("pair-upload", "the pair, large, to the application", Protocol::Upload),
    ]
}

impl Case {
    /// The half of the mesh that is measured.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// True if a proxy can do it and is worth the time.
    pub(crate) fn concerns(&self, kind: Kind) -> bool {
        let plain = self.entry == Entry::Http1;
        if self.side != Side::Inbound {
            return matches!(kind, Kind::Portcullis | Kind::Haproxy | Kind::Envoy);
        }
        if self.attacked {
            return matches!(kind, Kind::Portcullis | Kind::Haproxy);
        }
        match kind {
            Kind::Portcullis | Kind::Haproxy => true,
            Kind::Unrecorded => matches!(self.entry, Entry::Routed | Entry::Meshed),
            Kind::Bare => plain && self.rules == 1 && self.workers == 1,
            Kind::Nginx => self.entry != Entry::Raw && self.rules == 1,
            // Without policy it lets through what is to be denied.
            Kind::Envoy => self.rules == 1 && !matches!(self.entry, Entry::Routed | Entry::Meshed),
            Kind::EnvoyRbac => {
                let denied = matches!(self.entry, Entry::Routed | Entry::Meshed);
                self.name == "base" || self.rules > 1 || denied
            }
        }
    }

    /// True if it may be pinned to cores.
    pub(crate) fn may_be_pinned(&self) -> bool {
        !self.name.starts_with("workers")
    }

    /// True if the figure is bytes, so that there is no rate of operations.
    pub(crate) fn is_transfer(&self) -> bool {
        matches!(self.protocol, Protocol::Download | Protocol::Upload)
    }

    /// Operations per second at which latency is measured, where the case says so itself.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.attacked.then_some(MODEST)
    }

    /// Its attackers on a proxy.
    pub(crate) fn attack(&self, ports: &Ports) -> Option<Attack> {
        let Ports { routed: http1, http2, .. } = *ports;
        self.attacked.then_some(Attack { http1, http2, attackers: 20, connections: 50 })
    }

    /// Its load on a proxy.
    pub(crate) fn load(&self, kind: Kind, ports: &Ports, certificates: &Path) -> Load {
        let target = self.target(ports);
        let tls = matches!(self.entry, Entry::Tls1 | Entry::Tls2);
        // Envoy has but one answer to whatever RBAC refuses.
        let expect = match (self.entry, kind) {
            (Entry::Routed, Kind::EnvoyRbac) => 403,
            _ => self.expect,
        };
        let many = matches!(self.protocol, Protocol::Download | Protocol::Upload);
        Load {
            protocol: self.protocol,
            connections: if many || self.attacked { 4 } else { 32 },
            streams: self.streams,
            path: self.path.to_owned(),
            body: self.body,
            expect,
            tls: tls.then(|| certificates.to_owned()),
            new_connection: self.new_connection,
            sources: if self.new_connection { 8 } else { 1 },
            ..Load::to(target)
        }
    }

    fn target(&self, ports: &Ports) -> SocketAddr {
        match self.entry {
            Entry::Http1 => ports.http1,
            Entry::Http2 => ports.http2,
            Entry::Grpc => ports.grpc,
            Entry::Raw => ports.raw,
            Entry::Tls1 => ports.tls1,
            Entry::Tls2 => ports.tls2,
            Entry::Routed => ports.routed,
            Entry::Meshed => ports.meshed,
            Entry::OutHttp => ports.out_http,
            Entry::OutRaw => ports.out_raw,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own_and_is_measured_beside_haproxy() {
        let all = all();
        let names: BTreeSet<_> = all.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all.len());
        for case in all {
            assert!(case.concerns(Kind::Portcullis) && case.concerns(Kind::Haproxy));
        }
    }
}
