//! Decision on a request.

use policy_core::{Decision, Evaluator};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Admitted.
    Allow,
    /// Admitted, and logged as audited.
    Audit,
    /// Refused.
    Deny,
}

impl Verdict {
    /// Name of the verdict.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Audit => "audit",
            Self::Deny => "deny",
        }
    }
}

/// Summary of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionSummary {
    /// The verdict.
    pub decision: Verdict,
    /// The stable reason of a denial.
    pub reason: Option<String>,
    /// The route that matched.
    pub route: Option<String>,
    /// The grant that permitted the request.
    pub authorization: Option<String>,
}

impl DecisionSummary {
    /// Denial without a route or grant.
    pub(crate) fn denied(reason: policy_core::Denied) -> Self {
        Self {
            decision: Verdict::Deny,
            reason: Some(reason.as_str().to_owned()),
            route: None,
            authorization: None,
        }
    }

    /// Summarizes a decision.
    pub(crate) fn of(evaluator: &Evaluator, decision: &Decision) -> Self {
        let route = |id| evaluator.rule(id).map(|(route, _)| route.origin.to_string());
        match decision {
            Decision::Permit(permit) => Self {
                decision: if permit.is_audited() { Verdict::Audit } else { Verdict::Allow },
                reason: None,
                route: permit.route().and_then(route),
                authorization: evaluator
                    .authorization(permit.authorization())
                    .map(|grant| grant.source.to_string()),
            },
            Decision::Deny(denial) => {
                Self { route: denial.route.and_then(route), ..Self::denied(denial.reason) }
            }
        }
    }
}

impl fmt::Display for DecisionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.decision.as_str())?;
        let named = [
            ("reason", &self.reason),
            ("route", &self.route),
            ("authorization", &self.authorization),
        ];
        for (what, text) in named {
            if let Some(text) = text {
                write!(f, ", {what} {text}")?;
            }
        }
        Ok(())
    }
}
