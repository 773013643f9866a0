//! HAProxy: one process, as many threads as workers, connections to the application reused.

use super::ports::Ports;
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::Setup;
use crate::child::Launch;

pub(super) fn start(setup: &Setup<'_>, ports: Ports) -> anyhow::Result<Proxy> {
    let path = setup.folder.join("haproxy.cfg");
    std::fs::write(&path, config(setup, ports))?;
    let launch = Launch::new("haproxy").args(["-f".into(), path.into_os_string()]).on(setup.cores);
    let process = launch.logging_to(&setup.folder.join("haproxy.log"))?.start()?;
    Ok(Proxy { kind: Kind::Haproxy, ports, processes: vec![process], admin: None })
}

fn config(setup: &Setup<'_>, ports: Ports) -> String {
    let Ports { http1, http2, grpc, raw, tls1, tls2, routed, meshed } = ports;
    let (http, bytes) = setup.application;
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
         listen raw\n  mode tcp\n  option splice-auto\n  bind {raw}\n  server a {bytes}\n"
    )
}
