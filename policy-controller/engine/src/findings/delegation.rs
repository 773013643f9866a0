//! Rules of InboundRoutes that others take the place of, and policies on those that no Server answers
//! for. What is refused and what is lost is said by conditions.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::query::delegation_state::{DelegationStateOf, RouteState};
use crate::query::effective_servers::EffectiveServersOf;
use policy_crds::resource::PolicyTarget;
use policy_crds::{Body, Kind, Object, Resource};

impl Finder<'_> {
    /// The rules of an InboundRoute that no tree reaches, because others have their paths.
    pub(super) fn shadowed_rules(&mut self, object: &Object) -> Vec<Finding> {
        let key = &object.meta.key;
        if key.kind != Kind::InboundRoute {
            return Vec::new();
        }
        let state = self.query(&DelegationStateOf(key.clone()));
        let shadowed = state.routes.iter().enumerate();
        let shadowed = shadowed.filter(|(_, rule)| rule.state == RouteState::Shadowed);
        shadowed
            .map(|(place, rule)| {
                let message = format!(
                    "never reached: an object that delegates to it, or an older one, has `{}`; \
                     `portcullis routes` shows which",
                    rule.path
                );
                let field = format!("spec.routes[{place}].match");
                finding(key, FindingKind::NeverReached, &field, message)
            })
            .collect()
    }

    /// The finding about a policy on an InboundRoute for which no Server answers.
    pub(super) fn not_served(&mut self, object: &Object) -> Option<Finding> {
        let Body::Valid(Resource::AuthorizationPolicy(policy)) = &object.body else { return None };
        let PolicyTarget::Route { kind: Kind::InboundRoute, name } = &policy.target else {
            return None;
        };
        let key = &object.meta.key;
        let mut named = self.index.list(Kind::InboundRoute, &key.namespace);
        let target = named.find(|route| {
            route.meta.key.name.eq_ignore_ascii_case(name) && matches!(route.body, Body::Valid(_))
        })?;
        let target = target.meta.key.clone();
        if !self.query(&EffectiveServersOf(key.clone())).servers.is_empty() {
            return None;
        }
        let message = format!(
            "grants nothing at present: no Server answers a rule of {target}, on which alone it counts"
        );
        let found = finding(key, FindingKind::NotServed, "spec.targetRef", message);
        Some(Finding { other: Some(target), ..found })
    }
}
