//! Envoy: as many worker threads as workers, RBAC if wanted, and what its documentation recommends for
//! measurements ("What are best practices for benchmarking Envoy?"): a release build, no limits of
//! circuit breakers, no request ids, no dynamic statistics of the router.
//!
//! Its statistics otherwise stay, for every proxy here counts what it does.

use super::ports::Ports;
use super::programs::Kind;
use super::proxy::Proxy;
use super::setup::{Setup, Upstreams};
use crate::child::Launch;
use crate::policy::IDENTITY;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// As Envoy's documentation writes that there is no limit.
const UNLIMITED: u32 = 1_000_000_000;

pub(super) fn start(kind: Kind, setup: &Setup<'_>, ports: Ports) -> anyhow::Result<Proxy> {
    let rules = (kind == Kind::EnvoyRbac).then_some(setup.rules);
    run(kind, setup, ports, ("envoy", config(setup, ports, rules)))
}

pub(super) fn outbound(setup: &Setup<'_>, ports: Ports, to: Upstreams) -> anyhow::Result<Proxy> {
    run(Kind::Envoy, setup, ports, ("envoy-out", outbound_config(setup, ports, to)))
}

fn run(
    kind: Kind,
    setup: &Setup<'_>,
    ports: Ports,
    (name, config): (&str, Value),
) -> anyhow::Result<Proxy> {
    let path = setup.folder.join(format!("{name}.json"));
    std::fs::write(&path, config.to_string())?;
    let launch = Launch::new(&setup.programs.envoy)
        .args(["-c".into(), path.into_os_string()])
        .args(["--concurrency".to_owned(), setup.workers.to_string()])
        .args(["--disable-hot-restart", "--log-level", "error"])
        .on(setup.cores);
    let process = launch.logging_to(&setup.folder.join(format!("{name}.log")))?.start()?;
    Ok(Proxy { kind, ports, processes: vec![process], helpers: Vec::new(), admin: None })
}

fn config(setup: &Setup<'_>, ports: Ports, rules: Option<usize>) -> Value {
    let Ports { http1, http2, grpc, raw, tls1, tls2, raw_tls, routed, meshed, .. } = ports;
    let all = rules.map(rbac);
    let caller = json!({"policies": {"caller": {
        "permissions": [{"any": true}], "principals": [{"authenticated": {}}],
    }}});
    let secure = Some(tls(setup));
    json!({"static_resources": {
        "listeners": [
            listener("http1", http1, http("one", all.as_ref()), None),
            listener("http2", http2, http("two", all.as_ref()), None),
            listener("grpc", grpc, http("two", all.as_ref()), None),
            listener("raw", raw, tcp("raw"), None),
            listener("raw_tls", raw_tls, tcp("raw"), secure.clone()),
            listener("tls1", tls1, http("one", all.as_ref()), secure.clone()),
            listener("tls2", tls2, http("two", all.as_ref()), secure),
            listener("routed", routed, http("one", Some(&rbac(1))), None),
            listener("meshed", meshed, http("one", Some(&caller)), None),
        ],
        "clusters": [
            cluster("one", setup.application.http, false),
            cluster("two", setup.application.http, true),
            cluster("raw", setup.application.raw, false),
        ],
    }})
}

/// TCP in, TLS with a client certificate out, without resumption.
fn outbound_config(setup: &Setup<'_>, ports: Ports, to: Upstreams) -> Value {
    let Ports { out_http, out_raw, .. } = ports;
    let secure = |name: &str, address| {
        let mut cluster = cluster(name, address, false);
        if let Some(cluster) = cluster.as_object_mut() {
            cluster.insert("transport_socket".to_owned(), client_tls(setup));
        }
        cluster
    };
    json!({"static_resources": {
        "listeners": [
            listener("http", out_http, tcp("http"), None),
            listener("raw", out_raw, tcp("raw"), None),
        ],
        "clusters": [secure("http", to.http), secure("raw", to.raw)],
    }})
}

fn tcp(cluster: &str) -> Value {
    json!({"name": "tcp", "typed_config": {
        "@type": typed("filters.network.tcp_proxy.v3.TcpProxy"),
        "stat_prefix": cluster, "cluster": cluster, "idle_timeout": "0s",
    }})
}

fn typed(name: &str) -> String {
    format!("type.googleapis.com/envoy.extensions.{name}")
}

fn place(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

fn listener(name: &str, address: SocketAddr, filter: Value, secure: Option<Value>) -> Value {
    let mut chain = json!({"filters": [filter]});
    if let (Some(secure), Some(chain)) = (secure, chain.as_object_mut()) {
        chain.insert("transport_socket".to_owned(), secure);
    }
    json!({"name": name, "address": place(address), "filter_chains": [chain]})
}

fn http(cluster: &str, rules: Option<&Value>) -> Value {
    let mut filters: Vec<Value> = Vec::new();
    filters.extend(rules.map(|rules| {
        json!({"name": "envoy.filters.http.rbac", "typed_config": {
            "@type": typed("filters.http.rbac.v3.RBAC"), "rules": rules,
        }})
    }));
    filters.push(json!({"name": "envoy.filters.http.router", "typed_config": {
        "@type": typed("filters.http.router.v3.Router"), "dynamic_stats": false,
    }}));
    json!({"name": "http", "typed_config": {
        "@type": typed("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "in", "codec_type": "AUTO",
        "common_http_protocol_options": {"idle_timeout": "3600s"},
        "stream_idle_timeout": "0s", "generate_request_id": false,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}},
        ]}]},
        "http_filters": filters,
    }})
}

/// Rules of which the last one lets requests through.
fn rbac(rules: usize) -> Value {
    let anybody = json!([{"remote_ip": {"address_prefix": "127.0.0.0", "prefix_len": 8}}]);
    let rule = |path: &str| {
        json!({
            "permissions": [{"url_path": {"path": {"prefix": path}}}], "principals": anybody,
        })
    };
    let others = (0..rules.saturating_sub(1))
        .map(|number| (format!("r{number}"), rule(&format!("/svc{number}/"))));
    let policies: serde_json::Map<String, Value> =
        others.chain([("zlast".to_owned(), rule("/zz"))]).collect();
    json!({"action": "ALLOW", "policies": policies})
}

fn tls(setup: &Setup<'_>) -> Value {
    let file = |name: &str| json!({"filename": setup.certificates.join(name)});
    json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": typed("transport_sockets.tls.v3.DownstreamTlsContext"),
        "require_client_certificate": true,
        "disable_stateless_session_resumption": true,
        "disable_stateful_session_resumption": true,
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": {
                "tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3",
                "ecdh_curves": ["X25519"],
            },
            "tls_certificates": [
                {"certificate_chain": file("server.crt"), "private_key": file("server.key")},
            ],
            "validation_context": {"trusted_ca": file("ca.crt")},
        },
    }})
}

fn client_tls(setup: &Setup<'_>) -> Value {
    let file = |name: &str| json!({"filename": setup.certificates.join(name)});
    json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": typed("transport_sockets.tls.v3.UpstreamTlsContext"),
        "sni": IDENTITY, "max_session_keys": 0,
        "common_tls_context": {
            "tls_params": {
                "tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3",
                "ecdh_curves": ["X25519"],
            },
            "tls_certificates": [
                {"certificate_chain": file("client.crt"), "private_key": file("client.key")},
            ],
            "validation_context": {
                "trusted_ca": file("ca.crt"),
                "match_typed_subject_alt_names": [
                    {"san_type": "DNS", "matcher": {"exact": IDENTITY}},
                ],
            },
        },
    }})
}

fn cluster(name: &str, address: SocketAddr, http2: bool) -> Value {
    let unlimited = |priority: &str| {
        json!({
            "priority": priority, "max_connections": UNLIMITED, "max_pending_requests": UNLIMITED,
            "max_requests": UNLIMITED, "max_retries": UNLIMITED,
        })
    };
    let mut cluster = json!({
        "name": name, "type": "STATIC", "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [unlimited("DEFAULT"), unlimited("HIGH")]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": place(address)}},
        ]}]},
    });
    if let (true, Some(cluster)) = (http2, cluster.as_object_mut()) {
        let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        cluster.insert(
            "typed_extension_protocol_options".to_owned(),
            json!({options: {
                "@type": typed("upstreams.http.v3.HttpProtocolOptions"),
                "explicit_http_config": {"http2_protocol_options": {}},
            }}),
        );
    }
    cluster
}
