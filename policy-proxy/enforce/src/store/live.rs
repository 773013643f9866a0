//! What the data path reads: a policy arranged for deciding, or why there is none.

use crate::limiter::Limiter;
use crate::telemetry::Counters;
use policy_core::evaluator::Evaluator;
use policy_core::{Denied, Facts, InformationalHeaders, Revision};
use std::sync::Arc;
use tokio::time::Instant;

/// What a port's connections and requests are decided by.
#[derive(Debug)]
pub enum Live {
    /// Nothing has been received: connections wait, bounded.
    Waiting,
    /// The controller's latest.
    Current(Arc<InForce>),
    /// The last good policy, while the controller cannot be asked or sent something unusable.
    Stale {
        /// The last good policy.
        policy: Arc<InForce>,
        /// Since when it may be out of date.
        since: Instant,
    },
    /// Refused at once: expired, undeclared, or rejected with nothing good before.
    Denied(Denied),
}

/// A policy arranged for deciding, with what belongs to it.
#[derive(Debug)]
pub struct InForce {
    /// Decides.
    pub evaluator: Arc<Evaluator>,
    /// The workload's facts as of this generation.
    pub facts: Arc<Facts>,
    /// What the controller calls this policy.
    pub revision: Revision,
    /// Differs whenever policy or facts differ; what was remembered under another is void.
    pub generation: u64,
    /// The buckets of the policy's rate limit; the same object while that limit is equal.
    pub limiter: Arc<Limiter>,
    /// Where decisions by this policy are counted.
    pub counters: Arc<Counters>,
}

impl Live {
    /// The policy to decide by, or why there is none.
    pub fn in_force(&self) -> Result<&Arc<InForce>, Denied> {
        match self {
            Self::Waiting => Err(Denied::PolicyPending),
            Self::Current(policy) | Self::Stale { policy, .. } => Ok(policy),
            Self::Denied(reason) => Err(*reason),
        }
    }

    /// Whether every decision by the two is the same for certain.
    pub(super) fn decides_like(&self, other: &Live) -> bool {
        match (self.in_force(), other.in_force()) {
            (Ok(own), Ok(other)) => own.generation == other.generation,
            // Leaving `Waiting` always counts, since somebody may wait for it.
            (Err(own), Err(reason)) => {
                own == reason && matches!(self, Self::Waiting) == matches!(other, Self::Waiting)
            }
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        }
    }
}

impl InForce {
    /// Whether the application is told who its clients are.
    pub fn informs(&self) -> bool {
        match self.evaluator.policy().informational_headers {
            InformationalHeaders::Enabled => true,
            InformationalHeaders::Disabled => false,
        }
    }

    pub(super) fn with_facts(&self, facts: &Arc<Facts>, generation: u64) -> Self {
        Self {
            evaluator: Arc::clone(&self.evaluator),
            facts: Arc::clone(facts),
            revision: self.revision.clone(),
            generation,
            limiter: Arc::clone(&self.limiter),
            counters: Arc::clone(&self.counters),
        }
    }
}
