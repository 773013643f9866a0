//! Downgrade of a policy for a client that lacks features: it never permits more, and every
//! omission is reported.

use crate::unreadable;
use crate::unsupported::{Part, Report, Unsupported};
use policy_core::authorization::{Authorization, AuthorizationSet};
use policy_core::decision::Denied;
use policy_core::feature::{self, Feature};
use policy_core::filter::Filter;
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
        // theirs, from the workload.
        for feature in [Feature::PathParameters, Feature::HostTables, Feature::ServerEffects] {
            if self.missing.contains(&feature) {
                let message = format!(
                    "needs `{}`, which the client lacks; the port is denied",
                    feature.as_str()
                );
                self.report.denied(Part::Port, message);
                return self.deny_all(policy, Denied::ProxyUnsupported);
            }
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
        if set.iter().all(|grant| self.lacking(feature::of_authorization(grant)).is_none()) {
            return set.clone();
        }
        set.iter().filter(|grant| self.keeps(grant)).cloned().collect()
    }

    fn keeps(&mut self, grant: &Authorization) -> bool {
        match self.lacking(feature::of_authorization(grant)) {
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

    fn exemptions(&mut self, exemptions: &[Exemption]) -> Vec<Exemption> {
        let mut kept = Vec::new();
        for exemption in exemptions {
            match self.lacking(feature::of_exemption(exemption)) {
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
        if self.lacking(feature::of_route(route)).is_none() {
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

    /// Returns true if the client lacks a rewrite without which requests must not be forwarded.
    fn lacks_rewrite(&self, effects: &[Filter]) -> bool {
        self.missing.contains(&Feature::RequiredRewrites)
            && effects.iter().any(|one| feature::of_effect(one) == Some(Feature::RequiredRewrites))
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
