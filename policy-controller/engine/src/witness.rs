//! Requests made of the matches of routes, about which policies decide.

use http::header::HeaderMap;
use http::{HeaderValue, Method};
use policy_core::matching::Segment;
use policy_core::{
    Connection, Decision, Evaluator, HostPattern, Memo, PathPattern, RequestMatch, RequestView,
    ValueMatch, canonical_path,
};

/// The most hosts of a match that requests are made for.
const MAX_HOSTS: usize = 4;

/// Paths that a pattern takes; none of a regular expression.
pub(crate) fn paths(pattern: &PathPattern) -> Vec<String> {
    let PathPattern::Segments { segments, rest } = pattern else { return Vec::new() };
    let text = |segment: &Segment| match segment {
        Segment::Literal(text) => text.to_string(),
        Segment::Parameter(_) => "x".to_owned(),
    };
    let path = format!("/{}", segments.iter().map(text).collect::<Vec<_>>().join("/"));
    let below = rest.then(|| format!("{}/x", path.trim_end_matches('/')));
    let all = [Some(path), below].into_iter().flatten();
    all.filter_map(|path| canonical_path(&path).ok().map(|path| path.into_owned())).collect()
}

/// A request that is made of a match, so that policies can decide about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampleRequest {
    pub(crate) method: Method,
    pub(crate) host: Option<String>,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
}

impl SampleRequest {
    /// Requests that a match on these hosts takes; none if it has a regular expression.
    pub(crate) fn of(one: &RequestMatch, hosts: &[HostPattern]) -> Vec<Self> {
        let (pattern, method, headers, query) = one.parts();
        let mut lines = HeaderMap::new();
        for header in headers {
            let ValueMatch::Exact(value) = &header.value else { return Vec::new() };
            let Ok(value) = HeaderValue::from_bytes(value) else { return Vec::new() };
            lines.append(&header.name, value);
        }
        let mut parameters = Vec::new();
        for parameter in query {
            let ValueMatch::Exact(value) = &parameter.value else { return Vec::new() };
            let Ok(value) = std::str::from_utf8(value) else { return Vec::new() };
            let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_plain(&parameter.name) || !is_plain(value) {
                return Vec::new();
            }
            parameters.push(format!("{}={value}", parameter.name));
        }
        let query = (!parameters.is_empty()).then(|| parameters.join("&"));
        let methods = match method {
            Some(method) => vec![method.clone()],
            None => vec![Method::GET, Method::POST, Method::DELETE],
        };
        let hosts: Vec<Option<String>> = match hosts {
            [] => vec![None],
            hosts => hosts.iter().take(MAX_HOSTS).map(|host| Some(host_of(host))).collect(),
        };
        let mut all = Vec::new();
        for path in paths(pattern) {
            for method in &methods {
                for host in &hosts {
                    let (method, host, path) = (method.clone(), host.clone(), path.clone());
                    let (query, headers) = (query.clone(), lines.clone());
                    all.push(Self { method, host, path, query, headers });
                }
            }
        }
        all
    }

    /// True if the second of two policies permits the request of a client, and the first refuses it.
    pub(crate) fn is_opened(
        &self,
        [before, after]: [&Evaluator; 2],
        connection: &Connection<'_>,
    ) -> bool {
        let is_permitted = |by: &Evaluator| {
            let decision = by.decide_request(connection, &mut Memo::new(), &self.view());
            matches!(decision, Decision::Permit(_))
        };
        is_permitted(after) && !is_permitted(before)
    }

    pub(crate) fn view(&self) -> RequestView<'_> {
        let Self { method, host, path, query, headers } = self;
        let (host, query) = (host.as_deref(), query.as_deref());
        RequestView { method, host, path, query, headers }
    }
}

/// A name that a pattern takes.
fn host_of(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.to_string(),
        HostPattern::Suffix(name) => format!("x.{name}"),
    }
}

impl std::fmt::Display for SampleRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, host, path, query, headers: _ } = self;
        let mark = if query.is_some() { "?" } else { "" };
        let query = query.as_deref().unwrap_or_default();
        let host = host.as_deref().unwrap_or_default();
        write!(f, "`{method} {host}{path}{mark}{query}`")
    }
}
