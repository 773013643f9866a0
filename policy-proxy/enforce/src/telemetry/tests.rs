//! Tests of what a scrape shows.

mod route_labels;
mod strict;

use super::*;
use crate::limiter::Scope;
use policy_core::{
    DefaultPolicy, Denial, Identity, InformationalHeaders, Owner, PathHandling, Protocol,
    RouteTable, Unmatched,
};
use std::collections::BTreeSet;
use std::path::Path;

fn port() -> NonZeroU16 {
    NonZeroU16::new(8080).unwrap()
}

fn policy() -> Arc<ServerPolicy> {
    Arc::new(ServerPolicy {
        owner: Owner::Default(DefaultPolicy::AllUnauthenticated),
        protocol: Protocol::Detect { timeout: Duration::from_secs(10) },
        deny: None,
        paths: PathHandling::Canonical,
        informational_headers: InformationalHeaders::Enabled,
        upstream_reuse: policy_core::UpstreamReuse::Usual,
        authorizations: DefaultPolicy::AllUnauthenticated.authorizations(),
        exemptions: Vec::new(),
        routes: RouteTable {
            routes: Vec::new(),
            hosts: std::collections::BTreeMap::new(),
            otherwise: Unmatched::DefaultRoute,
        },
        rate_limit: None,
        effects: Vec::new(),
        withheld: Vec::new(),
    })
}

fn facts() -> Facts {
    Facts { pod_addresses: vec!["10.1.2.3".parse().unwrap()], ..Facts::default() }
}

fn denial(reason: Denied) -> Denial {
    Denial { reason, route: None }
}

#[test]
fn denials_carry_linkerds_labels_and_the_reason() {
    let telemetry = Telemetry::new(1);
    let counters = telemetry.counters(port(), &policy(), &facts());
    let identity = Identity::Dns("web.ns.serviceaccount.identity.linkerd.cluster.local".into());
    let caller = telemetry.caller(&Tls::Terminated(Some(&identity)));
    counters.http_denied(0, caller, &denial(Denied::Unauthorized));
    counters.http_denied(0, caller, &denial(Denied::Unauthorized));
    let text = telemetry.encode(&[]).unwrap();
    let line =
        text.lines().find(|line| line.starts_with("inbound_http_authz_deny_total{")).unwrap();
    for label in [
        r#"target_addr="10.1.2.3:8080""#,
        r#"target_ip="10.1.2.3""#,
        r#"srv_group="",srv_kind="default",srv_name="all-unauthenticated",srv_port="8080""#,
        r#"route_group="",route_kind="default",route_name="default""#,
        r#"reason="unauthorized""#,
        r#"tls="true",client_id="web.ns.serviceaccount.identity.linkerd.cluster.local""#,
    ] {
        assert!(line.contains(label), "{label} in {line}");
    }
    assert!(line.ends_with(" 2"), "{line}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_request_without_route_counts_as_route_not_found_only() {
    let telemetry = Telemetry::new(1);
    let counters = telemetry.counters(port(), &policy(), &facts());
    counters.http_denied(0, telemetry.caller(&Tls::Absent), &denial(Denied::NoRoute));
    let text = telemetry.encode(&[]).unwrap();
    let counted = |line: &str| {
        line.starts_with("inbound_http_route_not_found_total{")
            && line.contains(r#"reason="no_route""#)
    };
    assert!(text.lines().any(counted), "{text}");
    assert!(!text.contains("inbound_http_authz_deny_total{"), "{text}");
}

#[test]
fn counts_survive_the_policy_that_made_them_and_workers_are_summed() {
    let telemetry = Telemetry::new(2);
    let caller = telemetry.caller(&Tls::Absent);
    for worker in 0..2 {
        let counters = telemetry.counters(port(), &policy(), &facts());
        counters.tcp_denied(worker, caller, Denied::Unauthorized);
        counters.rate_limited(worker, caller, Scope::Total);
    }
    let text = telemetry.encode(&[]).unwrap();
    let denied: Vec<_> =
        text.lines().filter(|l| l.starts_with("inbound_tcp_authz_deny_total{")).collect();
    assert_eq!(denied.len(), 1, "one series: {denied:?}");
    assert!(denied[0].ends_with(" 2"), "{denied:?}");
    let counted = |text: &str| -> Vec<String> {
        let own = text.lines().filter(|line| !line.starts_with("process_"));
        own.map(str::to_owned).collect()
    };
    let again = telemetry.encode(&[]).unwrap();
    assert_eq!(counted(&again), counted(&text), "a scrape changes nothing");
}

#[test]
fn clients_beyond_the_bound_are_counted_without_their_name() {
    let telemetry = Telemetry::new(1);
    let counters = telemetry.counters(port(), &policy(), &facts());
    for n in 0..10_000 {
        let identity = Identity::Dns(format!("client-{n}.example").into());
        let caller = telemetry.caller(&Tls::Terminated(Some(&identity)));
        counters.tcp_denied(0, caller, Denied::Unauthorized);
    }
    let text = telemetry.encode(&[]).unwrap();
    let series =
        text.lines().filter(|line| line.starts_with("inbound_tcp_authz_deny_total{")).count();
    assert!(series <= 256, "{series} series");
    let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let counted: u64 =
        text.lines().filter(|l| l.starts_with("inbound_tcp_authz_deny_total{")).map(value).sum();
    let uncounted: u64 =
        text.lines().filter(|l| l.starts_with("policy_uncounted_total")).map(value).sum();
    assert_eq!(counted.saturating_add(uncounted), 10_000);
}

#[test]
fn a_hostile_identity_cannot_break_the_text() {
    let telemetry = Telemetry::new(1);
    let counters = telemetry.counters(port(), &policy(), &facts());
    let identity = Identity::Spiffe("spiffe://a/\"} 1\nforged_total 7\\".into());
    let caller = telemetry.caller(&Tls::Terminated(Some(&identity)));
    counters.tcp_denied(0, caller, Denied::Unauthorized);
    let text = telemetry.encode(&[]).unwrap();
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    assert!(text.contains(r#"spiffe://a/\"} 1\nforged_total 7\\"#), "{text}");
}

#[test]
fn refusals_without_a_policy_are_counted_by_reason() {
    let telemetry = Telemetry::new(1);
    telemetry.refused(Denied::PolicyPending);
    telemetry.tcp_error("tls detection timeout");
    let text = telemetry.encode(&[]).unwrap();
    assert!(text.contains("policy_refused_total{reason=\"policy_pending\"} 1"), "{text}");
    assert!(text.contains("inbound_tcp_errors_total{error=\"tls detection timeout\"} 1"), "{text}");
}

#[test]
fn the_state_of_each_port_is_shown() {
    let status = PortStatus {
        port: port(),
        declared: true,
        state: "stale",
        age: Duration::from_secs(7),
        generation: 3,
        revision: None,
    };
    let text = Telemetry::new(1).encode(&[status]).unwrap();
    assert!(text.contains("policy_age_seconds{port=\"8080\"} 7"), "{text}");
    assert!(
        text.contains(r#"policy_state{port="8080",declared="true",state="stale"} 1"#),
        "{text}"
    );
}

fn permit(policy: &Arc<ServerPolicy>) -> policy_core::Permit {
    let evaluator = policy_core::evaluator::Evaluator::build(Arc::clone(policy)).unwrap();
    let connection = policy_core::Connection {
        client: "10.9.9.9".parse().unwrap(),
        tls: Tls::Absent,
        facts: &facts(),
    };
    match evaluator.decide_connection(&connection) {
        policy_core::Decision::Permit(permit) => permit,
        policy_core::Decision::Deny(denial) => panic!("{denial:?}"),
    }
}

fn certified(identity: &IdentityMetrics) {
    let root = rcgen::generate_simple_self_signed(vec!["root.example".to_owned()]).unwrap();
    policy_tls::testing::count_one_of_each(identity, root.cert.der().clone());
}

/// One of everything that can be counted.
fn busy(telemetry: &Telemetry) -> Vec<PortStatus> {
    let policy = policy();
    let permit = permit(&policy);
    let grpc = Arc::new(ServerPolicy { protocol: Protocol::Grpc, ..ServerPolicy::clone(&policy) });
    let identity = Identity::Dns("web.ns.serviceaccount.identity.linkerd.cluster.local".into());
    for (policy, tls) in [
        (&policy, Tls::Terminated(Some(&identity))),
        (&policy, Tls::Passthrough),
        (&grpc, Tls::Absent),
    ] {
        let caller = telemetry.caller(&tls);
        let counters = telemetry.counters(port(), policy, &facts());
        counters.http_permitted(0, caller, &permit);
        for reason in Denied::all() {
            counters.http_denied(0, caller, &denial(reason));
            // A connection of bytes has no target.
            if !matches!(reason, Denied::Target(_)) {
                counters.tcp_denied(0, caller, reason);
            }
            telemetry.refused(reason);
        }
        counters.tcp_permitted(0, caller, &permit);
        counters.tcp_terminated(0, caller);
        counters.rate_limited(0, caller, Scope::Identity);
        counters.detected(0, DetectionResult::Http1, Duration::from_millis(3));
        counters.http_error(0, ErrorKind::Connect);
        let series = counters.series(0, counters.series_of(0, caller, &permit)).unwrap();
        series.request();
        series.request_frame(500);
        series.response_frame(20_000);
        series.first_byte(Duration::from_millis(7));
        let elapsed =
            Elapsed { upload: Duration::from_millis(1), total: Duration::from_millis(80) };
        for grpc in [None, Some(0), Some(14)] {
            for broken in [false, true] {
                series.ended(Outcome { status: 200, grpc, broken }, elapsed);
            }
        }
        for side in [Side::Source, Side::Destination] {
            drop(Meter::open(&telemetry.tcp(side, port(), caller, Some(policy)), 0));
        }
        telemetry.transport_header("http/2", port(), caller);
    }
    drop(telemetry.outbound(OutboundTarget::default(), OutboundTls::Mesh("web".into()), 0));
    telemetry.outbound_refused(OutboundTarget::default(), "connect");
    telemetry.outbound_failed(OutboundTarget::default(), "identity");
    certified(&telemetry.identity);
    telemetry.http_error(ErrorKind::Io);
    telemetry.tcp_error("io");
    telemetry.discovery.rpc_begun("localhost.:8090");
    telemetry.discovery.rpc_ended("localhost.:8090", Some(14), true);
    let revision = policy_core::Revision::default();
    vec![PortStatus {
        port: port(),
        declared: true,
        state: "current",
        age: Duration::ZERO,
        generation: 1,
        revision: Some(revision),
    }]
}

#[test]
fn a_scrape_is_valid_openmetrics_and_says_what_is_listed_and_nothing_else() {
    let telemetry = Telemetry::new(2);
    let ports = busy(&telemetry);
    let families = strict::read(&telemetry.encode(&ports).unwrap());
    let listed: BTreeSet<&str> = names::all().map(|metric| metric.name).collect();
    assert_eq!(listed.len(), names::all().count(), "a name is there twice");
    assert_eq!(families.keys().map(String::as_str).collect::<BTreeSet<_>>(), listed);
    for metric in names::all() {
        let family = &families[metric.name];
        assert!(!family.samples.is_empty(), "{} was not counted", metric.name);
        assert_eq!(family.help.trim_end_matches('.'), metric.help);
        let shown: BTreeSet<&str> = family
            .samples
            .iter()
            .flat_map(|sample| sample.labels.keys().map(String::as_str))
            .filter(|label| *label != "le")
            .collect();
        let known: BTreeSet<&str> = names::label_names(metric).into_iter().collect();
        assert_eq!(shown, known, "labels of {}", metric.name);
    }
}

#[test]
fn a_fresh_proxy_says_valid_openmetrics_too() {
    strict::read(&Telemetry::new(1).encode(&[]).unwrap());
}

#[test]
fn requests_are_counted_as_linkerd_counts_them() {
    let telemetry = Telemetry::new(1);
    busy(&telemetry);
    let text = telemetry.encode(&[]).unwrap();
    let full = concat!(
        r#"direction="inbound",target_addr="10.1.2.3:8080",target_ip="10.1.2.3",target_port="8080","#,
        r#"srv_group="",srv_kind="default",srv_name="all-unauthenticated",srv_port="8080","#,
        r#"route_group="",route_kind="default",route_name="default",http_route="","#,
        r#"authz_group="",authz_kind="default",authz_name="all-unauthenticated","#,
        r#"tls="true",client_id="web.ns.serviceaccount.identity.linkerd.cluster.local""#,
    );
    let parent = concat!(
        r#"parent_group="",parent_kind="default",parent_name="all-unauthenticated","#,
        r#"parent_port="8080",route_group="",route_kind="default",route_name="default",http_route="""#,
    );
    for line in [
        format!("request_total{{{full}}} 1"),
        format!(
            r#"response_total{{{full},status_code="200",classification="success",grpc_status="0"}} 1"#
        ),
        format!(
            r#"response_total{{{full},status_code="200",classification="failure",grpc_status="14"}} 1"#
        ),
        format!(
            r#"response_total{{{full},status_code="200",classification="failure",error="incomplete"}} 1"#
        ),
        format!("response_latency_ms_sum{{{full}}} 7.0"),
        format!(r#"response_latency_ms_bucket{{le="5.0",{full}}} 0"#),
        format!(r#"response_latency_ms_bucket{{le="10.0",{full}}} 1"#),
        // Of two clients, which these families do not tell apart.
        format!("inbound_http_requests_total{{{parent}}} 2"),
        format!(r#"inbound_http_statuses_total{{{parent},status="200"}} 12"#),
        format!(r#"inbound_grpc_statuses_total{{{parent},status="14"}} 2"#),
        format!(r#"inbound_http_request_duration_seconds_bucket{{le="0.05",{parent}}} 0"#),
        format!(r#"inbound_http_request_duration_seconds_bucket{{le="0.1",{parent}}} 12"#),
        format!(r#"inbound_http_request_frame_size_bytes_bucket{{le="1024.0",{parent}}} 2"#),
        format!(r#"inbound_http_response_frame_size_bytes_bucket{{le="10240.0",{parent}}} 0"#),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let mut table = "| metric | labels | what it says |\n|---|---|---|\n".to_owned();
    for metric in names::all() {
        let labels: Vec<String> =
            metric.labels.split_whitespace().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(" ");
        table.push_str(&format!("| `{}` | {labels} | {} |\n", metric.name, metric.help));
    }
    table.push_str("\n| labels | are |\n|---|---|\n");
    for (name, labels) in names::GROUPS {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!("| `{name}` | {} |\n", labels.join(", ")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let documented = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- proxy -->\n", "<!-- /proxy -->");
    let (head, rest) = documented.split_once(begin).expect("the proxy's table");
    let (_, tail) = rest.split_once(end).expect("the end of the proxy's table");
    let expected = format!("{head}{begin}{table}{end}{tail}");
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap();
    assert_eq!(documented, expected, "run the test with PORTCULLIS_WRITE_DOCS=1");
}
