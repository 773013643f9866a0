//! Comparison of actual and expected results.

use super::conditions::ExpectedCondition;
use super::expectation::Expectation;
use crate::verdict::DecisionSummary;
use policy_engine::conditions::ConditionTable;
use serde::Serialize;
use std::fmt;

impl DecisionSummary {
    /// Differences from the expectation; empty if there are none.
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

/// One request of a [`Report`].
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The actual result.
    pub found: DecisionSummary,
    /// Differences from the expectation; empty if there are none.
    pub differences: Vec<String>,
}

/// Results of a file of expectations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The requests in order.
    pub cases: Vec<Case>,
    /// Differences from the expected conditions of objects; empty if there are none.
    pub conditions: Vec<String>,
}

impl Report {
    /// True if every result is as expected.
    pub fn is_as_expected(&self) -> bool {
        self.conditions.is_empty() && self.cases.iter().all(|case| case.differences.is_empty())
    }

    /// Compares the conditions of objects.
    pub(crate) fn add_conditions(
        &mut self,
        expected: &[ExpectedCondition],
        found: &ConditionTable,
    ) {
        self.conditions.extend(expected.iter().filter_map(|one| one.differs(found)));
    }

    /// Adds a request, with the differences between its decision and its outcome.
    pub(crate) fn add(
        &mut self,
        expected: &Expectation,
        found: DecisionSummary,
        further: Vec<String>,
    ) {
        let mut differences = found.differs(expected);
        differences.extend(further);
        self.cases.push(Case { name: expected.name.clone(), found, differences });
    }
}

/// Formats the requests with differences, one paragraph each, and the conditions; empty if there are none.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self.cases.iter().filter(|case| !case.differences.is_empty()) {
            writeln!(f, "`{}`: {}", case.name, case.differences.join("; "))?;
            writeln!(f, "  found: {}", case.found)?;
        }
        for difference in &self.conditions {
            writeln!(f, "{difference}")?;
        }
        Ok(())
    }
}
