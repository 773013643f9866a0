//! About as many bytes as a message has for a part of a policy.
//!
//! The texts that authors write are counted exactly and all else roughly: a policy of many megabytes
//! consists of texts.

use http::{HeaderName, HeaderValue};
use policy_core::filter::{Redirect, RedirectPath};
use policy_core::matching::Segment;
use policy_core::{
    Authorization, Condition, Filter, FilterKind, HeaderMatch, HostPattern, IdentityMatch,
    PathPattern, Pattern, Predicate, QueryMatch, RequestMatch, Requirement, Route, ServerPolicy,
    ValueMatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes for what has no text: tags, lengths, numbers.
const EACH: usize = 8;

/// A sum of sizes in which a grant that several routes share is counted once, as a message has it.
#[derive(Default)]
pub(super) struct Measure {
    grants: BTreeSet<usize>,
    patterns: BTreeSet<Box<str>>,
    /// The bytes so far.
    pub(super) bytes: usize,
    /// The bytes of automata.
    pub(super) expressions: usize,
}

/// About as many bytes as a message with the policy has.
pub fn size(policy: &ServerPolicy) -> usize {
    let mut measure = Measure::default();
    measure.grants(&policy.authorizations);
    policy.effects.iter().for_each(|effect| measure.effect(effect));
    policy.routes.hosts.keys().for_each(|host| measure.add(text(host)));
    policy.routes.routes.iter().for_each(|route| measure.route(route));
    for exemption in &policy.exemptions {
        exemption.request.iter().for_each(|wanted| measure.wanted(wanted));
        measure.grants(std::slice::from_ref(&exemption.authorization));
    }
    measure.bytes
}

/// The bytes that the automata of a policy's expressions take in a proxy, each once.
pub fn expressions(policy: &ServerPolicy) -> usize {
    let rules = policy.routes.routes.iter().flat_map(|route| &route.rules);
    let exempt = policy.exemptions.iter().filter_map(|exemption| exemption.request.as_deref());
    let all = rules.flat_map(|rule| &rule.matches).chain(exempt).flat_map(patterns);
    let all: BTreeMap<&str, usize> =
        all.map(|pattern| (pattern.source(), pattern.compiled_bytes())).collect();
    all.into_values().fold(0, usize::saturating_add)
}

/// The bytes that the automata of the expressions of a match take.
pub(crate) fn expressions_of(wanted: &RequestMatch) -> usize {
    patterns(wanted).map(Pattern::compiled_bytes).fold(0, usize::saturating_add)
}

/// The expressions of a match.
fn patterns(wanted: &RequestMatch) -> impl Iterator<Item = &Pattern> {
    let (path, _, headers, query) = wanted.parts();
    let path = match path {
        PathPattern::Regex(pattern) => Some(pattern),
        PathPattern::Segments { .. } => None,
    };
    let values = headers.iter().map(|one| &one.value).chain(query.iter().map(|one| &one.value));
    let values = values.filter_map(|value| match value {
        ValueMatch::Regex(pattern) => Some(pattern),
        ValueMatch::Exact(_) => None,
    });
    path.into_iter().chain(values)
}

fn text(host: &HostPattern) -> usize {
    match host {
        HostPattern::Exact(name) | HostPattern::Suffix(name) => name.len(),
    }
}

impl Measure {
    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(EACH);
    }

    /// Adds a route.
    pub(super) fn route(&mut self, route: &Route) {
        let chain = route.origin.chain().iter();
        chain.for_each(|object| self.add(object.name().len().saturating_mul(2)));
        let prefix = route.origin.delegated_path();
        self.add(prefix.map_or(0, |path| path.prefix.len()));
        self.add(route.label.as_ref().map_or(0, |label| label.as_str().len()));
        route.hosts.iter().for_each(|host| self.add(text(host)));
        for rule in &route.rules {
            rule.matches.iter().for_each(|wanted| self.wanted(wanted));
            rule.effects.iter().for_each(|effect| self.effect(effect));
        }
        self.grants(&route.authorizations);
        route.withheld.iter().for_each(|grant| self.add(grant.reason.len()));
    }

    /// Adds a match.
    pub(super) fn wanted(&mut self, wanted: &RequestMatch) {
        let (path, method, headers, query) = wanted.parts();
        match path {
            PathPattern::Regex(pattern) => self.pattern(pattern),
            PathPattern::Segments { segments, .. } => {
                for Segment::Literal(text) | Segment::Parameter(text) in segments {
                    self.add(text.len());
                }
            }
        }
        self.add(method.map_or(0, |method| method.as_str().len()));
        for HeaderMatch { name, value } in headers {
            self.add(name.as_str().len());
            self.value(value);
        }
        for QueryMatch { name, value } in query {
            self.add(name.len());
            self.value(value);
        }
    }

    fn value(&mut self, value: &ValueMatch) {
        match value {
            ValueMatch::Exact(bytes) => self.add(bytes.len()),
            ValueMatch::Regex(pattern) => self.pattern(pattern),
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        self.add(pattern.source().len());
        if self.patterns.insert(pattern.source().into()) {
            self.expressions = self.expressions.saturating_add(pattern.compiled_bytes());
        }
    }

    fn grants(&mut self, grants: &[Arc<Authorization>]) {
        for grant in grants {
            self.add(0);
            if self.grants.insert(Arc::as_ptr(grant).addr()) {
                self.grant(grant);
            }
        }
    }

    fn grant(&mut self, grant: &Authorization) {
        let Requirement::All(conditions) = &grant.requirement else { return };
        for Condition { test, .. } in conditions.iter() {
            match test {
                Predicate::Network(networks) => {
                    networks.iter().for_each(|one| {
                        self.add(one.except.len().saturating_add(1).saturating_mul(20));
                    });
                }
                Predicate::Identity(names) => names.iter().for_each(|name| match name {
                    IdentityMatch::Any => self.add(0),
                    IdentityMatch::Exact(text) | IdentityMatch::Suffix(text) => {
                        self.add(text.len());
                    }
                }),
                Predicate::Segment(condition) => {
                    condition.values().iter().for_each(|value| self.add(value.len()));
                }
                Predicate::MeshTls | Predicate::TlsPassthrough => self.add(0),
            }
        }
    }

    fn effect(&mut self, effect: &Filter) {
        match &effect.kind {
            FilterKind::RequestHeaders(change) | FilterKind::ResponseHeaders(change) => {
                self.values(change.add.iter().chain(&change.set));
                change.remove.iter().for_each(|name| self.add(name.as_str().len()));
            }
            FilterKind::Rewrite(rewrite) => {
                self.values(rewrite.add.iter().chain(&rewrite.set));
                rewrite.clear.iter().for_each(|name| self.add(name.as_str().len()));
                rewrite.when.iter().for_each(|condition| self.add(condition.to_string().len()));
            }
            FilterKind::Redirect(Redirect { host, path, .. }) => {
                self.add(host.as_ref().map_or(0, |host| host.len()));
                self.add(match path {
                    Some(RedirectPath::Full(text) | RedirectPath::Prefix(text)) => text.len(),
                    None => 0,
                });
            }
            FilterKind::Failure(failure) => self.add(failure.message.len()),
            FilterKind::Timeout(_) => self.add(0),
            FilterKind::Timeouts(timeouts) => {
                timeouts.when.iter().for_each(|condition| self.add(condition.to_string().len()));
            }
        }
    }

    fn values<'v>(&mut self, values: impl Iterator<Item = &'v (HeaderName, HeaderValue)>) {
        values.for_each(|(name, value)| self.add(name.as_str().len().saturating_add(value.len())));
    }
}
