//! Applies the filters of a permit: header changes, redirects, injected failures, timeouts.

use super::timer::{RequestTimeouts, client_deadline};
use crate::headers;
use crate::request_snapshot::RequestSnapshot;
use crate::respond::{Answer, Fault, ResponseFault};
use crate::store::ActivePolicy;
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use policy_core::filter::{Failure, HeaderChange, Redirect, RedirectPath};
use policy_core::host::canonical_host;
use policy_core::matching::PathPattern;
use policy_core::{
    EffectiveTimeouts, Filter, FilterKind, HeaderRewrite, Permit, RequestView, naive,
};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The filters that remain while a permitted request is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterPlan {
    /// The bounds on parts of the exchange. Boxed, because few requests have any.
    pub timeouts: Option<Box<RequestTimeouts>>,
    /// True if [`change_response`] has filters to apply.
    pub response: bool,
}

/// Applies the request filters in order. `snapshot` is of the head before them. `Err`: a filter
/// answers in the application's place.
pub fn plan(
    policy: &ActivePolicy,
    permit: &Permit,
    head: &mut Parts,
    snapshot: &RequestSnapshot,
) -> Result<FilterPlan, Answer> {
    let evaluator = &policy.evaluator;
    // Read before any filter changes it.
    let bounded = evaluator.effects(permit).any(|effect| effect.kind.is_timeout());
    let client = if bounded { client_deadline(head) } else { None };
    let prefix = || matched_prefix(policy, permit, snapshot);
    if !evaluator.effects(permit).any(|effect| effect.kind.is_conditional()) {
        return apply_all(evaluator.effects(permit), prefix, head, client);
    }
    let host = snapshot.authority().and_then(|authority| canonical_host(authority).ok());
    let request = snapshot.request(host.as_ref().map(|host| &*host.name));
    // The snapshot has the headers of matches alone.
    let request = RequestView { headers: &head.headers, ..request };
    let effects = evaluator.effects_on(permit, &request);
    apply_all(effects.into_iter(), prefix, head, client)
}

/// Applies the effects of one request. `prefix` returns the length of the prefix that matched.
fn apply_all<'e>(
    effects: impl Iterator<Item = &'e Filter>,
    prefix: impl Fn() -> Option<usize>,
    head: &mut Parts,
    client: Option<Duration>,
) -> Result<FilterPlan, Answer> {
    let (mut response, mut changed) = (false, false);
    let mut timeouts = EffectiveTimeouts::default();
    for effect in effects {
        match &effect.kind {
            FilterKind::RequestHeaders(change) => {
                apply(change, &mut head.headers).map_err(|_| Answer::HeadTooLarge)?;
                changed = true;
            }
            FilterKind::Rewrite(change) => {
                rewrite(change, &mut head.headers).map_err(|_| Answer::HeadTooLarge)?;
                changed = true;
            }
            FilterKind::ResponseHeaders(_) => response = true,
            kind @ (FilterKind::Timeout(_) | FilterKind::Timeouts(_)) => timeouts.add(kind),
            FilterKind::Redirect(redirect) => {
                if let Some(answer) = redirect_to(redirect, &prefix, head) {
                    return Err(answer);
                }
            }
            FilterKind::Failure(failure) if is_sampled(failure) => {
                return Err(injected_failure(failure));
            }
            FilterKind::Failure(_) => {}
        }
    }
    if changed {
        headers::clean_changed(head);
    }
    Ok(FilterPlan { timeouts: RequestTimeouts::new(timeouts, client), response })
}

/// The names that rewrites govern in a request's head. A request's trailers must not have them: an
/// application may take the one for the other.
pub fn rewritten<'p>(
    policy: &'p ActivePolicy,
    permit: &Permit,
) -> impl Iterator<Item = &'p HeaderName> {
    policy.evaluator.effects(permit).flat_map(|effect| match &effect.kind {
        FilterKind::Rewrite(rewrite) => Some(rewrite.names()).into_iter().flatten(),
        FilterKind::RequestHeaders(_)
        | FilterKind::ResponseHeaders(_)
        | FilterKind::Redirect(_)
        | FilterKind::Failure(_)
        | FilterKind::Timeout(_)
        | FilterKind::Timeouts(_) => None.into_iter().flatten(),
    })
}

/// Applies the response filters in order. `Err`: the response has too many fields; this answers in
/// its place.
pub fn change_response(
    policy: &ActivePolicy,
    permit: &Permit,
    headers: &mut HeaderMap,
) -> Result<(), Answer> {
    for effect in policy.evaluator.effects(permit) {
        match &effect.kind {
            FilterKind::ResponseHeaders(change) => {
                apply(change, headers)
                    .map_err(|_| Answer::Upstream(Fault::Response(ResponseFault::TooLarge)))?;
            }
            FilterKind::RequestHeaders(_)
            | FilterKind::Rewrite(_)
            | FilterKind::Redirect(_)
            | FilterKind::Failure(_)
            | FilterKind::Timeout(_)
            | FilterKind::Timeouts(_) => {}
        }
    }
    Ok(())
}

/// Error of a head with too many fields.
struct TooManyHeaders;

/// Applies `add`, then `set`, then `remove` (docs/spec/proxy.md 3.5).
fn apply(change: &HeaderChange, headers: &mut HeaderMap) -> Result<(), TooManyHeaders> {
    append(&change.add, headers)?;
    replace(&change.set, headers)?;
    for name in &change.remove {
        headers.remove(name);
    }
    check_number(headers)
}

/// Applies `clear`, then `set`, then `add`.
fn rewrite(change: &HeaderRewrite, headers: &mut HeaderMap) -> Result<(), TooManyHeaders> {
    for name in &change.clear {
        headers.remove(name);
    }
    replace(&change.set, headers)?;
    append(&change.add, headers)?;
    check_number(headers)
}

fn append(
    fields: &[(HeaderName, HeaderValue)],
    headers: &mut HeaderMap,
) -> Result<(), TooManyHeaders> {
    for (name, value) in fields {
        headers.try_append(name.clone(), value.clone()).map_err(|_| TooManyHeaders)?;
    }
    Ok(())
}

fn replace(
    fields: &[(HeaderName, HeaderValue)],
    headers: &mut HeaderMap,
) -> Result<(), TooManyHeaders> {
    for (name, value) in fields {
        headers.try_insert(name.clone(), value.clone()).map_err(|_| TooManyHeaders)?;
    }
    Ok(())
}

fn check_number(headers: &HeaderMap) -> Result<(), TooManyHeaders> {
    if headers.keys_len() > headers::MAX_NAMES { Err(TooManyHeaders) } else { Ok(()) }
}

fn injected_failure(failure: &Failure) -> Answer {
    Answer::Failure {
        status: StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        grpc: failure.grpc_status,
        message: failure.message.clone(),
    }
}

/// Selects a share of the requests by a keyed hash of their number.
fn is_sampled(failure: &Failure) -> bool {
    if failure.numerator >= failure.denominator {
        return true;
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static KEY: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::new);
    let number = KEY.hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    let drawn = number.checked_rem(u64::from(failure.denominator)).unwrap_or(0);
    drawn < u64::from(failure.numerator)
}

/// Returns the redirect; `None` if it leads to the request's own location. `prefix` returns the
/// length of the prefix that matched.
fn redirect_to(
    redirect: &Redirect,
    prefix: impl FnOnce() -> Option<usize>,
    head: &Parts,
) -> Option<Answer> {
    let status = StatusCode::from_u16(redirect.status).unwrap_or(StatusCode::FOUND);
    let Some((location, same)) = location(redirect, prefix, head) else {
        return Some(Answer::InvalidRedirect);
    };
    match (same, HeaderValue::try_from(location)) {
        (true, _) => None,
        (false, Ok(location)) => Some(Answer::Redirect { status, location }),
        (false, Err(_)) => Some(Answer::InvalidRedirect),
    }
}

/// Returns the location, and whether it is the request's own.
fn location(
    redirect: &Redirect,
    prefix: impl FnOnce() -> Option<usize>,
    head: &Parts,
) -> Option<(String, bool)> {
    let own_scheme = head.uri.scheme().map_or("http", Scheme::as_str);
    let scheme = redirect.scheme.as_deref().unwrap_or(own_scheme);
    let sent = if head.version >= Version::HTTP_2 {
        head.uri.authority().map(http::uri::Authority::as_str)
    } else {
        head.headers.get(http::header::HOST).and_then(|line| line.to_str().ok())
    }?;
    let bracket = sent.rfind(']').unwrap_or(0);
    let colon = sent.rfind(':').filter(|at| *at > bracket);
    let (own_host, own_port) = match colon.and_then(|at| sent.split_at_checked(at)) {
        Some((host, port)) => (host, port.strip_prefix(':').and_then(|p| p.parse::<u16>().ok())),
        None => (sent, None),
    };
    let host = redirect.host.as_deref().unwrap_or(own_host);
    // The request's port, or the scheme's default if the scheme was given.
    let port = redirect.port.or(if redirect.scheme.is_some() { None } else { own_port });
    let port = port.filter(|port| Some(*port) != default_port(scheme));
    let path = match &redirect.path {
        None => head.uri.path().to_owned(),
        Some(RedirectPath::Full(path)) => path.to_string(),
        Some(RedirectPath::Prefix(with)) => replace_prefix(head.uri.path(), with, prefix()?)?,
    };
    let query = match (&redirect.path, head.uri.query()) {
        // A full path with a query of its own keeps it.
        (Some(RedirectPath::Full(path)), _) if path.contains('?') => String::new(),
        (_, Some(query)) => format!("?{query}"),
        (_, None) => String::new(),
    };
    let port_text = port.map_or(String::new(), |port| format!(":{port}"));
    let own_port = own_port.filter(|port| Some(*port) != default_port(own_scheme));
    let same =
        scheme == own_scheme && host == own_host && port == own_port && path == head.uri.path();
    Some((format!("{scheme}://{host}{port_text}{path}{query}"), same))
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Returns the length of the prefix that the permitted request matched; `None` if it matched none. A
/// rule may have several prefixes, and a longer one than that which matched may fit the path.
fn matched_prefix(
    policy: &ActivePolicy,
    permit: &Permit,
    snapshot: &RequestSnapshot,
) -> Option<usize> {
    let id = permit.route()?;
    let (_, rule) = policy.evaluator.rule(id)?;
    let host = snapshot.authority().and_then(|authority| canonical_host(authority).ok());
    let request = snapshot.request(host.as_ref().map(|host| &*host.name));
    let governing = match &rule.matches[..] {
        [] => return Some(0),
        [one] => one,
        [..] => naive::governing_match(policy.evaluator.policy(), id, &request)?,
    };
    prefix_length(&governing.path, request.path)
}

/// Replaces the first `length` bytes of the path.
fn replace_prefix(path: &str, with: &str, length: usize) -> Option<String> {
    let rest = path.get(length..)?;
    let with = with.trim_end_matches('/');
    let joined = if rest.is_empty() || rest.starts_with('/') {
        format!("{with}{rest}")
    } else {
        format!("{with}/{rest}")
    };
    Some(if joined.is_empty() { "/".to_owned() } else { joined })
}

/// Returns the number of bytes of `path` that a pattern that matched it covers; `None` if it is no
/// prefix.
fn prefix_length(pattern: &PathPattern, path: &str) -> Option<usize> {
    let PathPattern::Segments { segments, rest: true } = pattern else { return None };
    let mut covered = 0_usize;
    for _ in segments {
        let own = path.get(covered..)?.strip_prefix('/')?.split('/').next().unwrap_or_default();
        covered = covered.saturating_add(1).saturating_add(own.len());
    }
    Some(covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(uri: &str) -> Parts {
        Request::get(uri).header("host", "web.example:8080").body(()).unwrap().into_parts().0
    }

    fn redirect() -> Redirect {
        Redirect { scheme: None, host: None, port: None, path: None, status: 302 }
    }

    #[track_caller]
    fn leads(redirect: &Redirect, prefix: &str, uri: &str, want: &str) {
        let head = head(uri);
        let prefix = || prefix_length(&PathPattern::prefix(prefix), head.uri.path());
        match redirect_to(redirect, prefix, &head) {
            Some(Answer::Redirect { location, .. }) => assert_eq!(location, want),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scheme_host_port_and_path_default_to_the_request() {
        let https = Redirect { scheme: Some("https".into()), ..redirect() };
        leads(&https, "/", "/a?b=c", "https://web.example/a?b=c");
        let host = Redirect { host: Some("other.example".into()), ..redirect() };
        leads(&host, "/", "/a", "http://other.example:8080/a");
        let port = Redirect { port: Some(80), ..redirect() };
        leads(&port, "/", "/a", "http://web.example/a");
    }

    #[test]
    fn a_prefix_is_replaced_by_whole_segments() {
        let to =
            |with: &str| Redirect { path: Some(RedirectPath::Prefix(with.into())), ..redirect() };
        leads(&to("/new"), "/old", "/old/a", "http://web.example:8080/new/a");
        leads(&to("/new"), "/old", "/old", "http://web.example:8080/new");
        leads(&to("/"), "/old", "/old/a", "http://web.example:8080/a");
        leads(&to("/"), "/old", "/old", "http://web.example:8080/");
        leads(&to("/new"), "/", "/a", "http://web.example:8080/new/a");
    }

    #[test]
    fn a_redirect_to_the_same_place_is_none() {
        let port = Redirect { port: Some(8080), ..redirect() };
        assert!(redirect_to(&port, || Some(0), &head("/a?b")).is_none());
    }

    #[test]
    fn a_share_of_the_requests_fails() {
        let failure = |numerator| Failure {
            status: 500,
            grpc_status: 13,
            message: "x".into(),
            numerator,
            denominator: 4,
            required: false,
        };
        let struck = |share| (0..4000).filter(|_| is_sampled(&failure(share))).count();
        assert_eq!(struck(4), 4000);
        assert_eq!(struck(0), 0);
        assert!((800..1200).contains(&struck(1)), "{}", struck(1));
    }

    #[test]
    fn more_headers_than_a_map_surely_has_room_for_are_an_error() {
        let name = |n: usize| http::HeaderName::try_from(format!("x-{n}")).unwrap();
        let all = (0..=headers::MAX_NAMES).map(|n| (name(n), HeaderValue::from_static("1")));
        let change = HeaderChange { add: all.clone().collect(), ..HeaderChange::default() };
        assert!(apply(&change, &mut HeaderMap::new()).is_err());
        let change = HeaderChange { set: all.collect(), ..HeaderChange::default() };
        assert!(apply(&change, &mut HeaderMap::new()).is_err());
    }

    #[test]
    fn a_rewrite_clears_then_sets_then_adds() {
        let value = |v: &'static str| HeaderValue::from_static(v);
        let name = http::HeaderName::from_static;
        let change = HeaderRewrite {
            clear: vec![name("x-a"), name("x-b"), name("x-c")],
            set: vec![(name("x-a"), value("1")), (name("x-d"), value("1"))],
            add: vec![(name("x-a"), value("2")), (name("x-b"), value("2"))],
            ..HeaderRewrite::default()
        };
        let mut headers = HeaderMap::new();
        for name in ["x-a", "x-b", "x-c", "x-d", "x-d"] {
            headers.append(name, value("0"));
        }
        assert!(rewrite(&change, &mut headers).is_ok());
        let lines = |name| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(lines("x-a"), ["1", "2"]);
        assert_eq!(lines("x-b"), ["2"]);
        assert_eq!(lines("x-c"), [""; 0]);
        assert_eq!(lines("x-d"), ["1"]);
    }

    #[test]
    fn changes_apply_in_the_order_add_set_remove() {
        let value = |v: &'static str| HeaderValue::from_static(v);
        let name = http::HeaderName::from_static;
        let change = HeaderChange {
            add: vec![(name("x-a"), value("1")), (name("x-b"), value("1"))],
            set: vec![(name("x-a"), value("2"))],
            remove: vec![name("x-b")],
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-a", value("0"));
        assert!(apply(&change, &mut headers).is_ok());
        assert_eq!(headers.get_all("x-a").iter().collect::<Vec<_>>(), ["2"]);
        assert!(!headers.contains_key("x-b"));
    }
}
