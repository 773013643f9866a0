//! What a client could not be told, and what it was told instead.

use policy_core::name::{Origin, Source};
use std::fmt;

/// Something of a policy that a client could not enforce.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replacement {
    /// Where it was.
    pub part: Part,
    /// What it was and what was sent instead, in words for people.
    pub message: String,
}

/// A part of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The port as a whole.
    Port,
    /// A route.
    Route(Origin),
    /// A grant, by the object that grants.
    Authorization(Source),
    /// An effect, by the object that asks for it.
    Effect(Source),
    /// A rate limit, by the object that sets it.
    RateLimit(Source),
    /// What passes before routes are looked at, by the grant it needs.
    Exemption(Source),
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::Port => write!(f, "port: {}", self.message),
            Part::Route(origin) => write!(f, "route {origin}: {}", self.message),
            Part::Authorization(source) => write!(f, "authorization {source}: {}", self.message),
            Part::Effect(source) => write!(f, "effect of {source}: {}", self.message),
            Part::RateLimit(source) => write!(f, "rate limit {source}: {}", self.message),
            Part::Exemption(source) => write!(f, "exemption by {source}: {}", self.message),
        }
    }
}

/// Collects replacements, each once.
#[derive(Default)]
pub(crate) struct Report(std::collections::BTreeSet<Replacement>);

impl Report {
    pub(crate) fn note(&mut self, part: Part, message: impl Into<String>) {
        self.0.insert(Replacement { part, message: message.into() });
    }

    pub(crate) fn finish(self) -> Vec<Replacement> {
        self.0.into_iter().collect()
    }
}
