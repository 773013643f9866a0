//! The subscribers of destinations, and the answer last published to each question.

use crate::engine::Engine;
use crate::incremental::QueryKey;
use crate::latest::{self, Latest};
use crate::publish::LookupError;
use crate::publish::destination::{DestinationQuestion, PublishedDestination};
use crate::query::destination::DestinationOf;
use hashbrown::HashMap;
use std::sync::Arc;

/// Number of channels that may be kept before idle ones are dropped without waiting for the next
/// sweep.
const IDLE_CHANNELS: usize = 4096;

/// Every channel there is: one per question, however many clients ask it.
pub(crate) struct DestinationChannels {
    channels: HashMap<DestinationQuestion, latest::Sender<Arc<PublishedDestination>>>,
    /// The most channels.
    max: usize,
    /// Number of channels at which idle ones are dropped without waiting for the next sweep.
    limit: usize,
    /// True once there are as many.
    is_full: bool,
}

impl DestinationChannels {
    /// No channel, and at most `max` later.
    pub(crate) fn new(max: usize) -> Self {
        Self { channels: HashMap::new(), max, limit: IDLE_CHANNELS.min(max), is_full: false }
    }

    /// Follows the answer to a question.
    pub(crate) fn follow(
        &mut self,
        engine: &mut Engine,
        question: DestinationQuestion,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        if !engine.answers_destinations() {
            return Err(LookupError::OutboundOff);
        }
        if !engine.is_synced() {
            return Err(LookupError::NotSynced);
        }
        if let Some(sender) = self.channels.get(&question) {
            return Ok(sender.subscribe());
        }
        if self.channels.len() >= self.max {
            return Err(LookupError::TooManyDestinations);
        }
        let sender = latest::channel(engine.destination(&question));
        let receiver = sender.subscribe();
        self.channels.insert(question, sender);
        self.is_full = self.channels.len() >= self.limit;
        Ok(receiver)
    }

    /// Publishes answers that may have changed.
    pub(crate) fn publish(&self, engine: &mut Engine, questions: &[DestinationOf]) {
        for DestinationOf(question) in questions {
            let Some(sender) = self.channels.get(question) else { continue };
            let answer = engine.destination(question);
            sender.send_if_modified(|current| {
                let differs = *current != answer;
                if differs {
                    *current = answer;
                }
                differs
            });
        }
    }

    /// Drops channels without receivers, and returns the queries that the others depend on.
    pub(crate) fn sweep(&mut self) -> Vec<QueryKey> {
        self.channels.retain(|_, sender| sender.has_receivers());
        self.channels.shrink_to_fit();
        self.limit = self.channels.len().saturating_mul(2).max(IDLE_CHANNELS).min(self.max);
        // Where all are followed, another sweep at once would drop nothing either.
        self.is_full = false;
        let asked = self.channels.keys().cloned();
        asked.map(|question| QueryKey::DestinationOf(DestinationOf(question))).collect()
    }

    /// True if idle channels have to be dropped at once: a client that asks for one address after the
    /// other is bounded between sweeps.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}
