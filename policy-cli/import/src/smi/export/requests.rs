//! The requests that a client may send, as matches of an HTTPRouteGroup.

use super::clients::{Account, AccountOfIdentity, SmiClients};
use super::paths::{SmiPath, escaped, may_overlap, smi_path};
use policy_core::precedence::Precedence;
use policy_core::{Origin, RequestMatch, RouteTable, ServerPolicy, Unmatched, ValueMatch};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A match of a port, and who may send what it matches.
pub(super) struct SmiMatch {
    /// The match in the words of SMI, or the reason why it cannot be said.
    said: Result<Value, String>,
    /// False if it is said narrower than it is.
    is_exact: bool,
    path: SmiPath,
    request: RequestMatch,
    clients: SmiClients,
    place: MatchPlace,
}

/// The place of a match among others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchPlace {
    /// Before all others.
    First,
    /// By precedence.
    ByPrecedence,
    /// After all others.
    Last,
}

/// The requests of one client.
#[derive(Default)]
pub(super) struct SmiRequests {
    /// The matches, without names.
    pub(super) matches: Vec<Value>,
    /// Requests that cannot be said.
    pub(super) lost: BTreeSet<String>,
}

impl SmiMatch {
    fn new(request: RequestMatch, clients: SmiClients, place: MatchPlace) -> Self {
        let path = smi_path(&request.path);
        let is_exact = path.said.as_ref().is_none_or(|(_, is_exact)| *is_exact);
        Self { said: words(&request, &path), is_exact, path, request, clients, place }
    }

    /// The clients of the match.
    pub(super) fn clients(&self) -> &SmiClients {
        &self.clients
    }

    /// True if some request that matches both may be decided by this one.
    fn may_precede(&self, other: &Self) -> bool {
        let methods = (self.request.method(), other.request.method());
        let other_methods = matches!(methods, (Some(one), Some(two)) if one != two);
        if other_methods || !may_overlap(&self.path.bound, &other.path.bound) {
            return false;
        }
        match (self.place, other.place) {
            (MatchPlace::First, _) | (_, MatchPlace::Last) => true,
            (MatchPlace::Last, MatchPlace::First | MatchPlace::ByPrecedence) => false,
            (MatchPlace::ByPrecedence, MatchPlace::First | MatchPlace::ByPrecedence) => {
                // Of equal ones the older counts, which is not told apart here.
                Precedence::of(&self.request) <= Precedence::of(&other.request)
            }
        }
    }
}

/// The matches of a port.
///
/// # Errors
/// Its routes depend on what SMI does not know.
pub(super) fn matches_of(
    policy: &ServerPolicy,
    account_of: AccountOfIdentity<'_>,
) -> Result<Vec<SmiMatch>, &'static str> {
    let RouteTable { routes, hosts, otherwise } = &policy.routes;
    if !hosts.is_empty() || routes.iter().any(|route| !route.hosts.is_empty()) {
        return Err("its routes depend on hosts");
    }
    let mut found = Vec::new();
    for route in routes {
        let (place, grants) = match &route.origin {
            Origin::Objects(_) | Origin::Default | Origin::Probe | Origin::Delegated(_) => {
                (MatchPlace::ByPrecedence, true)
            }
            Origin::Guard | Origin::Deny(_) | Origin::Undelegated(_) | Origin::Unreadable(_) => {
                (MatchPlace::First, false)
            }
        };
        let mut clients = SmiClients::default();
        if grants {
            clients.add(&route.authorizations, account_of);
            if route.inherits_server {
                clients.add(&policy.authorizations, account_of);
            }
        }
        for rule in &route.rules {
            let mut clients = clients.clone();
            if !rule.effects.is_empty() {
                let lost = "filters of requests cannot be said".to_owned();
                clients = SmiClients { accounts: BTreeSet::new(), lost: BTreeSet::from([lost]) };
            }
            let every = [RequestMatch::everything()];
            let own = if rule.matches.is_empty() { &every[..] } else { &rule.matches[..] };
            found.extend(own.iter().map(|it| SmiMatch::new(it.clone(), clients.clone(), place)));
        }
    }
    if *otherwise == Unmatched::DefaultRoute {
        let mut clients = SmiClients::default();
        clients.add(&policy.authorizations, account_of);
        found.push(SmiMatch::new(RequestMatch::everything(), clients, MatchPlace::Last));
    }
    Ok(found)
}

/// True if a client may send every request.
pub(super) fn may_send_all(client: &Account, matches: &[SmiMatch]) -> bool {
    matches.iter().all(|it| it.clients.accounts.contains(client))
        && matches.iter().any(|it| it.place == MatchPlace::Last)
}

/// The requests that a client may send: those of its matches that no match without it can take away.
pub(super) fn requests_of(client: &Account, matches: &[SmiMatch]) -> SmiRequests {
    let mut found = SmiRequests::default();
    let (own, others): (Vec<_>, Vec<_>) =
        matches.iter().partition(|it| it.clients.accounts.contains(client));
    for one in own {
        let said = match &one.said {
            Ok(said) => said,
            Err(reason) => {
                found.lost.insert(reason.clone());
                continue;
            }
        };
        if others.iter().any(|other| other.may_precede(one)) {
            let path = said.get("pathRegex").and_then(Value::as_str).unwrap_or_default();
            found.lost.insert(format!(
                "`{path}` for {}/{}: another route may deny a part of it",
                client.0, client.1
            ));
            continue;
        }
        if !one.is_exact {
            let note = "paths with `%`, `;` or `\\` in a segment that varies are left out";
            found.lost.insert(note.to_owned());
        }
        if !found.matches.contains(said) {
            found.matches.push(said.clone());
        }
    }
    found
}

/// A match in the words of SMI.
fn words(request: &RequestMatch, path: &SmiPath) -> Result<Value, String> {
    if !request.query().is_empty() {
        return Err("conditions on query parameters cannot be said".to_owned());
    }
    let Some((expression, _)) = &path.said else {
        return Err(
            "a regular expression of paths is not known to match only paths as they are sent"
                .to_owned(),
        );
    };
    let mut headers = Map::new();
    for header in request.headers() {
        if header.name == http::header::HOST {
            return Err("conditions on hosts cannot be said".to_owned());
        }
        let value = match &header.value {
            ValueMatch::Exact(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => format!("^{}$", escaped(text)),
                Err(_) => return Err("a header that is no text cannot be said".to_owned()),
            },
            ValueMatch::Regex(pattern) => format!("^(?:{})$", pattern.source()),
        };
        if headers.insert(header.name.to_string(), value.into()).is_some() {
            return Err("two conditions on one header cannot be said".to_owned());
        }
    }
    let method = request.method().map_or("*", |method| method.as_str());
    let mut said = json!({"pathRegex": expression, "methods": [method]});
    if let (false, Value::Object(fields)) = (headers.is_empty(), &mut said) {
        fields.insert("headers".to_owned(), headers.into());
    }
    Ok(said)
}
