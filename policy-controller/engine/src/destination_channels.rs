//! The subscribers of destinations, and the answer last published to each question.

use crate::engine::Engine;
use crate::incremental::QueryKey;
use crate::latest::{self, Latest};
use crate::publish::LookupError;
use crate::publish::destination::{DestinationQuestion, PublishedDestination};
use crate::query::destination::DestinationOf;
use hashbrown::HashMap;
use std::sync::Arc;

/// Channels that may be kept beside those with receivers before idle ones are dropped at once.
const IDLE_CHANNELS: usize = 4096;

/// Every channel there is: one per question, however many clients ask it.
pub(crate) struct DestinationChannels {
    channels: HashMap<DestinationQuestion, latest::Sender<Arc<PublishedDestination>>>,
    /// Number of channels at which idle ones are dropped without waiting for the next sweep.
    limit: usize,
}

impl Default for DestinationChannels {
    fn default() -> Self {
        Self { channels: HashMap::new(), limit: IDLE_CHANNELS }
    }
}

impl DestinationChannels {
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
        if self.channels.len() >= self.limit {
            self.drop_idle(engine);
        }
        let sender = latest::channel(engine.destination(&question));
        let receiver = sender.subscribe();
        self.channels.insert(question, sender);
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
        self.settle();
        let asked = self.channels.keys().cloned();
        asked.map(|question| QueryKey::DestinationOf(DestinationOf(question))).collect()
    }

    /// Drops channels without receivers, and their answers, so that a client that asks for one
    /// address after the other is bounded between sweeps.
    fn drop_idle(&mut self, engine: &mut Engine) {
        let idle = self.channels.extract_if(|_, sender| !sender.has_receivers());
        for (question, _) in idle {
            engine.forget_destination(question);
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.limit = self.channels.len().saturating_mul(2).max(IDLE_CHANNELS);
    }
}
