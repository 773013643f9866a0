//! Selection of a sample request for a client: one that its policies permit, if there is one.

use http::{HeaderMap, Method};
use policy_core::{
    Connection, Decision, Evaluator, Facts, Identity, Memo, PathPattern, Protocol, RequestMatch,
    RequestView, ServerPolicy, Tls, matching::Segment,
};
use std::net::IpAddr;
use std::sync::Arc;

/// A sample request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuggestedRequest {
    /// Method.
    pub(crate) method: Method,
    /// Path.
    pub(crate) path: String,
}

/// A port that a client may try.
pub(crate) struct Candidate {
    /// Its policy.
    pub(crate) policy: Arc<ServerPolicy>,
    /// The workload's facts.
    pub(crate) facts: Arc<Facts>,
    evaluator: Option<Evaluator>,
}

impl Candidate {
    /// Creates a candidate.
    pub(crate) fn new(policy: Arc<ServerPolicy>, facts: Arc<Facts>) -> Self {
        let evaluator = Evaluator::build(Arc::clone(&policy)).ok();
        Self { policy, facts, evaluator }
    }

    /// Returns a request that is permitted for the client. Ports that are not HTTP have none.
    pub(crate) fn permitted_request(
        &self,
        client: IpAddr,
        identity: Option<&Identity>,
    ) -> Option<SuggestedRequest> {
        let evaluator = self.evaluator.as_ref()?;
        let tls = identity.map_or(Tls::Absent, |identity| Tls::Terminated(Some(identity)));
        let connection = Connection { client, tls, facts: &self.facts };
        let headers = HeaderMap::new();
        requests(&self.policy).into_iter().find(|request| {
            let view = RequestView {
                method: &request.method,
                host: None,
                path: &request.path,
                query: None,
                headers: &headers,
            };
            let decision = evaluator.decide_request(&connection, &mut Memo::new(), &view);
            matches!(decision, Decision::Permit(_))
        })
    }

    /// Returns a request for a client without any permitted one.
    pub(crate) fn fallback(&self) -> SuggestedRequest {
        let first = requests(&self.policy).into_iter().next();
        first.unwrap_or(SuggestedRequest { method: Method::GET, path: "/".to_owned() })
    }
}

/// Selects the port and request: a permitted one, and one for curl if possible.
pub(crate) fn suggest(
    candidates: &[Candidate],
    client: IpAddr,
    identity: Option<&Identity>,
) -> Option<(usize, SuggestedRequest)> {
    let plain = |candidate: &Candidate| {
        matches!(candidate.policy.protocol, Protocol::Http1 | Protocol::Detect { .. })
    };
    let mut order: Vec<_> = candidates.iter().enumerate().collect();
    order.sort_by_key(|(_, candidate)| !plain(candidate));
    let passes = order.iter().find_map(|(index, candidate)| {
        Some((*index, candidate.permitted_request(client, identity)?))
    });
    passes.or_else(|| order.first().map(|(index, candidate)| (*index, candidate.fallback())))
}

/// Candidate requests: one per match of each route, the plain one, and one per probe.
fn requests(policy: &ServerPolicy) -> Vec<SuggestedRequest> {
    if !policy.protocol.is_http() {
        return Vec::new();
    }
    let routes = policy.routes.routes.iter().flat_map(|route| &route.rules);
    let matches = routes.flat_map(|rule| &rule.matches);
    let probes = policy.exemptions.iter().filter_map(|exemption| exemption.request.as_deref());
    let mut requests: Vec<SuggestedRequest> = matches.filter_map(request).collect();
    requests.push(match policy.protocol {
        Protocol::Grpc => SuggestedRequest {
            method: Method::POST,
            path: "/grpc.health.v1.Health/Check".to_owned(),
        },
        Protocol::Detect { .. }
        | Protocol::Http1
        | Protocol::Http2
        | Protocol::Opaque
        | Protocol::Tls => SuggestedRequest { method: Method::GET, path: "/".to_owned() },
    });
    requests.extend(probes.filter_map(request));
    requests
}

/// A request that matches; `None` if it would need headers or a query.
fn request(wanted: &RequestMatch) -> Option<SuggestedRequest> {
    if !wanted.headers().is_empty() || !wanted.query().is_empty() {
        return None;
    }
    let PathPattern::Segments { segments, rest: _ } = &wanted.path else { return None };
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.push_str(match segment {
            Segment::Literal(text) => text,
            Segment::Parameter(_) => "Anything",
        });
    }
    if path.is_empty() {
        path.push('/');
    }
    Some(SuggestedRequest { method: wanted.method().cloned().unwrap_or(Method::GET), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_becomes_a_request() {
        let words = |wanted: &RequestMatch| {
            request(wanted).map(|request| format!("{} {}", request.method, request.path))
        };
        let prefix = RequestMatch::path(PathPattern::prefix("/api"));
        assert_eq!(words(&prefix).as_deref(), Some("GET /api"));
        assert_eq!(words(&RequestMatch::everything()).as_deref(), Some("GET /"));
        let call = RequestMatch::grpc(Some("a.B"), None);
        assert_eq!(words(&call).as_deref(), Some("POST /a.B/Anything"));
    }
}
