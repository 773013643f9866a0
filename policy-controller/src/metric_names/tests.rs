//! The documentation's table is what a scrape would say of itself.

use crate::admission::AdmissionMetrics;
use crate::guard::GuardMetrics;
use crate::index_metrics::IndexMetrics;
use crate::lease::LeaseMetrics;
use crate::process_metrics::ProcessMetrics;
use crate::programmed::ProgrammedMetrics;
use crate::serve::ServeMetrics;
use crate::source::kubernetes::WatchMetrics;
use crate::status::{EventMetrics, StatusMetrics};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Every metric: its series' name, its type, its help.
fn table() -> String {
    let mut registry = Registry::default();
    AdmissionMetrics::default().register(&mut registry);
    GuardMetrics::default().register(&mut registry);
    IndexMetrics::default().register(&mut registry);
    LeaseMetrics::default().register(&mut registry);
    ProcessMetrics.register(&mut registry);
    ProgrammedMetrics::default().register(&mut registry);
    ServeMetrics::default().register(&mut registry);
    WatchMetrics::new(tokio::sync::watch::channel(Arc::default()).1).register(&mut registry);
    StatusMetrics::default().register(&mut registry);
    EventMetrics::default().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let mut rows = BTreeMap::<&str, (&str, &str)>::new();
    for line in text.lines() {
        let described =
            |prefix| line.strip_prefix(prefix).and_then(|rest: &str| rest.split_once(' '));
        if let Some((name, help)) = described("# HELP ") {
            rows.entry(name).or_default().1 = help.trim_end_matches('.');
        }
        if let Some((name, kind)) = described("# TYPE ") {
            rows.entry(name).or_default().0 = kind;
        }
    }
    let mut table = "| metric | type | what it says |\n|---|---|---|\n".to_owned();
    for (name, (kind, help)) in rows {
        let total = if kind == "counter" { "_total" } else { "" };
        table.push_str(&format!("| `{name}{total}` | {kind} | {help} |\n"));
    }
    table
}

#[test]
fn the_documentation_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let documented = std::fs::read_to_string(&path).unwrap();
    let (head, _) = documented.split_once("| metric |").expect("a table in docs/metrics.md");
    let expected = format!("{head}{}", table());
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert_eq!(documented, expected, "run the test with PORTCULLIS_WRITE_DOCS=1");
}
