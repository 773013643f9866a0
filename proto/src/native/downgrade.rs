//! Downgrade of a policy for a client that lacks features: it never permits more, and every
//! omission is reported.

use crate::unreadable;
use crate::unsupported::{Part, Report, Unsupported};
use policy_core::authorization::{Authorization, AuthorizationSet, Scope};
use policy_core::decision::Denied;
use policy_core::feature::{self, Feature};
use policy_core::filter::Filter;
use policy_core::matching::RequestMatch;
use policy_core::name::Origin;
use policy_core::policy::{
    Exemption, InformationalHeaders, PathHandling, Route, RouteTable, Rule, ServerPolicy, Unmatched,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the part of `policy` that a client with `features` can enforce.
pub(super) fn downgrade<'a>(
    policy: &'a ServerPolicy,
    features: &BTreeSet<Feature>,
) -> (Cow<'a, ServerPolicy>, Vec<Unsupported>) {
    let missing: BTreeSet<Feature> =
        feature::required(policy).difference(features).copied().collect();
    if missing.is_empty() {
        return (Cow::Borrowed(policy), Vec::new());
    }
    let supports_reasons = features.contains(&Feature::DenyReasons);
    let mut downgrade =
        Downgrade { missing: &missing, supports_reasons, report: Report::default() };
    let policy = downgrade.policy(policy);
    (Cow::Owned(policy), downgrade.report.finish())
}

struct Downgrade<'m> {
    /// Features that the policy needs and the client lacks.
    missing: &'m BTreeSet<Feature>,
    /// True if the client supports reasons, even if the policy does not need them.
    supports_reasons: bool,
    report: Report,
}

impl Downgrade<'_> {
    fn policy(&mut self, policy: &ServerPolicy) -> ServerPolicy {
        if self.missing.contains(&Feature::UnreadableMatches)
            && let Some(closed) = unreadable::closed(policy, &mut self.report)
        {
            return self.readable(&closed);
        }
        self.readable(policy)
    }

    /// The same of a policy in which no route comes before all others that the client cannot place
    /// there.
    fn readable(&mut self, policy: &ServerPolicy) -> ServerPolicy {
        // A pattern or a host's table has no narrower form: without it, other routes would decide
        // on the same requests. A filter of the Server may be what keeps requests, or a header of
        // theirs, from the workload, and a limit that refuses has no number that could be sent.
        for feature in [
            Feature::PathParameters,
            Feature::HostTables,
            Feature::ServerEffects,
            Feature::RefusingLimits,
            Feature::ReuseWithoutBody,
        ] {
            if self.missing.contains(&feature) {
                let message = format!(
                    "needs `{}`, which the client lacks; the port is denied",
                    feature.as_str()
                );
                self.report.denied(Part::Port, message);
                return self.deny_all(policy, Denied::ProxyUnsupported);
            }
        }
        if self.misses_routes_by_path(policy) {
            let message = "`raw-paths`: the client compares canonical paths, and routes match on paths; \
                           the port is denied";
            self.report.denied(Part::Port, message);
            return self.deny_all(policy, Denied::ProxyUnsupported);
        }
        if self.lacks_rewrite(&policy.effects) {
            let message = "rewrites headers as the client cannot; the port is denied";
            self.report.denied(Part::Port, message);
            return self.deny_all(policy, Denied::ProxyUnsupported);
        }
        if let Some(reason) = policy.deny {
            return self.deny_all(policy, reason);
        }
        let ServerPolicy {
            owner,
            protocol,
            deny: _,
            paths,
            informational_headers,
            upstream_reuse,
            authorizations,
            exemptions,
            routes,
            rate_limit,
            effects,
            withheld,
        } = policy;
        ServerPolicy {
            owner: owner.clone(),
            protocol: *protocol,
            deny: None,
            paths: self.paths(*paths),
            informational_headers: self.informational_headers(*informational_headers),
            upstream_reuse: *upstream_reuse,
            authorizations: self.authorizations(authorizations),
            exemptions: self.exemptions(exemptions),
            routes: self.table(routes),
            rate_limit: rate_limit.clone(),
            effects: self.effects(effects),
            withheld: withheld.clone(),
        }
    }

    /// The port denied, with its reason if the client knows reasons.
    fn deny_all(&mut self, policy: &ServerPolicy, reason: Denied) -> ServerPolicy {
        let sent = self.supports_reasons.then(|| self.reason(reason));
        if sent != Some(reason) {
            let message = format!("denied as `{}`, sent without the reason", reason.as_str());
            self.report.otherwise(Part::Port, message);
        }
        ServerPolicy {
            deny: sent,
            withheld: policy.withheld.clone(),
            ..ServerPolicy::without_grants(policy.owner.clone(), policy.protocol)
        }
    }

    /// The reason as a client that knows reasons can read it. One that is not known there would refuse
    /// the whole policy.
    fn reason(&self, reason: Denied) -> Denied {
        let lacks = |feature| self.missing.contains(&feature);
        let is_unknown = (reason == Denied::NotDelegated && lacks(Feature::Delegation))
            || (reason == Denied::RouteInvalid && lacks(Feature::UnreadableMatches));
        if is_unknown { Denied::Unauthorized } else { reason }
    }

    /// Returns true if a route matches on paths as they were received, and the client knows only their
    /// canonical form: several paths of which the policy permits one, or a path that a tighter route does
    /// not name, are one path there.
    fn misses_routes_by_path(&self, policy: &ServerPolicy) -> bool {
        let rules = policy.routes.routes.iter().flat_map(|route| &route.rules);
        let is_missed = |wanted: &RequestMatch| !wanted.path.is_every_path();
        self.missing.contains(&Feature::RawPaths)
            && rules.flat_map(|rule| &rule.matches).any(is_missed)
    }

    /// Sends raw paths as canonical ones to a client that lacks them. Nothing that is sent depends on the
    /// path then, so that the client permits the same but for targets that it refuses.
    fn paths(&mut self, paths: PathHandling) -> PathHandling {
        match paths {
            PathHandling::Raw if self.missing.contains(&Feature::RawPaths) => {
                self.report.left_out(Part::Port, "`raw-paths`: sent as canonical paths");
                PathHandling::Canonical
            }
            PathHandling::Raw | PathHandling::Canonical => paths,
        }
    }

    fn informational_headers(&mut self, headers: InformationalHeaders) -> InformationalHeaders {
        match headers {
            InformationalHeaders::Disabled
                if self.missing.contains(&Feature::NoInformationalHeaders) =>
            {
                self.report.left_out(Part::Port, "`no-informational-headers`: they are set");
                InformationalHeaders::Enabled
            }
            InformationalHeaders::Disabled | InformationalHeaders::Enabled => headers,
        }
    }

    fn authorizations(&mut self, set: &AuthorizationSet) -> AuthorizationSet {
        if set.iter().all(|grant| self.lacking_of_grant(grant).is_none()) {
            return set.clone();
        }
        set.iter().filter(|grant| self.keeps(grant)).cloned().collect()
    }

    fn keeps(&mut self, grant: &Authorization) -> bool {
        match self.lacking_of_grant(grant) {
            None => true,
            Some(feature) => {
                let message =
                    format!("needs `{}`, which the client lacks; not sent", feature.as_str());
                self.report.left_out(Part::Authorization(grant.source.clone()), message);
                false
            }
        }
    }

    fn lacking(&self, needed: impl IntoIterator<Item = Feature>) -> Option<Feature> {
        needed.into_iter().find(|feature| self.missing.contains(feature))
    }

    /// The feature without which the client could let through more by a grant. Where paths are raw that is
    /// a condition on a path, too.
    fn lacking_of_grant(&self, grant: &Authorization) -> Option<Feature> {
        let by_path = (grant.scope() == Scope::Request).then_some(Feature::RawPaths);
        self.lacking(feature::of_authorization(grant).into_iter().chain(by_path))
    }

    /// As [`Self::lacking_of_grant`], of an exemption, which may match on a path.
    fn lacking_of_exemption(&self, exemption: &Exemption) -> Option<Feature> {
        let Exemption { request, authorization } = exemption;
        let matched = request.as_ref().is_some_and(|wanted| !wanted.path.is_every_path());
        let by_path = matched.then_some(Feature::RawPaths);
        let of_grant = self.lacking_of_grant(authorization);
        self.lacking(feature::of_exemption(exemption).into_iter().chain(of_grant).chain(by_path))
    }

    fn exemptions(&mut self, exemptions: &[Exemption]) -> Vec<Exemption> {
        let mut kept = Vec::new();
        for exemption in exemptions {
            match self.lacking_of_exemption(exemption) {
                None => kept.push(exemption.clone()),
                Some(feature) => {
                    let part = Part::Exemption(exemption.authorization.source.clone());
                    let message =
                        format!("needs `{}`, which the client lacks; not sent", feature.as_str());
                    self.report.left_out(part, message);
                }
            }
        }
        kept
    }

    fn table(&mut self, table: &RouteTable) -> RouteTable {
        let RouteTable { routes, hosts, otherwise } = table;
        RouteTable {
            routes: routes.iter().map(|route| self.route(route)).collect(),
            hosts: hosts.iter().map(|(host, then)| (host.clone(), self.unmatched(*then))).collect(),
            otherwise: self.unmatched(*otherwise),
        }
    }

    fn unmatched(&mut self, unmatched: Unmatched) -> Unmatched {
        match unmatched {
            Unmatched::Deny(reason) if self.missing.contains(&Feature::DenyReasons) => {
                let message = format!("`{}` where nothing matches: sent as 404", reason.as_str());
                self.report.otherwise(Part::Port, message);
                Unmatched::NotFound
            }
            Unmatched::Deny(reason) => {
                let sent = self.reason(reason);
                if sent != reason {
                    let message = format!(
                        "`{}` where nothing matches: sent as `{}`",
                        reason.as_str(),
                        sent.as_str()
                    );
                    self.report.otherwise(Part::Port, message);
                }
                Unmatched::Deny(sent)
            }
            Unmatched::DefaultRoute | Unmatched::NotFound | Unmatched::FallThrough => unmatched,
        }
    }

    fn route(&mut self, route: &Arc<Route>) -> Arc<Route> {
        let depends_on_path = self.missing.contains(&Feature::RawPaths) && depends_on_path(route);
        if self.lacking(feature::of_route(route)).is_none() && !depends_on_path {
            return Arc::clone(route);
        }
        let Route {
            origin,
            kind,
            created,
            label,
            hosts,
            rules,
            authorizations,
            inherits_server,
            withheld,
        } = &**route;
        let sent = self.origin(origin);
        // What refuses by its origin alone has grants that must not count.
        let refuses = sent != *origin && origin.refusal().is_some();
        if refuses {
            self.report.otherwise(Part::Route(origin.clone()), "sent without its reason");
        } else if sent != *origin {
            let message = "sent without the path that was handed down";
            self.report.otherwise(Part::Route(origin.clone()), message);
        }
        let unwritten = rules.iter().any(|rule| self.lacks_rewrite(&rule.effects));
        if unwritten {
            let message = "rewrites headers as the client cannot; its requests are denied";
            self.report.denied(Part::Route(origin.clone()), message);
        }
        let denies = refuses || unwritten;
        let rules = rules
            .iter()
            .map(|Rule { matches, effects }| Rule {
                matches: matches.clone(),
                effects: self.effects(effects).into(),
            })
            .collect();
        Arc::new(Route {
            origin: sent,
            kind: *kind,
            created: *created,
            label: label.clone(),
            hosts: hosts.clone(),
            rules,
            authorizations: if denies {
                AuthorizationSet::default()
            } else {
                self.authorizations(authorizations)
            },
            inherits_server: *inherits_server && !denies,
            withheld: withheld.clone(),
        })
    }

    /// The origin as the client can read it. Of a path that was handed down, the client gets the
    /// objects alone: they decide nothing.
    fn origin(&self, origin: &Origin) -> Origin {
        match origin {
            Origin::Deny(_) if self.missing.contains(&Feature::DenyReasons) => Origin::Guard,
            Origin::Deny(reason) => Origin::Deny(self.reason(*reason)),
            Origin::Delegated(path) | Origin::Undelegated(path)
                if self.missing.contains(&Feature::Delegation) =>
            {
                Origin::Objects(path.chain.clone())
            }
            Origin::Objects(_)
            | Origin::Default
            | Origin::Probe
            | Origin::Guard
            | Origin::Delegated(_)
            | Origin::Undelegated(_)
            | Origin::Unreadable(_) => origin.clone(),
        }
    }

    /// Returns true if the client lacks a rewrite without which requests must not be forwarded, or could
    /// apply it to fewer requests.
    fn lacks_rewrite(&self, effects: &[Filter]) -> bool {
        let lacks_all = self.missing.contains(&Feature::RequiredRewrites);
        let lacks_paths = self.missing.contains(&Feature::RawPaths);
        let mut required = effects.iter().map(|one| &one.kind).filter(|kind| kind.is_required());
        required.any(|kind| lacks_all || (lacks_paths && kind.depends_on_path()))
    }

    fn effects(&mut self, effects: &[Filter]) -> Vec<Filter> {
        let mut kept = Vec::new();
        for effect in effects {
            match self.lacking(feature::of_effect(effect)) {
                None => kept.push(effect.clone()),
                Some(feature) => {
                    let part = Part::Filter(effect.source.clone());
                    let message =
                        format!("needs `{}`, which the client lacks; not sent", feature.as_str());
                    self.report.left_out(part, message);
                }
            }
        }
        kept
    }
}

/// Returns true if who may send requests of the route, or what must be done to them, depends on the path.
fn depends_on_path(route: &Route) -> bool {
    let mut effects = route.rules.iter().flat_map(|rule| &rule.effects);
    route.authorizations.iter().any(|grant| grant.scope() == Scope::Request)
        || effects.any(|effect| effect.kind.is_required() && effect.kind.depends_on_path())
}
