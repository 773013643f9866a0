//! Tables of `portcullis authz`.

use super::{AuthzReport, Port, Sidecar, WorkloadGroup};
use super::{access_table, effects_table};
use crate::output::{self, Paint, WideFormat};
use std::fmt::Write;

/// Number of workload names shown per group; further ones are only counted.
const NAMES: usize = 3;

impl AuthzReport {
    /// Tables, with a heading for each group of workloads.
    pub(crate) fn text(&self, paint: Paint, format: WideFormat) -> String {
        let suffix = self.settings.config.identity_suffix();
        let mut text = format!("{}\n", paint.dim(&self.source.to_string()));
        for workloads in &self.workloads {
            let heading = format!("{} {}", workloads.kind, names(workloads));
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}\n", paint.bold(&heading));
            if let Some(reason) = &workloads.unguarded {
                let line = format!("no sidecar: nothing of this holds: {reason}");
                let _ = writeln!(text, "{}", paint.bad(&line));
            } else if let Some(line) = enforced(workloads, paint) {
                let _ = writeln!(text, "{line}");
            }
            for missing in &workloads.not_known {
                let line = format!("not known: {missing} may not be listed");
                let _ = writeln!(text, "{}", paint.notice(&line));
            }
            let WorkloadGroup { ports, annotated_ports, other_ports, .. } = workloads;
            for port in ports.iter().chain(annotated_ports).chain(other_ports) {
                text.push_str(&port_text(port, paint, (format, &suffix)));
            }
        }
        text
    }
}

/// Notice about enforcement; `None` if a running sidecar enforces the policies.
fn enforced(workloads: &WorkloadGroup, paint: Paint) -> Option<String> {
    match workloads.sidecar? {
        Sidecar::Missing => Some(paint.bad("no sidecar: nothing of this holds")),
        Sidecar::NotRunning => {
            Some(paint.dim("not running: this holds once it runs with a sidecar"))
        }
        Sidecar::Compatible if workloads.kind == "Pod" => {
            Some(paint.dim("enforced by a proxy of Linkerd's API"))
        }
        Sidecar::Here | Sidecar::Compatible => None,
    }
}

fn names(workloads: &WorkloadGroup) -> String {
    let WorkloadGroup { namespace, names, .. } = workloads;
    let shown = names.iter().take(NAMES).map(|name| format!("{namespace}/{name}"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(NAMES);
    if more > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, " and {more} more");
    }
    text
}

fn port_text(port: &Port, paint: Paint, (format, suffix): (WideFormat, &str)) -> String {
    let number = match (port.port, port.ranges.as_slice()) {
        (Some(port), _) => format!("port {port}"),
        (None, []) => "other ports".to_owned(),
        (None, ranges) => format!("ports {} (named by annotations only)", ranges.join(", ")),
    };
    let mut text = format!("\n  {number}  {}, {}\n", port.owner, port.protocol);
    if let Some(reason) = &port.unguarded {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {}", paint.bad(&format!("everybody: {reason}")));
        return text;
    }
    if let Some(reason) = port.denied {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    nobody: everything is refused, {reason}");
    }
    let mut access = access_table::rows(&port.access);
    for [_, who, _] in &mut access {
        *who = format.identities(who, suffix);
    }
    table(&mut text, ["WHAT", "WHO", "BY"], access);
    if let Some(otherwise) = &port.otherwise {
        let _ = writeln!(text, "    anything else: {otherwise}");
    }
    if !port.effects.is_empty() {
        text.push('\n');
    }
    table(&mut text, ["PERMITTED", "EFFECT", "BY"], effects_table::rows(&port.effects));
    if admits_no_client(port) {
        let words = "grants nobody: every request to these ports is refused";
        let _ = writeln!(text, "    {}", paint.notice(words));
    }
    for limit in &port.limits {
        let _ = writeln!(text, "    limit: {limit}");
    }
    for withheld in &port.withheld {
        let on = withheld.route.as_ref().map(|route| format!(" on {route}")).unwrap_or_default();
        let word = if withheld.not_known { "not known" } else { "withheld" };
        let notice = format!("{word}: {}{on}: {}", withheld.by, withheld.reason);
        let _ = writeln!(text, "    {}", paint.notice(&notice));
    }
    text
}

/// Appends a table; nothing if it has no rows.
fn table(text: &mut String, header: [&str; 3], rows: Vec<[String; 3]>) {
    if rows.is_empty() {
        return;
    }
    let width = output::width().map(|width| width.saturating_sub(4));
    for row in output::table_within(width, header, rows).lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    {row}");
    }
}

/// True if a Server admits no client, not counting probes.
fn admits_no_client(port: &Port) -> bool {
    port.of_server && port.denied.is_none() && port.access.iter().all(|a| a.exempt || !a.granted)
}
