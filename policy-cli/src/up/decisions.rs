//! Live log: one line per decision.

use crate::expect::Verdict;
use crate::local_mesh::decision_log::DecisionRecord;
use crate::output::Paint;
use policy_engine::ControllerConfig;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A decision, as `-o json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct DecisionLine<'a> {
    /// Always `decision`.
    pub(crate) event: &'static str,
    /// Time, RFC 3339.
    pub(crate) at: String,
    /// Name in the table of clients, or the address.
    pub(crate) client: String,
    /// The client's real address.
    pub(crate) address: IpAddr,
    /// The identity that it proved.
    pub(crate) identity: Option<&'a str>,
    /// `namespace/pod`.
    pub(crate) workload: &'a str,
    /// Port.
    pub(crate) port: u16,
    /// Method; none for a connection.
    pub(crate) method: Option<&'a str>,
    /// Path and query.
    pub(crate) path: Option<&'a str>,
    /// HTTP status of the response.
    pub(crate) status: Option<u16>,
    /// `allow`, `audit`, `deny`.
    pub(crate) decision: Verdict,
    /// Stable reason of a denial.
    pub(crate) reason: Option<&'a str>,
    /// Route that matched.
    pub(crate) route: Option<&'a str>,
    /// The route's name among those of its object, such as `/books/:id`.
    #[serde(rename = "httpRoute", skip_serializing_if = "Option::is_none")]
    pub(crate) http_route: Option<&'a str>,
    /// Path that InboundRoutes delegated to the route, with the objects that it passed through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delegated: Option<&'a str>,
    /// Grant that permitted the request.
    pub(crate) authorization: Option<&'a str>,
}

impl<'a> DecisionLine<'a> {
    /// Creates the line of a decision. `names` are those of clients without an identity.
    pub(crate) fn new(
        entry: &'a DecisionRecord,
        config: &ControllerConfig,
        names: &BTreeMap<IpAddr, String>,
    ) -> Self {
        let address = entry.client.ip();
        let (method, path, status) = match &entry.request {
            Some((method, path, status)) => (Some(&**method), Some(&**path), Some(*status)),
            None => (None, None, None),
        };
        let at = jiff::Timestamp::try_from(entry.at).map(|at| format!("{at:.3}"));
        Self {
            event: "decision",
            at: at.unwrap_or_default(),
            client: client(entry, config, names),
            address,
            identity: entry.identity.as_deref(),
            workload: &entry.workload,
            port: entry.port.get(),
            method,
            path,
            status,
            decision: entry.found.decision,
            reason: entry.found.reason.as_deref(),
            route: entry.found.route.as_deref(),
            http_route: entry.http_route.as_deref(),
            delegated: entry.delegated.as_deref(),
            authorization: entry.found.authorization.as_deref(),
        }
    }

    /// The line for people.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let word = format!("{:5}", self.decision.as_str());
        let word = match self.decision {
            Verdict::Allow => paint.good(&word),
            Verdict::Audit => paint.notice(&word),
            Verdict::Deny => paint.bad(&word),
        };
        let time = self.at.get(11..23).unwrap_or(&self.at);
        let what = match (self.method, self.path) {
            (Some(method), Some(path)) => format!("{method} {}", visible(path)),
            (Some(_) | None, Some(_) | None) => "connection".to_owned(),
        };
        // A gRPC denial is HTTP 200 with a gRPC status, which would look like success.
        let status = self.status.filter(|status| self.reason.is_none() || *status != 200);
        let status = status.map(|status| format!(" → {status}")).unwrap_or_default();
        let mut line = format!(
            "{} {word} {} → {}:{}  {what}{status}",
            paint.dim(time),
            self.client,
            self.workload,
            self.port
        );
        if let Some(reason) = self.reason {
            line.push_str(&format!("  {}", paint.bad(reason)));
        }
        // The last object of a chain is the route.
        if let Some(route) = self.delegated.or(self.route) {
            line.push_str(&format!("  route {route}"));
        }
        if let Some(http_route) = self.http_route {
            line.push_str(&format!(" {}", visible(http_route)));
        }
        if let Some(authorization) = self.authorization {
            line.push_str(&format!("  by {authorization}"));
        }
        line.push('\n');
        line
    }
}

fn client(
    entry: &DecisionRecord,
    config: &ControllerConfig,
    names: &BTreeMap<IpAddr, String>,
) -> String {
    if let Some(identity) = &entry.identity {
        return match config.service_account_of(identity) {
            Some((name, namespace)) => format!("{namespace}/{name}"),
            None => identity.clone(),
        };
    }
    let address = entry.client.ip();
    names.get(&address).cloned().unwrap_or_else(|| address.to_string())
}

/// Escapes control characters, which could manipulate the terminal.
fn visible(path: &str) -> String {
    const LONGEST: usize = 200;
    let mut text: String =
        path.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if path.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::DecisionSummary;
    use std::time::{Duration, SystemTime};

    fn entry(identity: Option<&str>) -> DecisionRecord {
        DecisionRecord {
            at: SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(3_723_004)).unwrap(),
            client: "203.0.113.77:40000".parse().unwrap(),
            identity: identity.map(str::to_owned),
            workload: "shop/web-0".to_owned(),
            port: 8080.try_into().unwrap(),
            request: Some(("GET".to_owned(), "/a\u{1b}[31m".to_owned(), 403)),
            found: DecisionSummary {
                decision: Verdict::Deny,
                reason: Some("unauthorized".to_owned()),
                route: Some("HTTPRoute shop/api".to_owned()),
                authorization: None,
            },
            http_route: None,
            delegated: None,
        }
    }

    #[test]
    fn a_line_names_everything_and_nothing_escapes() {
        let names = BTreeMap::from([("203.0.113.77".parse().unwrap(), "outside".to_owned())]);
        let entry = entry(None);
        let line =
            DecisionLine::new(&entry, &ControllerConfig::default(), &names).text(Paint::plain());
        assert_eq!(
            line,
            "01:02:03.004 deny  outside → shop/web-0:8080  GET /a\u{fffd}[31m → 403  unauthorized  \
             route HTTPRoute shop/api\n"
        );
    }

    #[test]
    fn a_delegated_path_is_shown_with_every_object_that_it_passed_through() {
        let chain = "/legal of InboundRoute site/www > InboundRoute legal/legal";
        let entry = DecisionRecord { delegated: Some(chain.to_owned()), ..entry(None) };
        let line = DecisionLine::new(&entry, &ControllerConfig::default(), &BTreeMap::new())
            .text(Paint::plain());
        assert!(line.ends_with(&format!("  unauthorized  route {chain}\n")), "{line}");
    }

    #[test]
    fn a_route_of_a_binding_is_shown_with_its_path() {
        let entry = DecisionRecord { http_route: Some("/books/:id".to_owned()), ..entry(None) };
        let line = DecisionLine::new(&entry, &ControllerConfig::default(), &BTreeMap::new());
        let text = line.text(Paint::plain());
        assert!(text.ends_with("  unauthorized  route HTTPRoute shop/api /books/:id\n"), "{text}");
        assert_eq!(serde_json::to_value(&line).unwrap()["httpRoute"], "/books/:id");
    }

    #[test]
    fn an_identity_is_shown_as_its_service_account() {
        let entry = entry(Some("web.shop.serviceaccount.identity.linkerd.cluster.local"));
        let line = DecisionLine::new(&entry, &ControllerConfig::default(), &BTreeMap::new());
        assert_eq!(line.client, "shop/web");
    }
}
