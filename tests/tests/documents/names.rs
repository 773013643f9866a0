//! Metrics, reasons, conditions, Events, alerts and other names of the code that pages have.

use crate::allowed;
use crate::code;
use crate::context::{Named, named};
use crate::pages::{Fault, Line, Page, none, own_pages};

/// True if a text is words joined by `_`.
fn is_snake(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    text.contains('_') && text.split('_').all(plain)
}

/// True if a text is one word in capitals and small letters.
fn is_camel(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Ends and beginnings that only metrics have.
const ENDS: [&str; 6] = ["_total", "_info", "_bucket", "_seconds", "_bytes", "_ms"];
const BEGINNINGS: [&str; 12] = [
    "inbound_",
    "policy_watch_",
    "policy_index_",
    "kube_watch_",
    "admission_",
    "issuer_",
    "injector_",
    "resource_",
    "lease_",
    "grpc_server_",
    "process_",
    "control_identity_",
];

fn is_metric_like(name: &str) -> bool {
    ENDS.iter().any(|end| name.ends_with(end))
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// A metric with labels: its name, and the names and values of its labels.
fn series(code: &str) -> Option<(&str, Vec<(&str, &str)>)> {
    let (name, rest) = code.split_once('{')?;
    let labels = rest.strip_suffix('}')?.split(',').filter(|label| !label.contains('…'));
    let label = |label| {
        let (name, value): (&str, &str) = str::split_once(label, '=').unwrap_or((label, ""));
        (name.trim(), value.trim_matches('"'))
    };
    is_snake(name).then(|| (name, labels.map(label).collect()))
}

/// The error of a name.
fn wrong(named: &Named) -> Option<(&'static str, String, &'static str)> {
    let Named { code, kind } = named;
    if let Some((name, labels)) = series(code) {
        return wrong_series(name, &labels);
    }
    let state = code.split_once('=').filter(|(_, it)| ["True", "False", "Unknown"].contains(it));
    if let Some((condition, _)) = state {
        let known = code::CONDITIONS.contains(condition);
        return (!known).then(|| ("condition", condition.to_owned(), "no status has it"));
    }
    let fault = |class, why| Some((class, code.clone(), why));
    let is = |known: &std::collections::BTreeSet<String>| known.contains(code);
    match *kind {
        _ if !is_snake(code) && !is_camel(code) => None,
        "reason" if is_camel(code) => {
            let known = is(&code::REASONS) || is(&code::EVENTS);
            if known { None } else { fault("reason", "no condition and no Event has it") }
        }
        "reason" if !is(&code::DENIALS) && !is(&code::TEXTS) => {
            fault("reason", "nothing is refused for it")
        }
        "event" if is_camel(code) && !is(&code::EVENTS) => fault("Event", "none is recorded"),
        "condition" if is_camel(code) && !is(&code::CONDITIONS) => {
            fault("condition", "no status has it")
        }
        "alert" if !is(&code::ALERTS) => fault("alert", "alerts.yaml has none"),
        "metric" if is_snake(code) && !is(&code::METRICS) => fault("metric", "none is declared"),
        _ if is_snake(code) => wrong_snake(code),
        _ => wrong_camel(code),
    }
}

fn wrong_series(
    name: &str,
    labels: &[(&str, &str)],
) -> Option<(&'static str, String, &'static str)> {
    if !code::METRICS.contains(name) {
        return Some(("metric", name.to_owned(), "none is declared"));
    }
    for (label, value) in labels {
        if !code::LABELS.contains(*label) && !code::IDENTIFIERS.contains(*label) {
            return Some(("label", (*label).to_owned(), "no metric has it"));
        }
        let stated = !value.is_empty() && value.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        if stated && !code::TEXTS.contains(*value) && !code::DENIALS.contains(*value) {
            return Some(("label", format!("{label}=\"{value}\""), "no code writes the value"));
        }
    }
    None
}

fn wrong_snake(name: &str) -> Option<(&'static str, String, &'static str)> {
    let fault = |class, why| Some((class, name.to_owned(), why));
    let begins = |beginnings: [&str; 3]| beginnings.iter().any(|it| name.starts_with(it));
    let declared = code::METRICS.contains(name) || code::LABELS.contains(name);
    if declared || code::DENIALS.contains(name) || code::MESSAGES.contains(name) {
        return None;
    }
    if is_metric_like(name) && !code::IDENTIFIERS.contains(name) {
        return fault("metric", "none is declared");
    }
    if begins(["target_", "host_", "header_"]) && !code::IDENTIFIERS.contains(name) {
        return fault("reason", "nothing is refused for it");
    }
    let known = code::TEXTS.contains(name) || code::IDENTIFIERS.contains(name);
    if known { None } else { fault("name", "no code has it") }
}

fn wrong_camel(name: &str) -> Option<(&'static str, String, &'static str)> {
    if name.starts_with("Portcullis") && name != "Portcullis" {
        let known = code::ALERTS.contains(name);
        return (!known).then(|| ("alert", name.to_owned(), "alerts.yaml has none"));
    }
    let sets = [&code::CONDITIONS, &code::EVENTS, &code::KINDS];
    let known = sets.iter().any(|set| set.contains(name))
        || code::MESSAGES.contains(name)
        || code::TEXTS.contains(name)
        || code::IDENTIFIERS.contains(name);
    (!known).then(|| ("name", name.to_owned(), "no code has it"))
}

/// The metrics of a fence: names at the start of a line of Prometheus.
fn fenced_metrics(line: &Line) -> Option<Named> {
    let prometheus = line.place == crate::pages::Place::Fence("prometheus".to_owned());
    prometheus.then(|| Named { code: line.text.clone(), kind: "metric" })
}

pub(crate) fn faults(page: &Page) -> (usize, Vec<Fault>) {
    let (mut count, mut faults) = (0, Vec::new());
    for line in &page.lines {
        for one in named(line).into_iter().chain(fenced_metrics(line)) {
            count += 1;
            let Some((class, name, why)) = wrong(&one) else { continue };
            let lists = [&allowed::WORDS[..], &allowed::SNAKES[..]];
            if !lists.iter().any(|list| allowed::has(list, &page.path, &name)) {
                faults.push(page.fault(line, class, name, why));
            }
        }
        for setting in first_column(line, "setting") {
            count += 1;
            if !code::SETTINGS.contains(&setting) {
                faults.push(page.fault(line, "setting", setting, "the injector has none"));
            }
        }
        for field in first_column(line, "field").iter().flat_map(|path| fields(path)) {
            count += 1;
            if !is_field(&field) {
                faults.push(page.fault(line, "field", field, "no output and no message has it"));
            }
        }
    }
    (count, faults)
}

/// The pieces of code in the first column of a table with this head.
fn first_column(line: &Line, head: &str) -> Vec<String> {
    let of_table = line.columns.first().is_some_and(|first| first == head);
    if !of_table || !line.text.starts_with('|') {
        return Vec::new();
    }
    let first = crate::pages::cells(&line.text).into_iter().next().unwrap_or_default();
    let spans = crate::pages::spans(&first);
    spans.into_iter().map(|span| span.code).filter(|code| !code.starts_with("…-")).collect()
}

/// The names of a path to a field: `findings` and `severity` of `findings[].severity`.
fn fields(path: &str) -> Vec<String> {
    let names = path.split('.').map(|name| name.trim_end_matches("[]").trim_matches('…'));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// True of a field of a message or of an output, whose fields are written `inForce` for `in_force`.
fn is_field(name: &str) -> bool {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    let sets = [&code::IDENTIFIERS, &code::MESSAGES, &code::TEXTS];
    sets.iter().any(|set| set.contains(&snake) || set.contains(name))
}

#[test]
fn every_metric_reason_condition_event_and_alert_is_one_of_the_code() {
    let (mut count, mut lost) = (0, Vec::new());
    for page in own_pages() {
        let (names, faults) = faults(&page);
        count += names;
        lost.extend(faults);
    }
    assert!(count > 1500, "{count}");
    none(lost);
}
