//! Authorizes the requests of one connection.
//!
//! A request is forwarded if all of these hold:
//! 1. A policy is in force for the port (else `policy_pending`, `policy_expired`, …).
//! 2. The head is unambiguous: framing, target and values (else 400 with the fault).
//! 3. The policy permits it (else the evaluator's reason).
//! 4. No filter of the rule or the Server answers in the application's place (redirect, injected
//!    failure).
//! 5. Every rate limit of the client has a token. One without a readable number has none for anybody, and
//!    refuses before filters.

use super::filters::{self, FilterPlan};
use super::hosts;
use crate::headers;
use crate::limiter::ClientBucket;
use crate::request_snapshot::{RequestSnapshot, check_encoding};
use crate::respond::Answer;
use crate::store::{ActivePolicy, Live};
use crate::telemetry::{Caller, SeriesId};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Uri, Version};
use policy_core::evaluator::Memo;
use policy_core::target::{Target, canonical_target, canonical_target_at};
use policy_core::{Decision, Denial, Denied, Permit, RequestView, TargetFault};
use policy_tls::peer::Peer;
use std::sync::Arc;
use std::time::Instant;

/// Authorizes the requests of one connection, with a cache for the policy in force.
#[derive(Debug)]
pub struct Authorizer {
    caller: Caller,
    worker: usize,
    /// The targets that are authorized.
    targets: Targets,
    cache: Option<PolicyCache>,
}

/// Targets that an [`Authorizer`] accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Those that have a canonical form. The request is forwarded with it.
    WithCanonicalForm,
    /// Those that are canonical. A router has read the target before, so that another form would
    /// come too late for it.
    Canonical,
}

#[derive(Debug)]
struct PolicyCache {
    policy: Arc<ActivePolicy>,
    memo: Memo,
    bucket: Option<ClientBucket>,
    /// The series of the last permitted request, and its permit.
    series: Option<(Permit, SeriesId)>,
}

/// Outcome of authorizing a request.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "moved once per request; a box would cost more")]
pub enum AuthorizeOutcome {
    /// The request is forwarded with its head as it is now.
    Forward(Forward),
    /// The request is answered here.
    Refuse(Refusal),
}

/// A request to be forwarded. Only a permit creates one.
#[derive(Debug)]
#[non_exhaustive]
pub struct Forward {
    /// The permit to forward the request.
    pub permit: Permit,
    /// The response filters, and the timeouts.
    pub plan: FilterPlan,
    /// Boxed, because it moves through many calls.
    pub snapshot: Box<RequestSnapshot>,
    /// The policy of the decision.
    pub policy: Arc<ActivePolicy>,
    /// The series of the request, in the counters of `policy`.
    pub series: SeriesId,
}

/// A request that is answered here.
#[derive(Debug)]
pub struct Refusal {
    /// The response to the client.
    pub answer: Answer,
    /// The decision, for records and counters. A redirect or an injected failure answers a request
    /// that was permitted.
    pub decision: Result<Permit, Denial>,
    /// The policy of the decision, if one was in force.
    pub policy: Option<Arc<ActivePolicy>>,
}

impl Authorizer {
    /// Creates the authorizer of one connection of `caller`, counted at `worker`.
    pub fn new(caller: Caller, worker: usize) -> Self {
        Self { caller, worker, targets: Targets::WithCanonicalForm, cache: None }
    }

    /// Sets the targets that are accepted from now on.
    pub fn accept(&mut self, targets: Targets) {
        self.targets = targets;
    }

    /// Decides on the request of `head` by the `live` policy, and makes the head canonical for
    /// forwarding.
    pub fn authorize(
        &mut self,
        live: &Live,
        peer: &Peer,
        head: &mut Parts,
        now: Instant,
    ) -> AuthorizeOutcome {
        let policy = match live.in_force() {
            Ok(policy) => policy,
            Err(reason) => return refuse(Denial { reason, route: None }, None),
        };
        let (worker, caller, targets) = (self.worker, self.caller, self.targets);
        let cache = self.refresh(policy);
        let counters = &policy.counters;
        let decided = decide(cache, peer, head, targets).and_then(|permitted| {
            let reason = Denied::RateLimitInvalid;
            let denial = Denial { reason, route: permitted.0.route() };
            if policy.limiter.refuses() { Err(denial) } else { Ok(permitted) }
        });
        let (permit, canonical) = match decided {
            Ok(permitted) => permitted,
            Err(denial) => {
                counters.http_denied(worker, caller, &denial);
                return refuse(denial, Some(policy));
            }
        };
        counters.http_permitted(worker, caller, &permit);
        canonical.apply(head);
        // Taken before filters change the headers.
        let snapshot = Box::new(RequestSnapshot::of(head, &policy.evaluator));
        let plan = match filters::plan(policy, &permit, head, &snapshot) {
            Ok(plan) => plan,
            Err(answer) => {
                let policy = Some(Arc::clone(policy));
                return AuthorizeOutcome::Refuse(Refusal { answer, decision: Ok(permit), policy });
            }
        };
        if let Err(exceeded) = cache.take(peer, now) {
            counters.rate_limited(worker, caller, exceeded.scope);
            let denial = Denial { reason: Denied::RateLimited, route: permit.route() };
            let policy = Some(Arc::clone(policy));
            let answer = Answer::Limited(exceeded);
            return AuthorizeOutcome::Refuse(Refusal { answer, decision: Err(denial), policy });
        }
        let series = cache.series(worker, caller, permit);
        AuthorizeOutcome::Forward(Forward {
            permit,
            plan,
            snapshot,
            policy: Arc::clone(policy),
            series,
        })
    }

    fn refresh(&mut self, policy: &Arc<ActivePolicy>) -> &mut PolicyCache {
        let fresh = |policy: &Arc<ActivePolicy>| PolicyCache {
            policy: Arc::clone(policy),
            memo: Memo::new(),
            bucket: None,
            series: None,
        };
        let cache = self.cache.get_or_insert_with(|| fresh(policy));
        if !Arc::ptr_eq(&cache.policy, policy) {
            *cache = fresh(policy);
        }
        cache
    }

    /// Clears the cache unless it belongs to `policy`.
    pub fn forget_unless(&mut self, policy: Option<&Arc<ActivePolicy>>) {
        let same =
            |own: &PolicyCache| policy.is_some_and(|policy| Arc::ptr_eq(&own.policy, policy));
        if !self.cache.as_ref().is_some_and(same) {
            self.cache = None;
        }
    }
}

impl PolicyCache {
    fn series(&mut self, worker: usize, caller: Caller, permit: Permit) -> SeriesId {
        match self.series {
            Some((last, series)) if last == permit => series,
            Some(_) | None => {
                let series = self.policy.counters.series_of(worker, caller, &permit);
                self.series = Some((permit, series));
                series
            }
        }
    }

    fn take(&mut self, peer: &Peer, now: Instant) -> Result<(), crate::limiter::RateLimitExceeded> {
        let limiter = &self.policy.limiter;
        if limiter.is_unlimited() {
            return Ok(());
        }
        let identity = peer.identity().map(policy_core::Identity::as_str);
        let bucket = self.bucket.get_or_insert_with(|| limiter.client(identity, now));
        limiter.take(bucket, now)
    }
}

fn refuse(denial: Denial, policy: Option<&Arc<ActivePolicy>>) -> AuthorizeOutcome {
    let answer = Answer::Denied(denial.reason);
    AuthorizeOutcome::Refuse(Refusal { answer, decision: Err(denial), policy: policy.cloned() })
}

fn decide(
    cache: &mut PolicyCache,
    peer: &Peer,
    head: &Parts,
    targets: Targets,
) -> Result<(Permit, Canonical), Denial> {
    check_framing(head).map_err(fault)?;
    let handling = cache.policy.evaluator.policy().paths;
    check_encoding(head.extensions.get().copied(), handling).map_err(fault)?;
    hosts::with(|hosts| {
        let line = hosts::sole_host(head);
        if let Some(host) = line.and_then(|line| hosts.find(line)) {
            let target = canonical_target_at(host, &head.method, &head.uri, head.version, handling)
                .map_err(fault)?;
            check_form(&target, targets).map_err(fault)?;
            let permit = permit(cache, peer, head, &target)?;
            return Ok((permit, Canonical { uri: target.rewritten().map(Uri::from), host: None }));
        }
        let (uri, headers) = (&head.uri, &head.headers);
        let target =
            canonical_target(&head.method, uri, head.version, headers, handling).map_err(fault)?;
        check_form(&target, targets).map_err(fault)?;
        let permit = permit(cache, peer, head, &target)?;
        let canonical = Canonical::of(head, &target).ok_or(fault(TargetFault::Malformed))?;
        if let (Some(line), Some(host), None) = (line, &target.host, &canonical.host) {
            hosts.insert(line, host);
        }
        Ok((permit, canonical))
    })
}

fn check_form(target: &Target<'_>, targets: Targets) -> Result<(), TargetFault> {
    match targets {
        Targets::Canonical if !target.is_canonical() => Err(TargetFault::NotCanonical),
        Targets::Canonical | Targets::WithCanonicalForm => Ok(()),
    }
}

fn fault(fault: TargetFault) -> Denial {
    Denial { reason: Denied::Target(fault), route: None }
}

fn permit(
    cache: &mut PolicyCache,
    peer: &Peer,
    head: &Parts,
    target: &Target<'_>,
) -> Result<Permit, Denial> {
    let policy = &cache.policy;
    let view = RequestView {
        method: &head.method,
        host: target.host.as_deref(),
        path: &target.path,
        query: target.query,
        headers: &head.headers,
    };
    let connection = peer.connection(&policy.facts);
    match policy.evaluator.decide_request(&connection, &mut cache.memo, &view) {
        Decision::Deny(denial) => Err(denial),
        Decision::Permit(permit) => Ok(permit),
    }
}

/// Rejects a length beside a transfer coding (RFC 9112 section 6.3: request smuggling), and
/// CONNECT, because a tunnel to any destination is not covered by policy. A server around
/// `PolicyLayer` may have dropped one of the two fields before, as hyper's does.
fn check_framing(head: &Parts) -> Result<(), TargetFault> {
    if head.method == Method::CONNECT {
        return Err(TargetFault::Malformed);
    }
    let headers = &head.headers;
    if headers.contains_key(TRANSFER_ENCODING)
        && (headers.contains_key(CONTENT_LENGTH) || head.version < Version::HTTP_11)
    {
        return Err(TargetFault::Malformed);
    }
    // The sidecar has answered 431 before; around `PolicyLayer` the server sets the limit.
    if headers.keys_len() > headers::MAX_NAMES {
        return Err(TargetFault::Malformed);
    }
    // HTTP/1 values come trimmed.
    if head.version >= Version::HTTP_2 && headers::has_outer_blanks(headers) {
        return Err(TargetFault::OuterBlanks);
    }
    Ok(())
}

/// Changes to the head that make it canonical. Usually none.
#[derive(Debug)]
pub struct Canonical {
    uri: Option<Uri>,
    host: Option<HeaderValue>,
}

impl Canonical {
    /// Compares the head with its canonical target; `None` if the canonical parts form no valid
    /// target, which does not occur.
    fn of(head: &Parts, target: &Target<'_>) -> Option<Self> {
        let path = target.rewritten();
        if head.version >= Version::HTTP_2 {
            return Self::http2(head, target, path);
        }
        let host = match (head.headers.get(HOST), &target.host) {
            (Some(line), Some(host)) => {
                let line = line.to_str().ok()?;
                canonical_authority(line, host).map(HeaderValue::try_from).transpose().ok()?
            }
            // HTTP/1.0 in absolute form.
            (None, Some(host)) => Some(HeaderValue::try_from(&**host).ok()?),
            (_, None) => None,
        };
        let absolute = head.uri.authority().is_some();
        let uri = match path {
            Some(path) => Some(Uri::from(path)),
            None if absolute => Some(origin_form(head.uri.path_and_query()?)?),
            None => None,
        };
        Some(Self { uri, host })
    }

    /// Compares an HTTP/2 head: the host is in `:authority` only.
    fn http2(head: &Parts, target: &Target<'_>, path: Option<PathAndQuery>) -> Option<Self> {
        let sent = head.uri.authority().map(Authority::as_str);
        let line = head.headers.get(HOST).map(|line| std::str::from_utf8(line.as_bytes()));
        let authority = match (sent.or(line.transpose().ok()?), &target.host) {
            (Some(text), Some(host)) => match (canonical_authority(text, host), sent) {
                (None, Some(_)) => None,
                (None, None) => Some(text.to_owned()),
                (Some(canonical), _) => Some(canonical),
            },
            (_, _) => None,
        };
        if authority.is_none() && path.is_none() {
            return Some(Self { uri: None, host: None });
        }
        let mut parts = head.uri.clone().into_parts();
        if let Some(authority) = authority {
            parts.authority = Some(Authority::try_from(authority).ok()?);
            parts.scheme.get_or_insert(Scheme::HTTP);
        }
        if path.is_some() {
            parts.path_and_query = path;
        }
        Some(Self { uri: Some(Uri::from_parts(parts).ok()?), host: None })
    }

    fn apply(self, head: &mut Parts) {
        if let Some(uri) = self.uri {
            head.uri = uri;
        }
        if head.version >= Version::HTTP_2 {
            // It agrees with `:authority`, which was authorized and is forwarded.
            head.headers.remove(HOST);
        } else if let Some(host) = self.host {
            head.headers.insert(HOST, host);
        }
    }
}

/// Returns a target without its authority. The path of `http://host?query` is `/`, which is not
/// written there.
fn origin_form(target: &PathAndQuery) -> Option<Uri> {
    if target.as_str().starts_with('?') {
        return Uri::try_from(format!("/{}", target.as_str())).ok();
    }
    Some(Uri::from(target.clone()))
}

/// Returns `host[:port]` for `sent`, whose canonical host is `host`; `None` if `sent` is canonical.
/// Port 80 is the default of HTTP.
fn canonical_authority(sent: &str, host: &str) -> Option<String> {
    let after = match sent.strip_prefix(host) {
        Some("") => return None,
        Some(after) => after,
        None => sent.get(port_at(sent)..).unwrap_or_default(),
    };
    let port = after.trim_start_matches('.');
    let keep = port.len() > 1 && port != ":80";
    if keep && sent.starts_with(host) && port.len() == after.len() {
        return None;
    }
    Some(if keep { format!("{host}{port}") } else { host.to_owned() })
}

/// Returns the position of the port, with its colon.
fn port_at(sent: &str) -> usize {
    let bracket = sent.rfind(']').map_or(0, |at| at.saturating_add(1));
    let after = sent.get(bracket..).unwrap_or_default();
    after.find(':').map_or(sent.len(), |at| bracket.saturating_add(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond::{RefusalDetail, ResponseFormat, respond};
    use crate::store::{PolicyStore, StoreConfig};
    use crate::telemetry::Telemetry;
    use policy_core::{DefaultPolicy, RateLimit, Revision, Source, UndeclaredPorts};
    use policy_tls::peer::PeerTls;
    use std::num::NonZeroU16;

    #[test]
    fn an_invalid_rate_limit_without_a_number_refuses_every_permitted_request() {
        let telemetry = Arc::new(Telemetry::new(1));
        let caller = telemetry.caller(&policy_core::Tls::Absent);
        let store = PolicyStore::new(StoreConfig::default(), telemetry).unwrap();
        let port = NonZeroU16::new(8080).unwrap();
        store.declare(&[port].into(), UndeclaredPorts::Default);
        let answer = |default, content| {
            let mut policy = policy_core::testing::default_policy(default);
            let source = Source::Default("limit".into());
            let (total, identity, overrides) = (None, None, Vec::new());
            policy.rate_limit =
                Some(RateLimit { source, total, identity, overrides, refuses: true });
            let revision = Revision { content, ..Revision::default() };
            store.apply(port, Arc::new(policy), revision).unwrap();
            let request = http::Request::get("/").header(HOST, "web.example").body(()).unwrap();
            let (mut head, ()) = request.into_parts();
            let peer = Peer::new("10.0.0.1:1".parse().unwrap(), PeerTls::Absent);
            let live = store.port(port);
            let mut authorizer = Authorizer::new(caller, 0);
            match authorizer.authorize(&live.live(), &peer, &mut head, Instant::now()) {
                AuthorizeOutcome::Forward(forward) => panic!("{forward:?}"),
                AuthorizeOutcome::Refuse(Refusal { answer, decision, .. }) => {
                    let format = ResponseFormat::of(&head, true, RefusalDetail::Reason);
                    (respond(&answer, &format).status().as_u16(), decision.unwrap_err().reason)
                }
            }
        };
        let invalid = Denied::RateLimitInvalid;
        assert_eq!(answer(DefaultPolicy::AllUnauthenticated, 1), (429, invalid));
        assert_eq!(answer(DefaultPolicy::Deny, 2), (403, Denied::Unauthorized));
    }

    #[track_caller]
    fn check(sent: &str, host: &str, want: Option<&str>) {
        assert_eq!(canonical_authority(sent, host).as_deref(), want, "{sent}");
    }

    #[test]
    fn the_host_that_is_forwarded_is_the_one_that_was_judged() {
        check("web.example", "web.example", None);
        check("web.example:8080", "web.example", None);
        check("web.example:80", "web.example", Some("web.example"));
        check("web.example:", "web.example", Some("web.example"));
        check("WEB.example", "web.example", Some("web.example"));
        check("WEB.example:8080", "web.example", Some("web.example:8080"));
        check("web.example.", "web.example", Some("web.example"));
        check("web.example.:81", "web.example", Some("web.example:81"));
        check("[::1]:81", "[::1]", None);
        check("[0:0::1]:81", "[::1]", Some("[::1]:81"));
        check("[0:0::1]", "[::1]", Some("[::1]"));
    }
}
