//! Tests of what a scrape shows.

use super::*;
use crate::limiter::Scope;
use policy_core::{
    DefaultPolicy, Denial, Identity, InformationalHeaders, Owner, PathHandling, Protocol,
    RouteTable, Unmatched,
};
use std::time::Duration;

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
    assert!(text.contains("inbound_http_route_not_found_total{"), "{text}");
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
    assert_eq!(telemetry.encode(&[]).unwrap(), text, "a scrape changes nothing");
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
