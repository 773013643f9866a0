//! Tests of precedence and errors of settings.

use super::*;
use crate::args::{LogArgs, SidecarArgs};
use policy_core::{DefaultPolicy, Owner, PodPart};
use policy_enforce::record::{DecisionMode, OutboundRefusal};
use policy_enforce::respond::RefusalDetail;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{AgentAddress, CertifyConfig, Roots, SpiffeConfig, TrustAnchors};
use std::collections::HashMap;
use std::ffi::OsString;
use std::time::Duration;

fn from(variables: &[(&str, &str)], args: RunArgs) -> Result<Config, ConfigError> {
    let map: HashMap<String, OsString> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
    read(&args, &|name| map.get(name).cloned())
}

const LINKERD: [(&str, &str); 4] = [
    ("LINKERD2_PROXY_POLICY_SVC_ADDR", "localhost.:8090"),
    ("LINKERD2_PROXY_POLICY_WORKLOAD", r#"{"ns":"emojivoto","pod":"web-0"}"#),
    ("LINKERD2_PROXY_INBOUND_PORTS", "80,8080"),
    ("PORTCULLIS_IDENTITY", "none"),
];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    LINKERD.iter().copied().chain(more.iter().copied()).collect()
}

fn error(variables: &[(&str, &str)]) -> String {
    from(&with(variables), RunArgs::default()).unwrap_err().to_string()
}

#[test]
fn linkerds_variables_are_understood() {
    let config = from(
        &with(&[
            ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "[::]:4143"),
            ("LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT", "3s"),
            ("LINKERD2_PROXY_INBOUND_IPS", "10.1.2.3"),
            ("LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS", "10.0.0.0/8,fd00::/8"),
            ("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "5s"),
            ("LINKERD2_PROXY_CORES", "2"),
        ]),
        RunArgs::default(),
    )
    .unwrap();
    assert!(config.discover.controller.is_loopback());
    let ports: Vec<u16> = config.discover.declared.iter().map(|port| port.get()).collect();
    assert_eq!(ports, [80, 4191, 8080], "the admin port is watched too");
    assert_eq!(config.sidecar.listeners[0].address, "[::]:4143".parse().unwrap());
    assert_eq!(config.sidecar.timeouts.detect, Duration::from_secs(3));
    assert_eq!(config.sidecar.timeouts.grace, Duration::from_secs(5));
    assert_eq!(config.sidecar.workers.get(), 2);
    assert_eq!(config.store.facts.cluster.len(), 2);
    assert_eq!(config.store.facts.pod_addresses, config.sidecar.pod_addresses);
    assert_eq!(config.store.pending, None, "nothing is decided before policy arrives");
    assert_eq!(config.identity, None);
}

#[test]
fn flags_come_before_our_variables_and_those_before_linkerds() {
    let variables = with(&[
        ("LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT", "1s"),
        ("PORTCULLIS_CONNECT_TIMEOUT", "2s"),
        ("LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT", "4s"),
        ("PORTCULLIS_DETECT_TIMEOUT", "5s"),
    ]);
    let sidecar = SidecarArgs { connect_timeout: Some("3s".to_owned()), ..SidecarArgs::default() };
    let args = RunArgs { sidecar, ..RunArgs::default() };
    let timeouts = from(&variables, args).unwrap().sidecar.timeouts;
    assert_eq!(timeouts.connect, Duration::from_secs(3));
    assert_eq!(timeouts.detect, Duration::from_secs(5));
}

#[test]
fn errors_name_the_setting_its_value_and_what_is_allowed() {
    let said = error(&[("LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT", "10x")]);
    assert_eq!(
        said,
        "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT: `10x`: expected a whole number with ms, s, m, h or d"
    );
    let said = error(&[("LINKERD2_PROXY_INBOUND_IPS", "")]);
    assert!(said.starts_with("LINKERD2_PROXY_INBOUND_IPS: ``"), "{said}");
    let said = error(&[("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "allow")]);
    assert!(said.contains("all-unauthenticated"), "{said}");
}

#[test]
fn refusals_tell_their_reason_unless_the_setting_says_otherwise() {
    let detail = |variables: &[(&str, &str)]| {
        from(&with(variables), RunArgs::default()).unwrap().sidecar.refusal_detail
    };
    assert_eq!(detail(&[]), RefusalDetail::Reason);
    assert_eq!(detail(&[("PORTCULLIS_REFUSAL_DETAIL", "status")]), RefusalDetail::Status);
    let said = error(&[("PORTCULLIS_REFUSAL_DETAIL", "nothing")]);
    assert_eq!(said, "PORTCULLIS_REFUSAL_DETAIL: `nothing`: expected reason or status");
}

#[test]
fn decisions_are_recorded_under_the_pods_uid_unless_the_setting_says_otherwise() {
    let mode = |variables: &[(&str, &str)]| {
        let sidecar = from(&with(variables), RunArgs::default()).unwrap().sidecar;
        sidecar.notices.decisions().unwrap().mode()
    };
    assert_eq!(mode(&[]), DecisionMode::Full);
    assert_eq!(mode(&[("PORTCULLIS_DECISIONS", "counts")]), DecisionMode::Counts);
    assert_eq!(mode(&[("PORTCULLIS_DECISIONS", "off")]), DecisionMode::Off);
    let said = error(&[("PORTCULLIS_DECISIONS", "on")]);
    assert_eq!(said, "PORTCULLIS_DECISIONS: `on`: expected off, counts or full");
    let pod = |variables: &[(&str, &str)]| {
        let sidecar = from(&with(variables), RunArgs::default()).unwrap().sidecar;
        let refused = OutboundRefusal { service: None, address: None, reason: "connect" };
        let decisions = sidecar.notices.decisions().cloned().unwrap();
        decisions.outbound(&refused, std::time::Instant::now()).unwrap().pod()
    };
    let uid = "9f3c4b1e-0000-4000-8000-000000000000";
    assert_eq!(pod(&[("PORTCULLIS_POD_UID", uid)]), PodPart::of(uid));
}

#[test]
fn every_error_is_reported_at_once() {
    let said = from(&[("PORTCULLIS_WORKERS", "0")], RunArgs::default()).unwrap_err();
    let text = said.to_string();
    for part in ["--policy-addr", "--workload", "PORTCULLIS_WORKERS", "--identity-cert"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_remote_controller_must_have_an_identity() {
    let said = error(&[("PORTCULLIS_POLICY_ADDR", "policy.linkerd.svc.cluster.local:8090")]);
    assert!(said.contains("the identity of its server must be given"), "{said}");
    let remote = [
        ("PORTCULLIS_POLICY_ADDR", "policy.linkerd.svc.cluster.local:8090"),
        ("PORTCULLIS_POLICY_NAME", "policy.linkerd.serviceaccount.identity.linkerd.cluster.local"),
        ("LINKERD2_PROXY_CONTROL_STREAM_IDLE_TIMEOUT", "5m"),
        ("LINKERD2_PROXY_CONTROL_STREAM_LIFETIME", ""),
    ];
    let discover = from(&with(&remote), RunArgs::default()).unwrap().discover;
    assert!(!discover.controller.is_loopback());
    assert_eq!(discover.idle_timeout, Some(Duration::from_secs(300)));
    assert_eq!(discover.lifetime, None, "empty is unset");
}

#[test]
fn the_default_policy_decides_only_when_asked_to() {
    let default = ("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "cluster-authenticated");
    let waiting = from(&with(&[default]), RunArgs::default()).unwrap();
    assert_eq!(waiting.store.pending, None);
    let requested = with(&[default, ("PORTCULLIS_PENDING_POLICY", "default")]);
    let pending = from(&requested, RunArgs::default()).unwrap().store.pending.unwrap();
    assert_eq!(pending.owner, Owner::Default(DefaultPolicy::ClusterAuthenticated));
    let opaque = [("LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", "25,3306-3307")];
    let opaque = from(&with(&opaque), RunArgs::default()).unwrap().store.pending_opaque;
    assert_eq!(opaque.iter().map(|port| port.get()).collect::<Vec<_>>(), [25, 3306, 3307]);
}

#[test]
fn a_default_policy_that_decides_is_never_guessed() {
    let errors = from(&with(&[("PORTCULLIS_PENDING_POLICY", "default")]), RunArgs::default());
    let errors = errors.unwrap_err().0;
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    let expected = "--default-policy: must be given with --pending-policy=default, as one of ";
    assert!(error.starts_with(expected) && error.contains("cluster-authenticated"), "{error}");
}

#[test]
fn the_log_settings_are_read_on_their_own() {
    let settings = log(&RunArgs::default(), &|name| {
        (name == "LINKERD2_PROXY_LOG_FORMAT").then(|| OsString::from("JSON"))
    });
    assert_eq!(settings, Ok(LogConfig { filter: "info".to_owned(), json: true }));
    let wrong = LogArgs { log_format: Some("xml".to_owned()), ..LogArgs::default() };
    assert!(log(&RunArgs { log: wrong, ..RunArgs::default() }, &|_| None).is_err());
}

fn identity(variables: &[(&str, &str)]) -> Option<IdentityConfig> {
    let variables: Vec<_> = LINKERD[..3].iter().chain(variables).copied().collect();
    from(&variables, RunArgs::default()).unwrap().identity
}

fn identity_error(variables: &[(&str, &str)]) -> String {
    let variables: Vec<_> = LINKERD[..3].iter().chain(variables).copied().collect();
    from(&variables, RunArgs::default()).unwrap_err().to_string()
}

const LOCAL: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";

#[test]
fn linkerds_variables_make_a_client_of_its_issuer() {
    let config = identity(&[
        (
            "LINKERD2_PROXY_IDENTITY_SVC_ADDR",
            "linkerd-identity-headless.linkerd.svc.cluster.local.:8080",
        ),
        (
            "LINKERD2_PROXY_IDENTITY_SVC_NAME",
            "linkerd-identity.linkerd.serviceaccount.identity.linkerd.cluster.local",
        ),
        ("LINKERD2_PROXY_IDENTITY_DIR", "/var/run/linkerd/identity/end-entity"),
        ("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", "PEM"),
        ("LINKERD2_PROXY_IDENTITY_LOCAL_NAME", LOCAL),
        ("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", "/var/run/secrets/tokens/linkerd-identity-token"),
        ("LINKERD2_PROXY_IDENTITY_MIN_REFRESH", "20s"),
        ("LINKERD2_PROXY_IDENTITY_MAX_REFRESH", "2h"),
    ]);
    let Some(IdentityConfig::Certify(config)) = config else { panic!("{config:?}") };
    assert!(!config.issuer.is_loopback());
    let token = "/var/run/secrets/tokens/linkerd-identity-token".into();
    let roots = TrustAnchors::Trusted(Roots::Text("PEM".to_owned()));
    let mut expected = CertifyConfig::new(config.issuer.clone(), LOCAL, token, roots);
    expected.folder = Some("/var/run/linkerd/identity/end-entity".into());
    expected.refresh = (Duration::from_secs(20), Duration::from_secs(7200));
    assert_eq!(config, expected);
}

#[test]
fn our_variables_make_a_client_of_our_issuer() {
    let config = identity(&[
        ("PORTCULLIS_IDENTITY", "certify"),
        ("PORTCULLIS_IDENTITY_ADDR", "localhost.:8080"),
        ("PORTCULLIS_IDENTITY_NAME", LOCAL),
        ("PORTCULLIS_IDENTITY_TOKEN", "/var/run/secrets/portcullis/token"),
        ("PORTCULLIS_IDENTITY_ROOTS", "/var/run/portcullis/roots/ca-bundle.crt"),
    ]);
    let issuer = ControllerAddress::parse("localhost.:8080", None).unwrap();
    let roots =
        TrustAnchors::Trusted(Roots::File("/var/run/portcullis/roots/ca-bundle.crt".into()));
    let token = "/var/run/secrets/portcullis/token".into();
    let expected = CertifyConfig::new(issuer, LOCAL, token, roots);
    assert_eq!(config, Some(IdentityConfig::Certify(expected)));
}

#[test]
fn an_agents_socket_makes_a_client_of_the_workload_api() {
    let config = identity(&[
        ("LINKERD2_PROXY_IDENTITY_SPIRE_WORKLOAD_API_ADDRESS", "unix:///run/spire/agent.sock"),
        ("LINKERD2_PROXY_IDENTITY_SERVER_ID", "spiffe://cluster.local/ns/shop/sa/web"),
        ("LINKERD2_PROXY_IDENTITY_SERVER_NAME", "web.shop.example"),
        ("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", "the agent says the roots"),
        ("LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MIN", "50ms"),
        ("LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MAX", "2s"),
    ]);
    let agent = || AgentAddress::parse("/run/spire/agent.sock").unwrap();
    let id = Some("spiffe://cluster.local/ns/shop/sa/web");
    let mut expected = SpiffeConfig::new(agent(), id, "web.shop.example");
    expected.backoff = (Duration::from_millis(50), Duration::from_secs(2));
    assert_eq!(config, Some(IdentityConfig::Spiffe(expected)));
    let standard = identity(&[
        ("PORTCULLIS_IDENTITY", "spiffe"),
        ("SPIFFE_ENDPOINT_SOCKET", "unix:///run/spire/agent.sock"),
        ("PORTCULLIS_IDENTITY_NAME", "web.shop.example"),
    ]);
    let expected = SpiffeConfig::new(agent(), None, "web.shop.example");
    assert_eq!(standard, Some(IdentityConfig::Spiffe(expected)));
}

#[test]
fn what_is_wrong_with_an_identity_is_named() {
    let issuer = ("PORTCULLIS_IDENTITY_ADDR", "issuer.portcullis.svc:8080");
    let said = identity_error(&[issuer]);
    for part in
        ["--identity-token", "--identity-name", "--identity-roots", "--identity-service-name"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let rest = [
        ("PORTCULLIS_IDENTITY_ADDR", "127.0.0.1:8080"),
        ("PORTCULLIS_IDENTITY_TOKEN", "/token"),
        ("PORTCULLIS_IDENTITY_ROOTS", "/roots"),
    ];
    let with = |more: &[(&'static str, &'static str)]| identity_error(&[&rest[..], more].concat());
    let said = with(&[("PORTCULLIS_IDENTITY_NAME", "web..example")]);
    assert_eq!(said, "PORTCULLIS_IDENTITY_NAME: `web..example`: expected a DNS name");
    let name = ("PORTCULLIS_IDENTITY_NAME", "web.example");
    let said = with(&[name, ("LINKERD2_PROXY_IDENTITY_SERVER_ID", "spiffe://td/web")]);
    assert!(
        said.starts_with("LINKERD2_PROXY_IDENTITY_SERVER_ID: `spiffe://td/web`: expected"),
        "{said}"
    );
    let said = with(&[name, ("PORTCULLIS_IDENTITY_MIN_REFRESH", "2d")]);
    assert!(said.starts_with("--identity-min-refresh: "), "{said}");
    let said = with(&[name, ("PORTCULLIS_IDENTITY_MAX_REFRESH", "often")]);
    assert!(said.starts_with("PORTCULLIS_IDENTITY_MAX_REFRESH: `often`: expected"), "{said}");
    let said = with(&[name, ("LINKERD2_PROXY_IDENTITY_DISABLED", "1")]);
    assert!(said.contains("--identity=none"), "{said}");
    let spiffe = [("PORTCULLIS_IDENTITY", "spiffe"), ("PORTCULLIS_IDENTITY_NAME", "web.example")];
    let said = identity_error(&spiffe);
    assert!(said.contains("--identity-spiffe-socket: must be given"), "{said}");
    let socket = ("SPIFFE_ENDPOINT_SOCKET", "tcp://127.0.0.1:80");
    let said = identity_error(&[&spiffe[..], &[socket]].concat());
    assert!(said.starts_with("SPIFFE_ENDPOINT_SOCKET: `tcp://127.0.0.1:80`: expected"), "{said}");
    let said = identity_error(&[("PORTCULLIS_IDENTITY", "vault")]);
    let expected = "PORTCULLIS_IDENTITY: `vault`: expected files, certify, spiffe or none";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_canary_is_called_and_has_a_port_of_its_own_for_probes() {
    let config = from(&with(&[]), RunArgs::default()).unwrap();
    assert!(config.sidecar.capture.is_none() && config.admin.capture.is_none());
    let canary = ("PORTCULLIS_CANARY", "127.0.0.1:4193");
    let config = from(&with(&[canary]), RunArgs::default()).unwrap();
    let capture = config.sidecar.capture.unwrap();
    assert_eq!(capture.port().get(), 4192);
    assert!(capture.is_canary("127.0.0.1:4193".parse().unwrap()));
    assert_eq!(config.admin.capture.unwrap().port().get(), 4192);
    for port in ["4143", "4191"] {
        assert_eq!(
            error(&[canary, ("PORTCULLIS_CAPTURE_PORT", port)]),
            format!(
                "--capture-port: `{port}`: the proxy listens on it; expected a port that nobody \
                 listens on"
            )
        );
    }
    assert_eq!(
        error(&[("PORTCULLIS_CANARY", "127.0.0.1")]),
        "PORTCULLIS_CANARY: `127.0.0.1`: expected ip:port or [ipv6]:port of an address that can be \
         called"
    );
}
