//! The figures that were asked for, and what was measured of them: one table, made of what each
//! measurement wrote.

mod figure;
mod mesh;

use figure::{Cases, ENVOY, Figure, HAPROXY, Limit, OURS, UNRECORDED, number, one, text};
use policy_bench::load::Outcome;
use policy_bench::report::{Document, Table};
use policy_bench::stats::{self, Spread};
use serde_json::Value;

/// The table. A figure is reached if its median is; the spread stands beside it.
pub(crate) fn table(documents: &[Document]) -> Table {
    let columns = ["figure", "asked", "measured", "reached"];
    let mut table = Table::new("Against what was asked", &columns);
    let found = |name: &str| documents.iter().find(|document| document.measurement == name);
    let none = Value::Null;
    let raw = |name: &str| found(name).map_or(&none, |document| &document.raw);
    let all = [
        data_path(raw("data-path")),
        connections(raw("connections")),
        policy_change(raw("policy-change")),
        controller(raw("controller")),
        mesh::destinations(raw("destinations")),
    ];
    all.into_iter().flatten().for_each(|figure| table.row(figure.cells()));
    table
}

fn data_path(raw: &Value) -> Vec<Figure> {
    let cases = Cases(raw);
    [http1(cases), refusals(cases), http2(cases), tls(cases), raw_tcp(cases), mesh::outbound(cases)]
        .concat()
}

fn http1(cases: Cases<'_>) -> Vec<Figure> {
    let most = Limit::AtMost;
    let tail = |proxy| cases.rounds("base", proxy, "fixed_rate", |one| one.p999);
    let attacked = |proxy| cases.rounds("attacked", proxy, "fixed_rate", |one| one.p99);
    vec![
        Figure::new(
            "HTTP/1.1, 1 rule: CPU of bare hyper's",
            "at most 1.2",
            most(1.2),
            cases.against("base", "bare hyper"),
        ),
        Figure::new(
            "HTTP/1.1, 1 rule: CPU of HAProxy's",
            "at most 1",
            most(1.0),
            cases.against("base", HAPROXY),
        ),
        Figure::new(
            "10,000 rules: CPU of 1 rule's",
            "within 10 %",
            most(1.1),
            stats::ratio(&cases.cpu("rules-10000", OURS), &cases.cpu("base", OURS)),
        ),
        Figure::new("resident under load, 1 rule, MB", "8", most(8.0), cases.resident("base")),
        Figure::new(
            "resident under load, 10,000 rules, MB",
            "14",
            most(14.0),
            cases.resident("rules-10000"),
        ),
        Figure::new(
            "HTTP/1.1, p99.9 at half of HAProxy's rate, of HAProxy's",
            "at most 1",
            most(1.0),
            stats::ratio(&tail(OURS), &tail(HAPROXY)),
        ),
        Figure::new(
            "HTTP/1.1, p99 beside 20 attackers with 50 connections each, of HAProxy's",
            "at most 2",
            most(2.0),
            stats::ratio(&attacked(OURS), &attacked(HAPROXY)),
        ),
        Figure::new(
            "2 workers: CPU of 1 worker's, neither pinned",
            "within 5 %",
            most(1.05),
            stats::ratio(&cases.cpu("workers-2", OURS), &cases.cpu("workers-1", OURS)),
        ),
    ]
}

/// The cost of the record of decisions to a refused request.
fn refusals(cases: Cases<'_>) -> Vec<Figure> {
    let all = [("denied-route", "denied by route"), ("denied-identity", "denied by identity")];
    let figure = |(case, title)| {
        let name = format!("{title}: CPU of a sidecar's that records nothing");
        Figure::new(&name, "at most 1.05", Limit::AtMost(1.05), cases.against(case, UNRECORDED))
    };
    all.into_iter().map(figure).collect()
}

fn http2(cases: Cases<'_>) -> Vec<Figure> {
    let titles = [
        ("http2-1", "HTTP/2, 1 stream"),
        ("http2-10", "HTTP/2, 10 streams"),
        ("http2-100", "HTTP/2, 100 streams"),
        ("grpc", "gRPC, unary"),
        ("grpc-stream", "gRPC, a message and its echo"),
    ];
    let both = |(case, title)| {
        [(ENVOY, "at most 0.5", 0.5), (HAPROXY, "at most 1", 1.0)].map(|(peer, asked, limit)| {
            let name = format!("{title}: CPU of {peer}'s");
            Figure::new(&name, asked, Limit::AtMost(limit), cases.against(case, peer))
        })
    };
    titles.into_iter().flat_map(both).collect()
}

fn tls(cases: Cases<'_>) -> Vec<Figure> {
    let all = [
        ("tls", "mutual TLS, HTTP/1.1", "at most 1", 1.0),
        ("tls-http2", "mutual TLS, HTTP/2", "at most 1", 1.0),
        ("tls-connect", "mutual TLS, a new connection per request", "at most 0.4", 0.4),
    ];
    let figure = |(case, title, asked, limit)| {
        let name = format!("{title}: CPU of HAProxy's");
        Figure::new(&name, asked, Limit::AtMost(limit), cases.against(case, HAPROXY))
    };
    all.into_iter().map(figure).collect()
}

fn raw_tcp(cases: Cases<'_>) -> Vec<Figure> {
    let all = [("tcp-download", "to the client"), ("tcp-upload", "to the application")];
    let figure = |(case, title)| {
        let of = |proxy| cases.rounds(case, proxy, "fast", Outcome::bytes_per_cpu_second);
        let name = format!("opaque TCP, large, {title}: bytes per CPU second, of HAProxy's");
        let measured = stats::ratio(&of(OURS), &of(HAPROXY));
        Figure::new(&name, "at least 1", Limit::AtLeast(1.0), measured)
    };
    all.into_iter().map(figure).collect()
}

fn connections(raw: &Value) -> Vec<Figure> {
    let each = |kind: &str| {
        let proxies = raw.get(kind)?.as_array()?;
        let ours = proxies.iter().find(|one| text(one, "proxy") == Some(OURS))?;
        one(ours.get("idle_kib_each")?.as_f64()?)
    };
    let asked = |most: &str, own: &str| format!("{most}; {own} with an HTTP/1 path of our own");
    vec![
        Figure::new(
            "an idle plaintext connection, KiB",
            &asked("20", "4"),
            Limit::AtMost(4.0),
            each("plaintext"),
        ),
        Figure::new(
            "an idle mutual TLS connection, KiB",
            &asked("24", "16"),
            Limit::AtMost(16.0),
            each("mutual TLS"),
        ),
        Figure::new("an idle outbound connection, KiB", "8", Limit::AtMost(8.0), each("outbound")),
    ]
}

fn policy_change(raw: &Value) -> Vec<Figure> {
    let values = |part: &str, name: &str| numbers(raw.get(part).and_then(|part| part.get(name)));
    let whole: Vec<f64> = values("changes_alone", "control_us")
        .iter()
        .zip(values("changes_alone", "worker_us"))
        .map(|(control, worker)| (control + worker) / 1e3)
        .collect();
    let pause = stats::quantile(&values("changes_alone", "worker_us"), 1.0);
    let late = raw.pointer("/both/decided_by_older_after_ack").and_then(Value::as_f64);
    vec![
        Figure::new(
            "one of 10,000 rules changes: CPU of the proxy, ms",
            "under 2",
            Limit::AtMost(2.0),
            percentiles(&whole, 0.5),
        ),
        Figure::new(
            "the same: longest pause of the data path, µs",
            "200",
            Limit::AtMost(200.0),
            pause.and_then(one),
        ),
        Figure::new(
            "requests decided by an older revision though sent after its ACK",
            "none",
            Limit::AtMost(0.0),
            late.and_then(one),
        ),
    ]
}

fn controller(raw: &Value) -> Vec<Figure> {
    let rows = raw.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut all = Vec::new();
    for api in ["compatible", "native"] {
        // The least policies: one factor is varied at a time.
        let row = rows
            .iter()
            .filter(|row| text(row, "api") == Some(api) && number(row, "pods") == Some(10_000.0))
            .min_by_key(|row| row.get("policies").and_then(Value::as_u64));
        let row = row.unwrap_or(&Value::Null);
        let event = |list: &str, name: &str| -> Vec<f64> {
            let list = row.get(list).and_then(Value::as_array).map(Vec::as_slice);
            list.unwrap_or_default().iter().filter_map(|event| number(event, name)).collect()
        };
        let both = ["events", "events_one_after_the_other"];
        let latency: Vec<f64> = both.iter().flat_map(|list| event(list, "latency_ms")).collect();
        let last = stats::quantile(&latency, 0.99).and_then(one);
        let name = |of: &str| format!("controller, 10,000 pods, {api} API: {of}");
        let figures = [
            (
                "CPU per event that concerns 100, ms",
                "5",
                5.0,
                percentiles(&event("events", "cpu_ms"), 0.1),
            ),
            ("apply to the last that is concerned, p99, ms", "300", 300.0, last),
            ("per pod of a shared shape beside its connection, KiB", "2", 2.0, each_pod(row)),
            ("ready, s", "10", 10.0, number(row, "ready_s").and_then(one)),
        ];
        all.extend(figures.map(|(of, asked, most, measured)| {
            Figure::new(&name(of), asked, Limit::AtMost(most), measured)
        }));
    }
    let events = rows.iter().find_map(|row| row.get("endpoint_events")?.as_array());
    let cpu: Vec<f64> =
        events.into_iter().flatten().filter_map(|event| number(event, "cpu_ms")).collect();
    let name = "controller, 1,000 Services: CPU per event of an endpoint that 100 watch, ms";
    all.push(Figure::new(name, "2", Limit::AtMost(2.0), percentiles(&cpu, 0.1)));
    all
}

/// Memory of each pod beside its connection, in KiB, as the measurement's own table reckons it.
fn each_pod(row: &Value) -> Option<Spread> {
    let followed = row.get("followed")?;
    let (all, few) =
        (number(followed, "resident_bytes")?, number(followed, "resident_one_of_each_bytes")?);
    one((all - few) / 1024.0 / (number(row, "pods")? - number(followed, "one_of_each")?))
}

/// The middle one, with those that a share lies below and above of.
fn percentiles(values: &[f64], share: f64) -> Option<Spread> {
    let (low, high) = if share < 0.5 { (share, 1.0 - share) } else { (0.0, 1.0) };
    let at = |share| stats::quantile(values, share);
    Some(Spread { median: at(0.5)?, low: at(low)?, high: at(high)? })
}

fn numbers(value: Option<&Value>) -> Vec<f64> {
    let values = value.and_then(Value::as_array).map(Vec::as_slice);
    values.unwrap_or_default().iter().filter_map(Value::as_f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_bench::report::Cell;
    use serde_json::json;

    fn document(name: &str, raw: Value) -> Document {
        Document { raw, ..Document::new(name) }
    }

    fn row(table: &Table, figure: &str) -> Vec<Cell> {
        let is = |row: &&Vec<Cell>| row.first() == Some(&Cell::from(figure));
        table.rows.iter().find(is).cloned().unwrap_or_default()
    }

    #[test]
    fn a_figure_is_reached_if_its_median_is() {
        let rounds = |cpu: [f64; 3]| -> Value {
            let one = |cpu: f64| Outcome { operations: 10, cpu_seconds: cpu, ..Outcome::default() };
            json!(cpu.map(one))
        };
        let raw = json!([{"case": "base", "proxies": [
            {"proxy": OURS, "fast": rounds([1.0, 1.0, 3.0]), "resident_bytes": 9 << 20},
            {"proxy": HAPROXY, "fast": rounds([2.0, 1.0, 1.0])},
        ]}]);
        let table = table(&[document("data-path", raw)]);
        let spread = Spread { median: 1.0, low: 0.5, high: 3.0 };
        let figure = "HTTP/1.1, 1 rule: CPU of HAProxy's";
        let expected: Vec<Cell> =
            vec![figure.into(), "at most 1".into(), spread.into(), "yes".into()];
        assert_eq!(row(&table, figure), expected);
        let figure = "resident under load, 1 rule, MB";
        let memory = Spread { median: 9.0, low: 9.0, high: 9.0 };
        let expected: Vec<Cell> = vec![figure.into(), "8".into(), memory.into(), "**no**".into()];
        assert_eq!(row(&table, figure), expected);
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let table = table(&[]);
        assert!(table.rows.iter().all(|row| row.last() == Some(&Cell::from("not measured"))));
        assert_eq!(table.rows.len(), 51);
    }

    #[test]
    fn a_change_is_what_both_threads_take_and_its_pause_what_the_worker_takes() {
        let raw = json!({
            "changes_alone": {"control_us": [1000.0, 1500.0, 4000.0], "worker_us": [5.0, 250.0, 9.0]},
            "both": {"decided_by_older_after_ack": 0},
        });
        let table = table(&[document("policy-change", raw)]);
        let measured = |figure: &str| row(&table, figure).get(2..).map(<[Cell]>::to_vec);
        let spread = Spread { median: 1.75, low: 1.005, high: 4.009 };
        let figure = "one of 10,000 rules changes: CPU of the proxy, ms";
        assert_eq!(measured(figure), Some(vec![spread.into(), "yes".into()]));
        let spread = Spread { median: 250.0, low: 250.0, high: 250.0 };
        let figure = "the same: longest pause of the data path, µs";
        assert_eq!(measured(figure), Some(vec![spread.into(), "**no**".into()]));
    }

    #[test]
    fn the_controllers_row_is_the_one_with_fewest_policies() {
        let one = |policies: u32, ready: f64| {
            json!({
                "api": "native", "pods": 10_000, "policies": policies, "ready_s": ready,
                "followed": {
                    "resident_bytes": 30_000_000, "resident_one_of_each_bytes": 10_000_000,
                    "one_of_each": 100,
                },
            })
        };
        let table = table(&[document("controller", json!([one(1000, 11.0), one(10, 1.0)]))]);
        let figure = "controller, 10,000 pods, native API: ready, s";
        let ready = Spread { median: 1.0, low: 1.0, high: 1.0 };
        let expected: Vec<Cell> = vec![figure.into(), "10".into(), ready.into(), "yes".into()];
        assert_eq!(row(&table, figure), expected);
        let figure = "controller, 10,000 pods, native API: per pod of a shared shape beside its \
                      connection, KiB";
        assert_eq!(row(&table, figure).last(), Some(&Cell::from("yes")));
    }
}
