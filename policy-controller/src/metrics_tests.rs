//! The documentation's table, and what a scrape says, have the metrics that sets declare.

use crate::self_policy::SelfPolicyMetrics;
use policy_core::metric::Metric;
use policy_discovery::rollout::RolloutMetrics;
use policy_discovery::serve::ServeMetrics;
use policy_enforce::telemetry::names;
use policy_engine::IndexMetrics;
use policy_issuer::IssuerMetrics;
use policy_kube::lease::LeaseMetrics;
use policy_kube::source::WatchMetrics;
use policy_kube::status::{EventMetrics, StatusMetrics};
use policy_server::ProcessMetrics;
use policy_webhooks::admission::AdmissionMetrics;
use policy_webhooks::injector::InjectorMetrics;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Every metric that sets declare, and what adds the sets to a registry.
macro_rules! sets {
    ($($set:ident),*) => {
        fn declared() -> Vec<Metric> {
            let mut all = Vec::new();
            $(all.extend($set::all());)*
            all
        }

        fn register(registry: &mut Registry) {
            $($set::default().register(registry);)*
        }

        const SETS: &[&str] = &[$(stringify!($set)),*];
    };
}

sets!(
    AdmissionMetrics,
    EventMetrics,
    InjectorMetrics,
    IssuerMetrics,
    LeaseMetrics,
    RolloutMetrics,
    SelfPolicyMetrics,
    ServeMetrics,
    StatusMetrics
);

/// Names and helps, as they are declared.
fn listed() -> BTreeMap<String, String> {
    let process = names::all().filter(|metric| metric.name.starts_with("process_"));
    let index = policy_engine::metric_names::ALL.iter();
    let mut all = declared();
    all.extend(index.chain(process).copied().chain(WatchMetrics::all()));
    let count = all.len();
    let pair = |metric: Metric| (metric.name.to_owned(), metric.help.to_owned());
    let listed: BTreeMap<_, _> = all.into_iter().map(pair).collect();
    assert_eq!(listed.len(), count, "a name is there twice");
    listed
}

/// The metrics of a controller before anything has happened: families without members are left out.
fn scraped() -> BTreeMap<String, String> {
    let mut registry = Registry::default();
    register(&mut registry);
    IndexMetrics::default().register(&mut registry);
    ProcessMetrics.register(&mut registry);
    WatchMetrics::new(tokio::sync::watch::channel(Arc::default()).1).register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    lines.map(|(name, help)| (name.to_owned(), help.trim_end_matches('.').to_owned())).collect()
}

/// The names of the sets that the sources of a folder declare.
fn sets_below(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sets_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let marker = ["policy_core::metrics", "! {"].concat();
            let blocks = text.split(&marker).skip(1);
            let sets = blocks.filter_map(|block| block.split_once(" struct ")?.1.split_once(" {"));
            found.extend(sets.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn every_set_of_metrics_is_listed() {
    let mut found = Vec::new();
    sets_below(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    assert!(found.len() >= SETS.len(), "{found:?}");
    // Parts of others: `Counts` of WatchMetrics, AuthzMetrics of ServeMetrics.
    found.retain(|set| !["Counts", "AuthzMetrics"].contains(&set.as_str()));
    found.sort();
    assert_eq!(found, SETS);
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
