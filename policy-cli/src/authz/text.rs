//! Who may reach what, as tables for people.

use super::{Access, Need, Port, Report, Workloads};
use crate::output::{self, Paint};
use std::fmt::Write;

/// Names of workloads that are told; of more, how many there are.
const NAMES: usize = 3;

impl Report {
    /// The tables, with a heading for each group of workloads.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.dim(&self.asked.to_string()));
        for workloads in &self.workloads {
            let heading = format!("{} {}", workloads.kind, names(workloads));
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}\n", paint.bold(&heading));
            for missing in &workloads.not_known {
                let line = format!("not known: {missing} may not be listed");
                let _ = writeln!(text, "{}", paint.notice(&line));
            }
            let Workloads { ports, annotated_ports, other_ports, .. } = workloads;
            for port in ports.iter().chain(annotated_ports).chain(other_ports) {
                text.push_str(&port_text(port, paint));
            }
        }
        text
    }
}

fn names(workloads: &Workloads) -> String {
    let Workloads { namespace, names, .. } = workloads;
    let shown = names.iter().take(NAMES).map(|name| format!("{namespace}/{name}"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(NAMES);
    if more > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, " and {more} more");
    }
    text
}

fn port_text(port: &Port, paint: Paint) -> String {
    let number = match (port.port, port.ranges.as_slice()) {
        (Some(port), _) => format!("port {port}"),
        (None, []) => "other ports".to_owned(),
        (None, ranges) => format!("ports {} (named by annotations only)", ranges.join(", ")),
    };
    let mut text = format!("\n  {number}  {}, {}\n", port.owner, port.protocol);
    if let Some(reason) = port.denied {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    nobody: everything is refused, {reason}");
    }
    if !port.access.is_empty() {
        let table = output::table_within(
            output::width().map(|width| width.saturating_sub(4)),
            ["WHAT", "WHO", "BY"],
            rows(&port.access),
        );
        for row in table.lines() {
            let _ = writeln!(text, "    {row}");
        }
    }
    if let Some(otherwise) = &port.otherwise {
        let _ = writeln!(text, "    anything else: {otherwise}");
    }
    for limit in &port.limits {
        let _ = writeln!(text, "    limit: {limit}");
    }
    for withheld in &port.withheld {
        let on = withheld.route.as_ref().map(|route| format!(" on {route}")).unwrap_or_default();
        let word = if withheld.not_known { "not known" } else { "withheld" };
        let said = format!("{word}: {}{on}: {}", withheld.by, withheld.reason);
        let _ = writeln!(text, "    {}", paint.notice(&said));
    }
    text
}

/// One row for each grant; what it is about is said once.
fn rows(access: &[Access]) -> Vec<[String; 3]> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut before: Option<&Access> = None;
    for entry in access {
        let same = before.is_some_and(|b| {
            (&b.route, &b.what, &b.hosts, b.exempt)
                == (&entry.route, &entry.what, &entry.hosts, entry.exempt)
        });
        let what = if same { String::new() } else { what(entry) };
        let by = entry.by.clone().unwrap_or_default();
        rows.push([what, who(entry), by]);
        before = Some(entry);
    }
    rows
}

fn what(entry: &Access) -> String {
    let mut lines = entry.what.clone();
    if !entry.hosts.is_empty() {
        lines.push(format!("on {}", entry.hosts.join(", ")));
    }
    if let Some(route) = &entry.route {
        lines.push(format!("({route})"));
    }
    lines.join("\n")
}

/// Who may, in words.
pub(super) fn who(entry: &Access) -> String {
    if !entry.granted {
        return "nobody".to_owned();
    }
    let words = match entry.requires.as_slice() {
        [] => "everybody".to_owned(),
        needs => needs.iter().map(need).collect::<Vec<_>>().join("\nand "),
    };
    let exempt = if entry.exempt { " (exempt)" } else { "" };
    let audited = if entry.audited { " (audited)" } else { "" };
    format!("{words}{exempt}{audited}")
}

fn need(need: &Need) -> String {
    const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];
    match (need.identities.as_slice(), need.networks.as_slice(), need.tls) {
        (_, _, Some("mesh")) => "any mesh TLS client".to_owned(),
        (_, _, Some(_)) => "TLS that is passed through".to_owned(),
        ([any], _, None) if any == "*" => "any mesh identity".to_owned(),
        ([], [], None) => "nobody".to_owned(),
        ([], networks, None) if networks == EVERYWHERE => "any address".to_owned(),
        ([], networks, None) => format!("from {}", networks.join("\nor ")),
        (identities, _, None) => identities.join("\nor "),
    }
}
