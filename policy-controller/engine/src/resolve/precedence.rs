//! Differences between the rules that our proxies and Linkerd's pick.
//!
//! Ours follow Gateway API: exact paths before expressions before prefixes, then method, headers,
//! query parameters. Linkerd's look at the length of what was matched, then at headers, query
//! parameters and method, so that an exact path, an expression and a prefix of the same length tie.
//! gRPC Servers are ordered alike by both. Paths with parameters are left out: what competes with
//! them is not sent to Linkerd's proxies at all.

use crate::incremental::{Context, query};
use crate::query::policy::AttachedRoutesOf;
use crate::query::precedence::{
    PrecedenceDifference, PrecedenceDifferences, PrecedenceDifferencesOf, RuleRef,
};
use policy_core::matching::Segment;
use policy_core::precedence::Precedence;
use policy_core::{HostPattern, PathPattern, RequestMatch, Route, ValueMatch};
use policy_crds::resource::ProxyProtocol;
use policy_crds::{Body, Resource};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most pairs of matches of a Server that are compared.
const MAX_COMPARED: usize = 4096;

/// The most differences of a Server that are reported.
const MAX_REPORTED: usize = 32;

query!(PrecedenceDifferencesOf, Arc<PrecedenceDifferences>, differing);

fn differing(query: &PrecedenceDifferencesOf, cx: &mut Context<'_>) -> Arc<PrecedenceDifferences> {
    let ordered_alike = match cx.object(&query.0).map(|object| &object.body) {
        Some(Body::Valid(Resource::Server(server))) => server.protocol == ProxyProtocol::Grpc,
        Some(Body::Valid(_) | Body::Invalid(_)) | None => true,
    };
    if ordered_alike {
        return Arc::default();
    }
    let attached = cx.query(&AttachedRoutesOf(query.0.clone()));
    Arc::new(differences(&attached.routes))
}

/// One alternative of a rule.
#[derive(Clone, Copy)]
struct Entry<'a> {
    /// Its number in the list; what ties stays in this order.
    order: usize,
    route: usize,
    rule: usize,
    hosts: &'a [HostPattern],
    wanted: &'a RequestMatch,
}

fn differences(routes: &[Arc<Route>]) -> PrecedenceDifferences {
    let everything = [RequestMatch::everything()];
    let mut by_path: BTreeMap<String, Vec<Entry<'_>>> = BTreeMap::new();
    let mut expressions: Vec<Entry<'_>> = Vec::new();
    for (order, entry) in entries(routes, &everything).enumerate() {
        let entry = Entry { order, ..entry };
        match &entry.wanted.path {
            PathPattern::Regex(_) => expressions.push(entry),
            PathPattern::Segments { segments, rest: _ } => {
                if let Some(path) = literal(segments) {
                    by_path.entry(path).or_default().push(entry);
                }
            }
        }
    }
    let mut comparison =
        Comparison { routes, left: MAX_COMPARED, pairs: BTreeSet::new(), all: vec![] };
    let done = comparison.all(&by_path, &expressions);
    PrecedenceDifferences { found: comparison.all, cut: done.is_none() }
}

fn entries<'a>(
    routes: &'a [Arc<Route>],
    everything: &'a [RequestMatch],
) -> impl Iterator<Item = Entry<'a>> {
    routes.iter().enumerate().flat_map(move |(number, route)| {
        route.rules.iter().enumerate().flat_map(move |(rule, content)| {
            let matches = if content.matches.is_empty() { everything } else { &content.matches };
            let hosts = &route.hosts[..];
            matches.iter().map(move |wanted| Entry { order: 0, route: number, rule, hosts, wanted })
        })
    })
}

/// The path, if it has no parameters. An exact path and a prefix of the same text tie in Linkerd.
fn literal(segments: &[Segment]) -> Option<String> {
    let mut path = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(text) => {
                path.push('/');
                path.push_str(text);
            }
            Segment::Parameter(_) => return None,
        }
    }
    Some(if path.is_empty() { "/".to_owned() } else { path })
}

struct Comparison<'a> {
    routes: &'a [Arc<Route>],
    left: usize,
    pairs: BTreeSet<((usize, usize), (usize, usize))>,
    all: Vec<PrecedenceDifference>,
}

impl Comparison<'_> {
    /// `None` where it had to be cut short.
    fn all(
        &mut self,
        by_path: &BTreeMap<String, Vec<Entry<'_>>>,
        expressions: &[Entry<'_>],
    ) -> Option<()> {
        for (path, entries) in by_path {
            self.among(path, entries)?;
        }
        for entry in expressions {
            let PathPattern::Regex(pattern) = &entry.wanted.path else { continue };
            for (path, entries) in by_path {
                self.spend()?;
                if pattern.matches(path) {
                    for other in entries {
                        self.compare(path, entry, other)?;
                    }
                }
            }
        }
        self.among("(matched by both expressions)", expressions)
    }

    /// Compares each with each.
    fn among(&mut self, path: &str, entries: &[Entry<'_>]) -> Option<()> {
        for (number, a) in entries.iter().enumerate() {
            for b in entries.iter().skip(number.saturating_add(1)) {
                self.compare(path, a, b)?;
            }
        }
        Some(())
    }

    fn compare(&mut self, path: &str, a: &Entry<'_>, b: &Entry<'_>) -> Option<()> {
        self.spend()?;
        let (first, second) = match (a.ours().cmp(&b.ours()), a.linkerds().cmp(&b.linkerds())) {
            (Ordering::Less, Ordering::Greater) => (a, b),
            (Ordering::Greater, Ordering::Less) => (b, a),
            (Ordering::Less | Ordering::Greater | Ordering::Equal, _) => return Some(()),
        };
        let same_rule = (a.route, a.rule) == (b.route, b.rule);
        let pair = ((first.route, first.rule), (second.route, second.rule));
        if same_rule || !may_meet(a, b) || !self.pairs.insert(pair) {
            return Some(());
        }
        if self.all.len() >= MAX_REPORTED {
            return None;
        }
        let (ours, linkerds) = (self.rule_ref(first)?, self.rule_ref(second)?);
        self.all.push(PrecedenceDifference { ours, linkerds, path: path.into() });
        Some(())
    }

    fn rule_ref(&self, entry: &Entry<'_>) -> Option<RuleRef> {
        let name = self.routes.get(entry.route)?.origin.to_string().into();
        Some(RuleRef { name, rule: entry.rule })
    }

    fn spend(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

impl Entry<'_> {
    fn ours(&self) -> (Precedence, usize) {
        (Precedence::of(self.wanted), self.order)
    }

    /// Among paths of the same length.
    fn linkerds(&self) -> (Reverse<usize>, Reverse<usize>, bool, usize) {
        let (_, method, headers, query) = self.wanted.parts();
        (Reverse(headers.len()), Reverse(query.len()), method.is_none(), self.order)
    }
}

/// True if one request may be in the tables of both and match both, as far as that is cheap to
/// decide.
fn may_meet(a: &Entry<'_>, b: &Entry<'_>) -> bool {
    let tables = match (a.hosts, b.hosts) {
        ([], []) => true,
        (a, b) => a.iter().any(|host| b.contains(host)),
    };
    let methods = match (a.wanted.method(), b.wanted.method()) {
        (Some(a), Some(b)) => a == b,
        (Some(_) | None, _) => true,
    };
    let headers =
        a.wanted.headers().iter().all(|a| {
            b.wanted.headers().iter().all(|b| a.name != b.name || agree(&a.value, &b.value))
        });
    let query =
        a.wanted.query().iter().all(|a| {
            b.wanted.query().iter().all(|b| a.name != b.name || agree(&a.value, &b.value))
        });
    tables && methods && headers && query
}

fn agree(a: &ValueMatch, b: &ValueMatch) -> bool {
    match (a, b) {
        (ValueMatch::Exact(a), ValueMatch::Exact(b)) => a == b,
        (ValueMatch::Exact(_) | ValueMatch::Regex(_), _) => true,
    }
}
