//! Benchmarks of detecting a ClientHello and of parsing a request head.
//!
//! `bench/functions` runs it; `cargo bench -p policy-proxy` measures time alone.

#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use policy_http::http1::request_decode::{Bounds, parse};
use policy_measure::Function;
use policy_proxy::sidecar::client_hello::scan;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::Arc;

/// The ClientHello of a meshed client.
fn hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the versions are the provider's own")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "web.shop.serviceaccount.identity.linkerd.cluster.local";
    let name = ServerName::try_from(name).expect("it is a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("the name is valid");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("memory takes it");
    bytes
}

/// The request head of a browser, with a dozen fields.
const HEAD: &[u8] = b"GET /api/v1/items/17?q=1 HTTP/1.1\r\n\
    host: web.example.com:8080\r\n\
    user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n\
    accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n\
    accept-language: en-US,en;q=0.5\r\n\
    accept-encoding: gzip, deflate, br\r\n\
    cookie: session=0123456789abcdef0123456789abcdef\r\n\
    referer: https://web.example.com/items\r\n\
    cache-control: no-cache\r\n\
    x-request-id: 4be1b0c0-3f43-4ad7-bd3c-1c7d9e4c9f0a\r\n\
    x-forwarded-for: 10.1.2.3\r\n\
    x-forwarded-proto: https\r\n\
    \r\n";

/// The request head of the load generator.
const SMALL: &[u8] = b"GET / HTTP/1.1\r\nhost: web\r\n\r\n";

fn head(name: &str, bytes: &'static [u8]) -> Function {
    let bounds = Bounds { fields: 100, bytes: 64 * 1024 };
    Function::shared(name, move || bytes, move |bytes| parse(bytes, 0, bounds))
}

fn main() {
    policy_measure::main(vec![
        Function::shared("client-hello", hello, |bytes| scan(bytes)),
        head("http1-request-head-1-field", SMALL),
        head("http1-request-head-12-fields", HEAD),
    ]);
}
