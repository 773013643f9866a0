//! A policy arranged for deciding.

use crate::authorization::Authorization;
use crate::decision::{AuthorizationId, Decision, Permit, RuleId};
use crate::effect::Effect;
use crate::naive;
use crate::policy::{Route, Rule, ServerPolicy};
use crate::request::{Connection, RequestView};
use http::HeaderName;
use std::sync::Arc;

/// A [`ServerPolicy`] arranged for deciding: what does not match costs nothing.
#[derive(Debug)]
pub struct Evaluator {
    policy: Arc<ServerPolicy>,
    looks_at: Vec<HeaderName>,
}

/// Why a policy cannot be arranged for deciding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More routes, rules or authorizations than ids can name.
    #[error("{0} has more than 4294967295 entries")]
    TooMany(&'static str),
    /// A path pattern of more than [`MAX_SEGMENTS`] segments.
    #[error("path pattern of {0} segments is longer than {MAX_SEGMENTS}")]
    TooDeep(usize),
}

/// The most segments of a path pattern. Gateway API allows 1,024 bytes of path, which is fewer.
pub const MAX_SEGMENTS: usize = 1024;

/// What was found out about one connection under one [`Evaluator`]. Make a new one for each
/// connection and whenever the evaluator changes.
#[derive(Clone, Debug, Default)]
pub struct Memo {}

impl Memo {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Evaluator {
    /// Arranges `policy`. Fails only for policies of absurd size.
    pub fn build(policy: Arc<ServerPolicy>) -> Result<Self, BuildError> {
        let looks_at = naive::looks_at(&policy);
        Ok(Self { policy, looks_at })
    }

    /// The policy it was built from.
    pub fn policy(&self) -> &Arc<ServerPolicy> {
        &self.policy
    }

    /// Decides on a connection that is not HTTP. The rules are those of [`naive`].
    pub fn decide_connection(&self, connection: &Connection<'_>) -> Decision {
        naive::decide_connection(&self.policy, connection)
    }

    /// Decides on a request. The rules are those of [`naive`]. `memo` must belong to this
    /// connection and this evaluator.
    pub fn decide_request(
        &self,
        connection: &Connection<'_>,
        _memo: &mut Memo,
        request: &RequestView<'_>,
    ) -> Decision {
        naive::decide_request(&self.policy, connection, request)
    }

    /// The rule with this id, and its route; `None` for an id of another policy.
    pub fn rule(&self, id: RuleId) -> Option<(&Route, &Rule)> {
        let route = self.policy.routes.routes.get(usize::try_from(id.route).ok()?)?;
        let rule = route.rules.get(usize::try_from(id.rule).ok()?)?;
        Some((route, rule))
    }

    /// The authorization with this id; `None` for an id of another policy.
    pub fn authorization(&self, id: AuthorizationId) -> Option<&Authorization> {
        let at = |index: u32| usize::try_from(index).ok();
        match id {
            AuthorizationId::Server(own) => {
                self.policy.authorizations.get(at(own)?).map(|grant| &**grant)
            }
            AuthorizationId::Route(route, own) => {
                let route = self.policy.routes.routes.get(at(route)?)?;
                route.authorizations.get(at(own)?).map(|grant| &**grant)
            }
            AuthorizationId::Exemption(own) => {
                self.policy.exemptions.get(at(own)?).map(|exemption| &*exemption.authorization)
            }
        }
    }

    /// The effects on a permitted request, in the order in which they apply: those of its rule,
    /// then those of the Server.
    pub fn effects(&self, permit: &Permit) -> impl Iterator<Item = &Effect> {
        let rule = permit.route.and_then(|id| self.rule(id));
        rule.into_iter().flat_map(|(_, rule)| &rule.effects).chain(&self.policy.effects)
    }

    /// The headers that any match looks at, sorted by name. An open request must keep them to be
    /// decided again.
    pub fn looks_at(&self) -> &[HeaderName] {
        &self.looks_at
    }
}
