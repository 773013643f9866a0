//! What was found, compared with what was expected.

use super::Expectation;
use policy_core::{Decision, Evaluator};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The three things that can become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Let through.
    Allow,
    /// Let through, and logged as audited.
    Audit,
    /// Refused.
    Deny,
}

impl Verdict {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Audit => "audit",
            Self::Deny => "deny",
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The verdict.
    pub decision: Verdict,
    /// The stable reason of a denial.
    pub reason: Option<String>,
    /// The route that matched.
    pub route: Option<String>,
    /// The grant that settled a permit.
    pub authorization: Option<String>,
}

impl Found {
    /// A denial that no route or grant had a part in.
    pub(crate) fn denied(reason: policy_core::Denied) -> Self {
        Self {
            decision: Verdict::Deny,
            reason: Some(reason.as_str().to_owned()),
            route: None,
            authorization: None,
        }
    }

    /// A decision in words.
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

    /// How it differs from what was expected; empty if it does not.
    pub(crate) fn differs(&self, expected: &Expectation) -> Vec<String> {
        let mut differences = Vec::new();
        if self.decision != expected.decision {
            let (found, expected) = (self.decision.as_str(), expected.decision.as_str());
            differences.push(format!("decision is {found}, expected {expected}"));
        }
        let named = [
            ("reason", &expected.reason, &self.reason),
            ("route", &expected.route, &self.route),
            ("authorization", &expected.authorization, &self.authorization),
        ];
        for (what, expected, found) in named {
            if expected.is_some() && expected != found {
                let word = |text: &Option<String>| text.clone().unwrap_or("none".to_owned());
                differences.push(format!("{what} is {}, expected {}", word(found), word(expected)));
            }
        }
        differences
    }
}

impl fmt::Display for Found {
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

/// One request of a [`Report`].
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// What was found.
    pub found: Found,
    /// How that differs from what was expected; empty: it does not.
    pub differences: Vec<String>,
}

/// What became of a file of expectations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The requests in order.
    pub cases: Vec<Case>,
}

impl Report {
    /// Whether everything was as expected.
    pub fn is_as_expected(&self) -> bool {
        self.cases.iter().all(|case| case.differences.is_empty())
    }

    pub(crate) fn add(&mut self, expected: &Expectation, found: Found) {
        let differences = found.differs(expected);
        self.cases.push(Case { name: expected.name.clone(), found, differences });
    }

    /// Adds a request whose decision was right, but not what came of it.
    pub(crate) fn add_with(&mut self, expected: &Expectation, found: Found, further: Vec<String>) {
        let mut differences = found.differs(expected);
        differences.extend(further);
        self.cases.push(Case { name: expected.name.clone(), found, differences });
    }
}

/// The requests that were not as expected, one paragraph each; nothing if all were.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self.cases.iter().filter(|case| !case.differences.is_empty()) {
            writeln!(f, "`{}`: {}", case.name, case.differences.join("; "))?;
            writeln!(f, "  found: {}", case.found)?;
        }
        Ok(())
    }
}
