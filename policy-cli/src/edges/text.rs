//! Tables of `portcullis edges`.

use super::report::{Edge, EdgeFailure, EdgeOrigin, EdgePeer, EdgesReport, SidecarSource};
use crate::diagnostics::result::abbreviated;
use crate::output::{self, Paint, WideFormat};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

impl EdgesReport {
    /// The tables.
    pub(crate) fn text(&self, paint: Paint, format: WideFormat) -> String {
        let mut text = format!("{}\n\n", paint.dim(&self.source.to_string()));
        let known: Vec<_> = self.pods.iter().filter(|pod| pod.problem.is_none()).collect();
        let (asked, all) = (known.len(), self.pods.len());
        // Writing to a String cannot fail.
        if let Some(workload) = &self.workload {
            let _ = writeln!(text, "{}{}", paint.bold(workload), identities(&known));
        }
        let _ = writeln!(text, "{asked} of {all} pods answer");
        for line in self.problems() {
            let _ = writeln!(text, "{}", paint.notice(&line));
        }
        if asked > 0 {
            text.push('\n');
            text.push_str(&self.tables(paint, format));
        }
        text
    }

    /// The pods whose connections are not known: each of a workload, and of namespaces those with the
    /// same reason together.
    fn problems(&self) -> Vec<String> {
        let mut problems: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut lines = Vec::new();
        for pod in &self.pods {
            match (&pod.problem, &self.workload) {
                (None, _) => {}
                (Some(problem), Some(_)) => {
                    lines.push(format!("not known of pod {}: {problem}", pod.name));
                }
                (Some(problem), None) => {
                    let name = self.name_within(&pod.namespace, &pod.name);
                    problems.entry(problem).or_default().push(name);
                }
            }
        }
        lines.extend(problems.into_iter().map(|(problem, pods)| match &pods[..] {
            [pod] => format!("not known of pod {pod}: {problem}"),
            pods => format!("not known of {} pods: {problem} ({})", pods.len(), abbreviated(pods)),
        }));
        lines
    }

    /// A name with its namespace where several are shown.
    fn name_within(&self, namespace: &str, name: &str) -> String {
        match &self.source.namespace {
            Some(_) => name.to_owned(),
            None => format!("{namespace}/{name}"),
        }
    }

    /// The end of the identities of the mesh, which the pods that were asked have; empty if none is known.
    fn suffix(&self) -> &str {
        let own = self.pods.iter().filter_map(|pod| pod.identity.as_deref());
        let mut ends = own.filter_map(|identity| identity.split_once(".serviceaccount.identity."));
        ends.next().map_or("", |(_, end)| end)
    }

    fn tables(&self, paint: Paint, format: WideFormat) -> String {
        if self.edges.is_empty() && self.failures.is_empty() {
            return "no connections in the last ten minutes\n".to_owned();
        }
        let mut text = String::new();
        if !self.edges.is_empty() {
            let header = ["TO", "PODS OF", "TLS", "IDENTITY", "OPEN", "OPENED", "SENT", "RECEIVED"];
            let suffix = self.suffix();
            let rows = self.edges.iter().map(|it| {
                let mut row = edge(it);
                let [_, _, _, identity, ..] = &mut row;
                *identity = format.identities(identity, suffix);
                (&it.from, row)
            });
            text.push_str(&self.table(header, rows));
        }
        if !self.failures.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{}", paint.bold("Refused and failed"));
            let header = ["TO", "PODS OF", "REASON", "REFUSED", "ATTEMPTS FAILED"];
            let rows = self.failures.iter().map(|it| (&it.from, failure(it)));
            text.push_str(&self.table(header, rows));
        }
        text
    }

    /// A table, with a first column for the workload unless there is one alone.
    fn table<'a, const N: usize>(
        &self,
        header: [&str; N],
        rows: impl Iterator<Item = (&'a EdgeOrigin, [String; N])>,
    ) -> String {
        if self.workload.is_some() {
            return output::table_within(output::width(), header, rows.map(|(_, row)| row));
        }
        let header = std::iter::once("FROM").chain(header);
        let rows = rows.map(|(from, row)| {
            let from = self.name_within(&from.namespace, &from.owner);
            std::iter::once(from).chain(row)
        });
        output::table_of(output::width(), header, rows)
    }
}

/// ` as IDENTITY`, of the pods that answer.
fn identities(pods: &[&SidecarSource]) -> String {
    let all: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.identity.as_deref()).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" as {}", all.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

fn edge(edge: &Edge) -> [String; 8] {
    let Edge { from: _, peer, tls, identity, reason, counts } = edge;
    let carried = match (tls, reason) {
        (true, _) => "yes".to_owned(),
        (false, Some(reason)) => format!("no: {reason}"),
        (false, None) => "no".to_owned(),
    };
    [
        target(peer, reason.as_deref()),
        or_dash(peer.owner.as_deref()),
        carried,
        or_dash(identity.as_deref()),
        counts.opened.saturating_sub(counts.closed).to_string(),
        counts.opened.to_string(),
        bytes(counts.sent),
        bytes(counts.received),
    ]
}

fn failure(failure: &EdgeFailure) -> [String; 5] {
    let EdgeFailure { from: _, peer, reason, counts } = failure;
    [
        target(peer, None),
        or_dash(peer.owner.as_deref()),
        reason.clone(),
        counts.refused.to_string(),
        counts.attempts.to_string(),
    ]
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// The Service and its port, or what an address is known to be.
fn target(peer: &EdgePeer, reason: Option<&str>) -> String {
    match (&peer.service, &peer.namespace, reason) {
        (Some(service), Some(namespace), _) => match peer.port {
            Some(port) => format!("{service}.{namespace}:{port}"),
            None => format!("{service}.{namespace}"),
        },
        (Some(other), None, _) => format!("{other}: beyond 1,000 series"),
        (None, Some(namespace), _) => format!("pods of {namespace}, by address"),
        (None, None, Some("external")) => "outside of the cluster".to_owned(),
        (None, None, Some("node_port")) => "nodes".to_owned(),
        (None, None, Some("unknown")) => "addresses of nobody".to_owned(),
        (None, None, _) => "-".to_owned(),
    }
}

/// A number of bytes for people.
fn bytes(count: u64) -> String {
    let (tenths, unit) = match count {
        0..1_000 => return format!("{count} B"),
        1_000..1_000_000 => (count / 100, "kB"),
        1_000_000..1_000_000_000 => (count / 100_000, "MB"),
        _ => (count / 100_000_000, "GB"),
    };
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_decimal_units() {
        let told = [0, 999, 1_000, 1_999, 5_430_000, 12_300_000_000].map(bytes);
        assert_eq!(told, ["0 B", "999 B", "1.0 kB", "1.9 kB", "5.4 MB", "12.3 GB"]);
    }
}
