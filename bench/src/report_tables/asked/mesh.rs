//! The outbound half of the mesh, and discovery of destinations.

use super::figure::{Cases, ENVOY, Figure, HAPROXY, Limit, OURS, number, text};
use policy_bench::load::Outcome;
use policy_bench::stats::{self, Spread};
use serde_json::Value;

/// Bytes and new connections beside HAProxy's, and the pair beside two Envoys.
pub(super) fn outbound(cases: Cases<'_>) -> Vec<Figure> {
    let bytes = |case: &str, proxy: &str| {
        let of = |proxy| cases.rounds(case, proxy, "fast", Outcome::bytes_per_cpu_second);
        stats::ratio(&of(OURS), &of(proxy))
    };
    let large = |(case, title): (&str, &str), proxy: &str, asked: &str, least| {
        let name = format!("{title}: bytes per CPU second, of {proxy}'s");
        Figure::new(&name, asked, Limit::AtLeast(least), bytes(case, proxy))
    };
    let each = |(case, title): (&str, &str), proxy: &str, most| {
        let name = format!("{title}: CPU of {proxy}'s");
        let asked = format!("at most {most}");
        Figure::new(&name, &asked, Limit::AtMost(most), cases.against(case, proxy))
    };
    let out = [
        large(("out-download", "outbound, large, to the client"), HAPROXY, "at least 1", 1.0),
        large(("out-upload", "outbound, large, to the server"), HAPROXY, "at least 1", 1.0),
        each(("out-echo", "outbound, round trips"), HAPROXY, 1.0),
        each(("out-connect", "outbound, a new connection per request"), HAPROXY, 0.4),
    ];
    let pair = [
        ("pair-http1", "the pair, HTTP/1.1"),
        ("pair-echo", "the pair, round trips"),
        ("pair-connect", "the pair, a new connection per request"),
    ];
    let pair = pair.map(|case| each(case, ENVOY, 0.5));
    let transfers = [
        large(("pair-download", "the pair, large, to the client"), ENVOY, "at least 2", 2.0),
        large(("pair-upload", "the pair, large, to the application"), ENVOY, "at least 2", 2.0),
    ];
    out.into_iter().chain(pair).chain(transfers).collect()
}

/// One stream per client with the least buffer: what the sidecars use.
pub(super) fn destinations(raw: &Value) -> Vec<Figure> {
    let rows = raw.as_array().map(Vec::as_slice).unwrap_or_default();
    let row = rows
        .iter()
        .filter(|row| text(row, "way") == Some("a stream per client"))
        .filter(|row| number(row, "subscriptions") == Some(200_000.0))
        .min_by_key(|row| row.get("send_buffer_bytes").and_then(Value::as_u64));
    let rounds = row.and_then(|row| row.get("rounds")?.as_array());
    let rounds = rounds.map(Vec::as_slice).unwrap_or_default();
    let of = |name, unit: f64| {
        Spread::of(rounds.iter().filter_map(|round| Some(number(round, name)? / unit)))
    };
    let figure =
        |name, asked: &str, most, measured| Figure::new(name, asked, Limit::AtMost(most), measured);
    vec![
        figure(
            "200,000 subscriptions to destinations beside their connections, MB",
            "200",
            200.0,
            of("growth_bytes", 1_048_576.0),
        ),
        figure(
            "200,000 subscriptions to destinations: all back after a restart, s",
            "30",
            30.0,
            of("back_seconds", 1.0),
        ),
    ]
}
