//! Ours: the shipped program, with its policy from the shipped controller.

use super::ports::{Ports, free};
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::{PATIENCE, Setup};
use crate::child::Launch;
use crate::policy::{self, Controller};
use anyhow::bail;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub(super) fn start(setup: &Setup<'_>, mut ports: Ports) -> anyhow::Result<Proxy> {
    let manifests = policy::manifests(setup.rules);
    let controller =
        Controller::start(&setup.programs.controller, &setup.folder.join("manifests"), &manifests)?;
    let (http, raw) = setup.application;
    // A connection says by itself whether it is TLS, and the path of a request whether it is let
    // through.
    ports.tls1 = ports.http1;
    ports.tls2 = ports.http2;
    ports.routed = ports.http1;
    let forwards = [
        (ports.http1, policy::HTTP1, http),
        (ports.http2, policy::HTTP2, http),
        (ports.grpc, policy::GRPC, http),
        (ports.raw, policy::RAW, raw),
        (ports.meshed, policy::MESHED, http),
    ];
    let forwards = forwards.map(|(listen, port, to)| format!("{listen},{port},{to}")).join(" ");
    let admin = free()?;
    let file = |name: &str| setup.certificates.join(name).display().to_string();
    let launch = Launch::new(&setup.programs.proxy)
        .args(["run", "--workload", policy::WORKLOAD, "--policy-addr"])
        .args([controller.grpc.to_string(), "--forward".to_owned(), forwards])
        .args(["--admin".to_owned(), admin.to_string(), "--admin-metrics=local".to_owned()])
        .args(["--workers".to_owned(), setup.workers.to_string()])
        .args(["--identity=files".to_owned(), format!("--identity-cert={}", file("server.crt"))])
        .args([format!("--identity-key={}", file("server.key"))])
        .args([format!("--identity-roots={}", file("ca.crt"))])
        .args([format!("--identity-name={}", policy::IDENTITY)])
        .on(setup.cores)
        .logging_to(&setup.folder.join("portcullis.log"))?;
    let mut process = launch.start()?;
    let began = Instant::now();
    while !is_ready(admin) {
        process.check()?;
        if began.elapsed() > PATIENCE {
            bail!("the proxy does not become ready");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let processes = vec![process, controller.process];
    Ok(Proxy { kind: Kind::Portcullis, ports, processes, admin: Some(admin) })
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
