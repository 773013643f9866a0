//! The parts of a policy that a client does not support, and their substitutes.

use policy_core::name::{ObjectRef, Origin, Source};
use policy_core::policy::{Owner, ServerPolicy};
use std::collections::BTreeSet;
use std::fmt;

/// A part of a policy that a client could not enforce.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unsupported {
    /// The part.
    pub part: Part,
    /// Its substitute.
    pub fallback: Fallback,
    /// The feature and its substitute, in words for people.
    pub message: String,
}

/// The substitute for a part that a client could not enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fallback {
    /// The port, or the requests that need it, are denied.
    Denied,
    /// It is omitted.
    Omitted,
    /// It is sent in another form, which permits the same or less.
    Approximated,
}

impl Unsupported {
    /// Returns the objects that configure the unsupported part. None if it is sent in another form
    /// or comes from no object.
    pub fn concerned(&self, policy: &ServerPolicy) -> BTreeSet<ObjectRef> {
        if self.fallback == Fallback::Approximated {
            return BTreeSet::new();
        }
        let of = |source: &Source| match source {
            Source::Object(object) => BTreeSet::from([object.clone()]),
            Source::Default(_) => BTreeSet::new(),
        };
        match &self.part {
            Part::Port => concerned_by_port(policy, self.fallback),
            Part::Route(origin) => origin.object().cloned().into_iter().collect(),
            Part::Authorization(source)
            | Part::Filter(source)
            | Part::RateLimit(source)
            | Part::Exemption(source) => of(source),
        }
    }
}

/// The Server that owns the port, and where it is denied the routes that do not count there.
fn concerned_by_port(policy: &ServerPolicy, fallback: Fallback) -> BTreeSet<ObjectRef> {
    let owner = match &policy.owner {
        Owner::Server(server) => Some(server.clone()),
        Owner::Default(_) => None,
    };
    let denied = fallback == Fallback::Denied;
    let routes = policy.routes.routes.iter().filter(|_| denied);
    let routes = routes.filter_map(|route| route.origin.object().cloned());
    owner.into_iter().chain(routes).collect()
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
    /// A filter, by the object that configures it.
    Filter(Source),
    /// A rate limit, by the object that sets it.
    RateLimit(Source),
    /// An exemption, by the grant that it needs.
    Exemption(Source),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::Port => write!(f, "port: {}", self.message),
            Part::Route(origin) => write!(f, "route {origin}: {}", self.message),
            Part::Authorization(source) => write!(f, "authorization {source}: {}", self.message),
            Part::Filter(source) => write!(f, "effect of {source}: {}", self.message),
            Part::RateLimit(source) => write!(f, "rate limit {source}: {}", self.message),
            Part::Exemption(source) => write!(f, "exemption by {source}: {}", self.message),
        }
    }
}

/// Collects replacements, each once.
#[derive(Default)]
pub(crate) struct Report(BTreeSet<Unsupported>);

impl Report {
    /// The port, or the requests that need it, are denied.
    pub(crate) fn denied(&mut self, part: Part, message: impl Into<String>) {
        self.note(part, Fallback::Denied, message.into());
    }

    /// It is omitted.
    pub(crate) fn left_out(&mut self, part: Part, message: impl Into<String>) {
        self.note(part, Fallback::Omitted, message.into());
    }

    /// Reports that it is sent in another form.
    pub(crate) fn otherwise(&mut self, part: Part, message: impl Into<String>) {
        self.note(part, Fallback::Approximated, message.into());
    }

    fn note(&mut self, part: Part, fallback: Fallback, message: String) {
        self.0.insert(Unsupported { part, fallback, message });
    }

    pub(crate) fn finish(self) -> Vec<Unsupported> {
        self.0.into_iter().collect()
    }
}
