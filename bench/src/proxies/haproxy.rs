//! HAProxy: one process, as many threads as workers, connections to the application reused. In front of
//! clients it carries bytes, and makes a full handshake for every connection.

use super::ports::Ports;
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::{Setup, Upstreams};
use crate::child::Launch;
use crate::policy::IDENTITY;

pub(super) fn start(setup: &Setup<'_>, ports: Ports) -> anyhow::Result<Proxy> {
    run(setup, ports, "haproxy", &config(setup, ports))
}

pub(super) fn outbound(setup: &Setup<'_>, ports: Ports, to: Upstreams) -> anyhow::Result<Proxy> {
    run(setup, ports, "haproxy-out", &outbound_config(setup, ports, to))
}

fn run(setup: &Setup<'_>, ports: Ports, name: &str, config: &str) -> anyhow::Result<Proxy> {
    let path = setup.folder.join(format!("{name}.cfg"));
    std::fs::write(&path, config)?;
    let launch = Launch::new("haproxy").args(["-f".into(), path.into_os_string()]).on(setup.cores);
    let process = launch.logging_to(&setup.folder.join(format!("{name}.log")))?.start()?;
    Ok(Proxy {
        kind: Kind::Haproxy,
        ports,
        processes: vec![process],
        helpers: Vec::new(),
        admin: None,
    })
}

fn config(setup: &Setup<'_>, ports: Ports) -> String {
    let Ports { http1, http2, grpc, raw, tls1, tls2, raw_tls, routed, meshed, .. } = ports;
    let (http, bytes) = (setup.application.http, setup.application.raw);
    let folder = setup.certificates.display();
    let tls = format!(
        "ssl crt {folder}/server.pem ca-file {folder}/ca.crt verify required curves X25519 \
         ciphersuites TLS_AES_128_GCM_SHA256 ssl-min-ver TLSv1.3 no-tls-tickets"
    );
    let workers = setup.workers;
    format!(
        "global\n  nbthread {workers}\n  maxconn 9300\n  maxpipes 200\n  tune.ssl.cachesize 0\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         frontend http1\n  bind {http1}\n  default_backend one\n\
         frontend tls1\n  bind {tls1} {tls} alpn http/1.1\n  default_backend one\n\
         frontend http2\n  bind {http2} proto h2\n  bind {grpc} proto h2\n  default_backend two\n\
         frontend tls2\n  bind {tls2} {tls} alpn h2\n  default_backend two\n\
         frontend routed\n  bind {routed}\n  \
         http-request deny deny_status 404 unless {{ path_beg /zz/ }}\n  default_backend one\n\
         frontend meshed\n  bind {meshed}\n  \
         http-request deny deny_status 403 unless {{ ssl_c_used }}\n  default_backend one\n\
         backend one\n  http-reuse always\n  server a {http}\n\
         backend two\n  http-reuse always\n  server a {http} proto h2\n\
         listen raw\n  mode tcp\n  option splice-auto\n  bind {raw}\n  server a {bytes}\n\
         listen rawtls\n  mode tcp\n  bind {raw_tls} {tls}\n  server a {bytes}\n"
    )
}

/// TCP in, TLS with a client certificate out. The server chooses the group of the key exchange.
fn outbound_config(setup: &Setup<'_>, ports: Ports, to: Upstreams) -> String {
    let Ports { out_http, out_raw, .. } = ports;
    let Upstreams { http, raw } = to;
    let folder = setup.certificates.display();
    let tls = format!(
        "ssl crt {folder}/client.pem ca-file {folder}/ca.crt verify required verifyhost {IDENTITY} \
         sni str({IDENTITY}) ciphersuites TLS_AES_128_GCM_SHA256 ssl-min-ver TLSv1.3 no-ssl-reuse \
         no-tls-tickets"
    );
    let workers = setup.workers;
    format!(
        "global\n  nbthread {workers}\n  maxconn 9300\n  tune.ssl.cachesize 0\n\
         defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         listen http\n  bind {out_http}\n  server a {http} {tls}\n\
         listen raw\n  bind {out_raw}\n  server a {raw} {tls}\n"
    )
}
