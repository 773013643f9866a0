//! One figure that was asked for, and the values that it is made of.

use policy_bench::load::Outcome;
use policy_bench::report::Cell;
use policy_bench::stats::{self, Spread};
use serde_json::Value;

/// Limit of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    pub(super) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// One figure.
#[derive(Clone)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) asked: String,
    pub(super) limit: Limit,
    pub(super) measured: Option<Spread>,
}

impl Figure {
    pub(super) fn new(name: &str, asked: &str, limit: Limit, measured: Option<Spread>) -> Self {
        Self { name: name.to_owned(), asked: asked.to_owned(), limit, measured }
    }

    pub(super) fn cells(self) -> [Cell; 4] {
        let reached = match self.measured {
            Some(Spread { median, .. }) if self.limit.holds(median) => "yes",
            Some(_) => "**no**",
            None => "not measured",
        };
        [self.name.into(), self.asked.into(), self.measured.into(), reached.into()]
    }
}

pub(super) const OURS: &str = "Portcullis";
pub(super) const UNRECORDED: &str = "Portcullis, no record";
pub(super) const HAPROXY: &str = "HAProxy";
pub(super) const ENVOY: &str = "Envoy";

/// Single values of the data path's measurement.
#[derive(Clone, Copy)]
pub(super) struct Cases<'a>(pub(super) &'a Value);

impl<'a> Cases<'a> {
    /// Processor time per operation, round by round.
    pub(super) fn cpu(self, case: &str, proxy: &str) -> Vec<f64> {
        self.rounds(case, proxy, "fast", Outcome::cpu)
    }

    /// Ours against another proxy's, of rounds of the same case.
    pub(super) fn against(self, case: &str, proxy: &str) -> Option<Spread> {
        stats::ratio(&self.cpu(case, OURS), &self.cpu(case, proxy))
    }

    /// A figure of each round of a proxy in a case.
    pub(super) fn rounds(
        self,
        case: &str,
        proxy: &str,
        kind: &str,
        of: impl Fn(&Outcome) -> f64,
    ) -> Vec<f64> {
        let outcomes = self.measured(case, proxy).and_then(|found| found.get(kind)).cloned();
        let outcomes: Vec<Outcome> =
            outcomes.and_then(|found| serde_json::from_value(found).ok()).unwrap_or_default();
        outcomes.iter().map(of).collect()
    }

    pub(super) fn resident(self, case: &str) -> Option<Spread> {
        one(number(self.measured(case, OURS)?, "resident_bytes")? / 1_048_576.0)
    }

    pub(super) fn measured(self, case: &str, proxy: &str) -> Option<&'a Value> {
        let found = self.0.as_array()?.iter().find(|one| text(one, "case") == Some(case))?;
        let proxies = found.get("proxies")?.as_array()?;
        proxies.iter().find(|one| text(one, "proxy") == Some(proxy))
    }
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

pub(super) fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name)?.as_f64()
}

pub(super) fn one(value: f64) -> Option<Spread> {
    Spread::of([value])
}
