//! The documentation's table, and what a scrape says, have the names that are listed here.

use crate::admission::AdmissionMetrics;
use crate::guard::GuardMetrics;
use crate::issuer::IssuerMetrics;
use policy_discovery::programmed::ProgrammedMetrics;
use policy_discovery::serve::ServeMetrics;
use policy_engine::IndexMetrics;
use policy_kube::lease::LeaseMetrics;
use policy_kube::source::WatchMetrics;
use policy_kube::status::{EventMetrics, StatusMetrics};
use policy_proxy::telemetry::{ProcessMetrics, names};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Names and helps, as written above.
fn listed() -> BTreeMap<String, String> {
    let text = [
        include_str!("../metric_names.rs"),
        include_str!("../../discovery/src/metric_names.rs"),
        include_str!("../../engine/src/metric_names.rs"),
        include_str!("../../kube/src/metric_names.rs"),
    ]
    .concat();
    let quoted = |text: &str, field: &str| {
        let rest = text.split_once(&format!("{field}: \""))?.1;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let constants = text.split("const ").skip(1);
    let pairs: Vec<_> =
        constants.map(|of| Some((quoted(of, "name")?, quoted(of, "help")?))).collect();
    assert!(pairs.iter().all(Option::is_some), "a constant cannot be read");
    let process = names::ALL.iter().filter(|metric| metric.name.starts_with("process_"));
    let process = process.map(|metric| Some((metric.name.to_owned(), metric.help.to_owned())));
    let pairs: Vec<_> = pairs.into_iter().chain(process).collect();
    let count = pairs.len();
    let listed: BTreeMap<_, _> = pairs.into_iter().flatten().collect();
    assert_eq!(listed.len(), count, "a name is there twice");
    listed
}

/// What a controller says of itself before anything has happened: families without members are left
/// out.
fn scraped() -> BTreeMap<String, String> {
    let mut registry = Registry::default();
    AdmissionMetrics::default().register(&mut registry);
    GuardMetrics::default().register(&mut registry);
    IndexMetrics::default().register(&mut registry);
    IssuerMetrics::default().register(&mut registry);
    LeaseMetrics::default().register(&mut registry);
    ProcessMetrics.register(&mut registry);
    ProgrammedMetrics::default().register(&mut registry);
    ServeMetrics::default().register(&mut registry);
    WatchMetrics::new(tokio::sync::watch::channel(Arc::default()).1).register(&mut registry);
    StatusMetrics::default().register(&mut registry);
    EventMetrics::default().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    lines.map(|(name, help)| (name.to_owned(), help.trim_end_matches('.').to_owned())).collect()
}

#[test]
fn the_documentation_lists_every_metric() {
    let mut table = "| metric | what it says |\n|---|---|\n".to_owned();
    for (name, help) in listed() {
        table.push_str(&format!("| `{name}` | {help} |\n"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let documented = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- controller -->\n", "<!-- /controller -->");
    let (head, rest) = documented.split_once(begin).expect("the controller's table");
    let (_, tail) = rest.split_once(end).expect("the end of the controller's table");
    let expected = format!("{head}{begin}{table}{end}{tail}");
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap();
    assert_eq!(documented, expected, "run the test with PORTCULLIS_WRITE_DOCS=1");
}

#[test]
fn what_a_scrape_says_is_listed() {
    let (listed, scraped) = (listed(), scraped());
    assert!(scraped.len() > 30, "{scraped:?}");
    for (name, help) in scraped {
        assert_eq!(listed.get(&name), Some(&help), "{name}");
    }
}
