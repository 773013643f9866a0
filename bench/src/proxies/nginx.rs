//! nginx: a worker process per worker, connections to the application kept.
//!
//! It speaks HTTP/1.1 to the application unless a call is gRPC, whatever the client speaks. Raw TCP
//! is a module of its own, which is not measured.

use super::ports::Ports;
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::Setup;
use crate::child::Launch;

pub(super) fn start(setup: &Setup<'_>, ports: Ports) -> anyhow::Result<Proxy> {
    let path = setup.folder.join("nginx.conf");
    std::fs::write(&path, config(setup, ports))?;
    let launch = Launch::new("nginx")
        .args(["-p".into(), setup.folder.clone().into_os_string()])
        .args(["-c".into(), path.into_os_string()])
        .on(setup.cores);
    let process = launch.logging_to(&setup.folder.join("nginx.log"))?.start()?;
    Ok(Proxy {
        kind: Kind::Nginx,
        ports,
        processes: vec![process],
        helpers: Vec::new(),
        admin: None,
    })
}

fn config(setup: &Setup<'_>, ports: Ports) -> String {
    let Ports { http1, http2, grpc, tls1, tls2, routed, meshed, .. } = ports;
    let application = setup.application.http;
    let folder = setup.certificates.display();
    let tls = format!(
        "ssl_certificate {folder}/server.crt; ssl_certificate_key {folder}/server.key; \
         ssl_client_certificate {folder}/ca.crt; ssl_verify_client on; ssl_protocols TLSv1.3; \
         ssl_ecdh_curve X25519; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; \
         ssl_session_cache off; ssl_session_tickets off;"
    );
    let forward = "location / { proxy_pass http://application; }";
    let workers = setup.workers;
    format!(
        "worker_processes {workers}; worker_rlimit_nofile 20000; daemon off; pid nginx.pid;\n\
         error_log stderr error;\n\
         events {{ worker_connections 19000; }}\n\
         http {{\n\
         access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;\n\
         client_max_body_size 0; client_body_buffer_size 2m; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_set_header Host $host;\n\
         upstream application {{ server {application}; keepalive 256; \
         keepalive_requests 1000000000; }}\n\
         server {{ listen {http1}; {forward} }}\n\
         server {{ listen {http2} http2; {forward} }}\n\
         server {{ listen {grpc} http2; location / {{ grpc_pass grpc://application; }} }}\n\
         server {{ listen {tls1} ssl; {tls} {forward} }}\n\
         server {{ listen {tls2} ssl http2; {tls} {forward} }}\n\
         server {{ listen {routed}; location /zz/ {{ proxy_pass http://application; }} \
         location / {{ return 404; }} }}\n\
         server {{ listen {meshed}; if ($ssl_client_verify != SUCCESS) {{ return 403; }} \
         {forward} }}\n}}\n"
    )
}
