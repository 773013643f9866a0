//! Ours: the shipped program, with its policy from the shipped controller.

use super::ports::{Ports, free};
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::{PATIENCE, Setup, Side, Upstreams};
use crate::certificates;
use crate::child::Launch;
use crate::policy::{self, Controller};
use anyhow::bail;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(super) fn start(kind: Kind, setup: &Setup<'_>, mut ports: Ports) -> anyhow::Result<Proxy> {
    let manifests = policy::manifests(setup.rules);
    let controller =
        Controller::start(&setup.programs.controller, &setup.folder.join("manifests"), &manifests)?;
    let (http, raw) = (setup.application.http, setup.application.raw);
    // A connection says by itself whether it is TLS, and the path of a request whether it is let
    // through.
    ports.tls1 = ports.http1;
    ports.tls2 = ports.http2;
    ports.raw_tls = ports.raw;
    ports.routed = ports.http1;
    let forwards = [
        (ports.http1, policy::HTTP1, http),
        (ports.http2, policy::HTTP2, http),
        (ports.grpc, policy::GRPC, http),
        (ports.raw, policy::RAW, raw),
        (ports.meshed, policy::MESHED, http),
    ];
    let forwards = forwards.map(|(listen, port, to)| format!("{listen},{port},{to}")).join(" ");
    let server = Own {
        kind,
        name: "portcullis",
        workload: policy::WORKLOAD,
        certificate: "server",
        identity: policy::IDENTITY,
        listeners: ["--forward".to_owned(), forwards],
    };
    run(setup, ports, controller, &server)
}

/// The sidecar of a pod with an opaque port, which is reached by the sidecar's own port.
pub(super) fn opaque(setup: &Setup<'_>, mut ports: Ports) -> anyhow::Result<Proxy> {
    let (http, raw) = (setup.application.http, setup.application.raw);
    let manifests = policy::destinations(http, raw, Some(ports.http1.port()));
    let folder = setup.folder.join("manifests");
    let controller = Controller::start(&setup.programs.controller, &folder, &manifests)?;
    // Endpoints are at the application's own ports.
    (ports.tls1, ports.raw_tls) = (http, raw);
    let server = Own {
        kind: Kind::Portcullis,
        name: "portcullis",
        workload: policy::WORKLOAD,
        certificate: "server",
        identity: policy::IDENTITY,
        listeners: ["--listen".to_owned(), ports.http1.to_string()],
    };
    run(setup, ports, controller, &server)
}

/// The sidecar of a client, whose controller says what two Services are: the addresses `to`, of a pod
/// in the mesh.
pub(super) fn outbound(setup: &Setup<'_>, ports: Ports, to: Upstreams) -> anyhow::Result<Proxy> {
    let sidecar = (setup.side == Side::OpaquePair).then(|| ports.http1.port());
    let manifests = policy::destinations(to.http, to.raw, sidecar);
    let folder = setup.folder.join("destinations");
    let controller = Controller::start(&setup.programs.controller, &folder, &manifests)?;
    let [http, raw] = policy::SERVICES;
    let forwards = format!("{},{http} {},{raw}", ports.out_http, ports.out_raw);
    let client = Own {
        kind: Kind::Portcullis,
        name: "portcullis-out",
        workload: policy::CLIENT,
        certificate: "client",
        identity: certificates::CLIENT,
        listeners: ["--outbound-forward".to_owned(), forwards],
    };
    run(setup, ports, controller, &client)
}

/// One of ours: its log, its workload, its certificate and identity, its listeners.
struct Own {
    kind: Kind,
    name: &'static str,
    workload: &'static str,
    certificate: &'static str,
    identity: &'static str,
    listeners: [String; 2],
}

fn run(
    setup: &Setup<'_>,
    ports: Ports,
    controller: Controller,
    own: &Own,
) -> anyhow::Result<Proxy> {
    let admin = free()?;
    let file = |name: &str| setup.certificates.join(name).display().to_string();
    let certificate = own.certificate;
    let unrecorded = (own.kind == Kind::Unrecorded).then(|| "--decisions=off".to_owned());
    let launch = Launch::new(&setup.programs.proxy)
        .args(["run", "--workload", own.workload, "--policy-addr", &controller.grpc.to_string()])
        .args(own.listeners.clone())
        .args(["--admin".to_owned(), admin.to_string(), "--admin-metrics=local".to_owned()])
        .args(["--workers".to_owned(), setup.workers.to_string()])
        .args(["--identity=files".to_owned()])
        .args([format!("--identity-cert={}", file(&format!("{certificate}.crt")))])
        .args([format!("--identity-key={}", file(&format!("{certificate}.key")))])
        .args([format!("--identity-roots={}", file("ca.crt"))])
        .args([format!("--identity-name={}", own.identity)])
        .args(unrecorded)
        .on(setup.cores)
        .logging_to(&setup.folder.join(format!("{}.log", own.name)))?;
    let mut process = launch.start()?;
    let began = Instant::now();
    while !is_ready(admin) {
        process.check()?;
        if began.elapsed() > PATIENCE {
            bail!("the proxy does not become ready");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (processes, helpers) = (vec![process], vec![controller.process]);
    Ok(Proxy { kind: own.kind, ports, processes, helpers, admin: Some(admin) })
}

fn is_ready(admin: SocketAddr) -> bool {
    get(admin, "/ready").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn get(admin: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Of the metrics served at an address: how many series there are, and the sum of those whose name
/// is `name`.
pub fn metric(admin: SocketAddr, name: &str) -> anyhow::Result<(usize, f64)> {
    let text = get(admin, "/metrics")?;
    let series = text.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    let (mut count, mut sum) = (0, 0.0);
    for line in series.skip_while(|line| line.starts_with("HTTP/") || line.contains(": ")) {
        count += 1;
        let of = line.split(['{', ' ']).next().unwrap_or_default();
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        if of == name {
            sum += value.unwrap_or(0.0);
        }
    }
    Ok((count, sum))
}
