//! The names that the code has, by kind.

use policy_core::Denied;
use policy_core::metric::Metric;
use policy_crds::{Kind, annotation};
use policy_enforce::telemetry::names;
use policy_engine::conditions::Reason;
use policy_tests::sources::{root, rust_files};
use policy_webhooks::injector::Setting;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use xtask::structure::{CrateStructure, workspace_structure};

type Names = BTreeSet<String>;

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
    names.into_iter().map(str::to_owned).collect()
}

/// The texts in quotes of the crates that are installed: names that programs write and have no list of.
pub(crate) static TEXTS: LazyLock<Names> = LazyLock::new(|| {
    let crates = workspace_structure(&root()).unwrap();
    crates.into_iter().filter(CrateStructure::is_installed).flat_map(|of| of.texts).collect()
});

/// Every word of the sources outside of comments: types, functions, modules, variants.
pub(crate) static IDENTIFIERS: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names::new();
    for file in
        rust_files().into_iter().filter(|file| !file.path.starts_with("tests/tests/documents"))
    {
        for line in file.code() {
            let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    names
});

/// The metrics as they are declared.
fn declared() -> Vec<Metric> {
    let mut all: Vec<Metric> = names::all().copied().collect();
    all.extend(policy_engine::metric_names::ALL);
    all.extend(policy_kube::source::WatchMetrics::all());
    all.extend(policy_kube::status::EventMetrics::all());
    all.extend(policy_kube::status::StatusMetrics::all());
    all.extend(policy_kube::lease::LeaseMetrics::all());
    all.extend(policy_discovery::rollout::RolloutMetrics::all());
    all.extend(policy_discovery::serve::ServeMetrics::all());
    all.extend(policy_issuer::IssuerMetrics::all());
    all.extend(policy_webhooks::admission::AdmissionMetrics::all());
    all.extend(policy_webhooks::injector::InjectorMetrics::all());
    all.extend(policy_controller::self_policy::SelfPolicyMetrics::all());
    all
}

/// Endings that a scrape adds to a name.
const ADDED: [&str; 6] = ["", "_total", "_info", "_bucket", "_sum", "_count"];

/// The metrics, also with what a scrape adds.
pub(crate) static METRICS: LazyLock<Names> = LazyLock::new(|| {
    let all = declared();
    all.iter().flat_map(|metric| ADDED.map(|added| format!("{}{added}", metric.name))).collect()
});

/// The labels of the proxy's metrics, and those that stand in the sources of others.
pub(crate) static LABELS: LazyLock<Names> = LazyLock::new(|| {
    let labels = names::all().flat_map(names::label_names).map(str::to_owned);
    labels.chain(owned(["le", "namespace", "pod"])).collect()
});

/// The reasons to refuse.
pub(crate) static DENIALS: LazyLock<Names> =
    LazyLock::new(|| owned(Denied::all().map(Denied::as_str)));

/// The types of conditions.
pub(crate) static CONDITIONS: LazyLock<Names> =
    LazyLock::new(|| owned(policy_kube::status::CONDITION_TYPES));

/// The reasons of conditions.
pub(crate) static REASONS: LazyLock<Names> = LazyLock::new(|| {
    let mut names = owned(Reason::ALL.map(Reason::as_str));
    names.extend(owned(policy_engine::programmed::REASONS));
    names.extend(owned(policy_engine::unsent::REASONS));
    names.extend(owned(policy_kube::status::STATUS_REASONS));
    names.extend(owned(policy_engine::delegation::OrphanReason::ALL.map(|reason| reason.as_str())));
    names.extend(owned(policy_discovery::rollout::INCOMPLETE_REASONS));
    names
});

/// The reasons of Events: those of conditions, and what the sources hand to a recorder of Events.
pub(crate) static EVENTS: LazyLock<Names> = LazyLock::new(|| {
    let mut names = REASONS.clone();
    names.extend(CONDITIONS.iter().cloned());
    let recorders = [".warn(", ".note(", ".normal(", "let reason = "];
    for file in rust_files().into_iter().filter(|file| file.path.starts_with("policy-controller/"))
    {
        let code: Vec<&str> = file.code().collect();
        let code = code.join("\n");
        for recorder in recorders {
            for call in code.split(recorder).skip(1) {
                let first: String = call.chars().take(120).collect();
                let text = first.split('"').nth(1).unwrap_or_default();
                let camel = text.starts_with(|c: char| c.is_ascii_uppercase())
                    && text.chars().all(|c| c.is_ascii_alphabetic());
                if camel && TEXTS.contains(text) {
                    names.insert(text.to_owned());
                }
            }
        }
    }
    names
});

/// The kinds of objects.
pub(crate) static KINDS: LazyLock<Names> =
    LazyLock::new(|| owned(Kind::ALL.iter().map(|kind| kind.as_str())));

/// The alerts of the chart.
pub(crate) static ALERTS: LazyLock<Names> = LazyLock::new(|| {
    let text = std::fs::read_to_string(root().join("charts/portcullis/alerts.yaml")).unwrap();
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    owned(names)
});

/// The names of the messages, fields, values and services of our API and of Linkerd's.
pub(crate) static MESSAGES: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names::new();
    let mut folders = vec![root().join("proto")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "proto") {
                let text = std::fs::read_to_string(path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let words = code.flat_map(|line| {
                    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                });
                names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
            }
        }
    }
    names
});

/// The settings of injection.
pub(crate) static SETTINGS: LazyLock<Names> =
    LazyLock::new(|| owned(Setting::ALL.map(Setting::name)));

/// The annotations and labels that the code reads or writes, and the versions of kinds.
pub(crate) static KEYS: LazyLock<Names> = LazyLock::new(|| {
    let mut names = owned(annotation::OF_SERVERS);
    names.extend(owned(annotation::OF_WORKLOADS));
    names.extend(owned(annotation::OF_NAMESPACES));
    names.extend(owned(annotation::OF_ROUTES));
    names.extend(owned([annotation::SKIPPED_PORTS, annotation::PROXY_LABEL]));
    names.extend(Setting::ALL.into_iter().flat_map(Setting::annotations));
    for kind in Kind::ALL {
        names.extend(kind.versions().iter().map(|version| format!("{}/{version}", kind.group())));
    }
    names.extend(TEXTS.iter().filter(|text| text.contains('/')).cloned());
    names
});
