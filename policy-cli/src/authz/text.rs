//! Tables of `portcullis authz`.

use super::{Access, AuthzReport, ClientRequirement, Port, Sidecar, WorkloadGroup};
use super::{access_table, effects_table};
use crate::output::{self, Paint};
use std::fmt::Write;

/// Number of workload names shown per group; further ones are only counted.
const NAMES: usize = 3;

impl AuthzReport {
    /// Tables, with a heading for each group of workloads.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = format!("{}\n", paint.dim(&self.source.to_string()));
        for workloads in &self.workloads {
            let heading = format!("{} {}", workloads.kind, names(workloads));
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}\n", paint.bold(&heading));
            if let Some(line) = enforced(workloads, paint) {
                let _ = writeln!(text, "{line}");
            }
            for missing in &workloads.not_known {
                let line = format!("not known: {missing} may not be listed");
                let _ = writeln!(text, "{}", paint.notice(&line));
            }
            let WorkloadGroup { ports, annotated_ports, other_ports, .. } = workloads;
            for port in ports.iter().chain(annotated_ports).chain(other_ports) {
                text.push_str(&port_text(port, paint));
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
    table(&mut text, ["WHAT", "WHO", "BY"], access_table::rows(&port.access));
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

/// Requests and the route that they belong to, in lines.
pub(super) fn requests(what: &[String], hosts: &[String], route: Option<&str>) -> Vec<String> {
    let mut lines = what.to_vec();
    if !hosts.is_empty() {
        lines.push(format!("on {}", hosts.join(", ")));
    }
    lines.extend(route.map(|route| format!("({route})")));
    lines
}

/// True if a Server admits no client, not counting probes.
fn admits_no_client(port: &Port) -> bool {
    port.of_server && port.denied.is_none() && port.access.iter().all(|a| a.exempt || !a.granted)
}

/// The clients that a row admits, in words.
pub(crate) fn who(entry: &Access) -> String {
    if !entry.granted {
        return "nobody".to_owned();
    }
    let words = match entry.requires.as_slice() {
        [] => "everybody".to_owned(),
        needs => {
            // Together with an identity, a requirement that any address fulfils adds nothing.
            let asks = |need: &&ClientRequirement| !is_anywhere(need) || needs.len() == 1;
            needs.iter().filter(asks).map(need).collect::<Vec<_>>().join("\nand ")
        }
    };
    let exempt = if entry.exempt { " (exempt)" } else { "" };
    let audited = if entry.audited { " (audited)" } else { "" };
    format!("{words}{exempt}{audited}")
}

/// True if an address of any network fulfils the requirement.
fn is_anywhere(need: &ClientRequirement) -> bool {
    let ClientRequirement { identities, networks, tls, request, from: _ } = need;
    identities.is_empty()
        && tls.is_none()
        && request.is_none()
        && *networks == ["0.0.0.0/0", "::/0"]
}

/// A requirement in words.
pub(crate) fn need(need: &ClientRequirement) -> String {
    if let Some(condition) = &need.request {
        return format!("requests with {condition}");
    }
    match (need.identities.as_slice(), need.networks.as_slice(), need.tls) {
        (_, _, Some("mesh")) => "any mesh TLS client".to_owned(),
        (_, _, Some(_)) => "TLS that is passed through".to_owned(),
        ([any], _, None) if any == "*" => "any mesh identity".to_owned(),
        ([], [], None) => "nobody".to_owned(),
        ([], _, None) if is_anywhere(need) => "any address".to_owned(),
        ([], networks, None) => format!("from {}", networks.join("\nor ")),
        (identities, _, None) => identities.join("\nor "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(requires: Vec<ClientRequirement>) -> Access {
        Access {
            route: None,
            hosts: Vec::new(),
            what: Vec::new(),
            requires,
            granted: true,
            by: None,
            audited: false,
            exempt: false,
        }
    }

    fn networks(networks: &[&str]) -> ClientRequirement {
        let networks = networks.iter().map(|network| (*network).to_owned()).collect();
        ClientRequirement { networks, ..ClientRequirement::default() }
    }

    #[test]
    fn an_identity_of_any_address_is_an_identity() {
        let any = || networks(&["0.0.0.0/0", "::/0"]);
        let named = |name: &str| ClientRequirement {
            identities: vec![name.to_owned()],
            ..ClientRequirement::default()
        };
        assert_eq!(who(&entry(vec![any(), named("*")])), "any mesh identity");
        assert_eq!(who(&entry(vec![any(), named("web")])), "web");
        assert_eq!(who(&entry(vec![any()])), "any address");
        assert_eq!(
            who(&entry(vec![networks(&["10.0.0.0/8"]), named("*")])),
            "from 10.0.0.0/8\nand any mesh identity"
        );
        assert_eq!(who(&entry(Vec::new())), "everybody");
    }
}
