//! Outbound connections in the metrics of a sidecar.

use super::report::{Counts, Edge, EdgeFailure, EdgeOrigin, EdgePeer, FailureCounts};
use std::collections::BTreeMap;

/// What the metrics of one sidecar, or of several, say of outbound connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutboundCounts {
    edges: BTreeMap<Carried, Counts>,
    failures: BTreeMap<(EdgePeer, String), FailureCounts>,
}

/// The peer of connections, and what carries them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Carried {
    peer: EdgePeer,
    tls: bool,
    identity: Option<String>,
    reason: Option<String>,
}

/// Names of labels with their values.
type Labels<'a> = BTreeMap<&'a str, String>;

/// What every metric here begins with.
const PREFIX: &str = "outbound_tcp_";

/// The most characters of a line that cannot be read that are shown.
const MAX_SHOWN: usize = 200;

impl OutboundCounts {
    /// Adds the metrics of a sidecar, in OpenMetrics text.
    ///
    /// # Errors
    /// They end early, or a line about outbound connections cannot be read.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), String> {
        if !text.trim_end().ends_with("# EOF") {
            return Err("its metrics end early".to_owned());
        }
        for line in text.lines().filter(|line| line.starts_with(PREFIX)) {
            let unread = || {
                let shown: String = line.chars().take(MAX_SHOWN).collect();
                format!("a line of its metrics cannot be read: {}", shown.escape_debug())
            };
            let (name, labels, value) = sample(line).ok_or_else(unread)?;
            self.count(name, &labels, value).ok_or_else(unread)?;
        }
        Ok(())
    }

    /// Counts one sample. Metrics that are not known are of a later version.
    fn count(&mut self, name: &str, labels: &Labels<'_>, value: u64) -> Option<()> {
        let into: fn(&mut Counts) -> &mut u64 = match name {
            "opened_total" => |counts| &mut counts.opened,
            "closed_total" => |counts| &mut counts.closed,
            "sent_bytes_total" => |counts| &mut counts.sent,
            "received_bytes_total" => |counts| &mut counts.received,
            "refused_total" => return self.failed(labels, |counts| &mut counts.refused, value),
            "attempts_failed_total" => {
                return self.failed(labels, |counts| &mut counts.attempts, value);
            }
            _ => return Some(()),
        };
        let key = Carried {
            peer: peer(labels)?,
            tls: labels.get("tls")? == "true",
            identity: stated(labels, "server_id"),
            reason: stated(labels, "no_tls_reason"),
        };
        add(into(self.edges.entry(key).or_default()), value);
        Some(())
    }

    fn failed(
        &mut self,
        labels: &Labels<'_>,
        into: fn(&mut FailureCounts) -> &mut u64,
        value: u64,
    ) -> Option<()> {
        let key = (peer(labels)?, labels.get("reason")?.clone());
        add(into(self.failures.entry(key).or_default()), value);
        Some(())
    }

    /// Adds the counts of other sidecars.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { edges, failures } = other;
        for (key, Counts { opened, closed, sent, received }) in edges {
            let counts = self.edges.entry(key).or_default();
            add(&mut counts.opened, opened);
            add(&mut counts.closed, closed);
            add(&mut counts.sent, sent);
            add(&mut counts.received, received);
        }
        for (key, FailureCounts { refused, attempts }) in failures {
            let counts = self.failures.entry(key).or_default();
            add(&mut counts.refused, refused);
            add(&mut counts.attempts, attempts);
        }
    }

    /// The connections of a workload, by peer.
    pub(crate) fn edges(&self, from: &EdgeOrigin) -> Vec<Edge> {
        let edge = |(carried, counts): (&Carried, &Counts)| {
            let Carried { peer, tls, identity, reason } = carried.clone();
            Edge { from: from.clone(), peer, tls, identity, reason, counts: counts.clone() }
        };
        self.edges.iter().map(edge).collect()
    }

    /// The connections and attempts of a workload that failed, by peer.
    pub(crate) fn failures(&self, from: &EdgeOrigin) -> Vec<EdgeFailure> {
        let failure = |((peer, reason), counts): (&(EdgePeer, String), &FailureCounts)| {
            let (from, peer) = (from.clone(), peer.clone());
            EdgeFailure { from, peer, reason: reason.clone(), counts: counts.clone() }
        };
        self.failures.iter().map(failure).collect()
    }
}

fn add(count: &mut u64, value: u64) {
    *count = count.saturating_add(value);
}

fn peer(labels: &Labels<'_>) -> Option<EdgePeer> {
    let port = labels.get("dst_port")?;
    Some(EdgePeer {
        namespace: stated(labels, "dst_namespace"),
        service: stated(labels, "dst_service"),
        port: if port.is_empty() { None } else { Some(port.parse().ok()?) },
        owner: stated(labels, "dst_owner"),
    })
}

/// The value of a label, unless it is empty.
fn stated(labels: &Labels<'_>, name: &str) -> Option<String> {
    labels.get(name).filter(|value| !value.is_empty()).cloned()
}

/// The name behind the prefix, the labels and the value of a line.
fn sample(line: &str) -> Option<(&str, Labels<'_>, u64)> {
    let (name, rest) = line.strip_prefix(PREFIX)?.split_once('{')?;
    let mut labels = Labels::new();
    let mut rest = rest;
    loop {
        if let Some(value) = rest.strip_prefix('}') {
            return Some((name, labels, value.split_whitespace().next()?.parse().ok()?));
        }
        let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(label, value);
        rest = after;
    }
}

/// A value up to its closing quote, unescaped, and what follows it. A pod may write what it likes, and
/// its control characters are not for terminals.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                escaped @ ('"' | '\\') => value.push(escaped),
                // Whoever writes a line break into a name wants to deceive.
                _ => return None,
            },
            control if control.is_control() => return None,
            plain => value.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_enforce::telemetry::{OutboundTarget, OutboundTls, Telemetry};
    use std::num::NonZeroU16;

    /// What a sidecar says that has sent so many bytes to `web`, and asked in vain for `gone`.
    fn metrics(sent: u64) -> String {
        let telemetry = Telemetry::new(1);
        let target = |service: &str| OutboundTarget {
            namespace: "shop".into(),
            service: service.into(),
            port: NonZeroU16::new(80),
            owner: "deployment/web".into(),
        };
        let mesh = OutboundTls::Mesh("web \"1\"".into());
        let open = telemetry.outbound(target("web"), mesh.clone(), 0);
        open.passed(sent, 1);
        drop(telemetry.outbound(target("web"), mesh, 0));
        let outside = OutboundTls::Plaintext("external");
        drop(telemetry.outbound(OutboundTarget::default(), outside, 0));
        telemetry.outbound_refused(target("gone"), "no_endpoint");
        telemetry.outbound_failed(target("web"), "connect");
        telemetry.encode(&[]).unwrap()
    }

    fn origin() -> EdgeOrigin {
        EdgeOrigin { namespace: "shop".to_owned(), owner: "deployment/front".to_owned() }
    }

    fn web(service: &str) -> EdgePeer {
        EdgePeer {
            namespace: Some("shop".to_owned()),
            service: Some(service.to_owned()),
            port: Some(80),
            owner: Some("deployment/web".to_owned()),
        }
    }

    #[test]
    fn the_metrics_of_several_sidecars_are_one_table() {
        let mut counts = OutboundCounts::default();
        counts.add(&metrics(3)).unwrap();
        let mut of_another = OutboundCounts::default();
        of_another.add(&metrics(4)).unwrap();
        counts.merge(of_another);
        let outside = Edge {
            from: origin(),
            peer: EdgePeer::default(),
            tls: false,
            identity: None,
            reason: Some("external".to_owned()),
            counts: Counts { opened: 2, closed: 2, sent: 0, received: 0 },
        };
        let mesh = Edge {
            from: origin(),
            peer: web("web"),
            tls: true,
            identity: Some("web \"1\"".to_owned()),
            reason: None,
            counts: Counts { opened: 4, closed: 2, sent: 7, received: 2 },
        };
        assert_eq!(counts.edges(&origin()), [outside, mesh]);
        let failure = |peer, reason: &str, refused, attempts| EdgeFailure {
            from: origin(),
            peer,
            reason: reason.to_owned(),
            counts: FailureCounts { refused, attempts },
        };
        let failed =
            [failure(web("gone"), "no_endpoint", 2, 0), failure(web("web"), "connect", 0, 2)];
        assert_eq!(counts.failures(&origin()), failed);
    }

    #[test]
    fn what_cannot_be_read_is_no_silence() {
        let mut counts = OutboundCounts::default();
        let whole = metrics(1);
        let (begun, _) = whole.split_at(whole.len() / 2);
        assert_eq!(counts.add(begun), Err("its metrics end early".to_owned()));
        let (first, rest) = whole.split_once("outbound_tcp_opened_total{").unwrap();
        let (own, _) = rest.split_once('\n').unwrap();
        assert!(!first.is_empty() && own.starts_with("dst_namespace="), "{own}");
        for wrong in [
            "outbound_tcp_opened_total 1".to_owned(),
            "outbound_tcp_opened_total{tls=\"true\"} 1".to_owned(),
            format!("outbound_tcp_opened_total{{{}", own.replace("external", "a\u{1b}[31m")),
            format!("outbound_tcp_opened_total{{{}", own.replace("external", "a\\nb")),
        ] {
            let error = counts.add(&format!("{wrong}\n# EOF\n")).unwrap_err();
            let expected = wrong.escape_debug().to_string();
            assert!(error.ends_with(&expected), "{error}");
        }
        let later = counts.add("outbound_tcp_new_total{a=\"b\"} 1\n# EOF\n");
        assert_eq!((later, counts), (Ok(()), OutboundCounts::default()));
    }
}
