//! The subscribers of destinations, and the answer last published to each question.

use crate::destination_shares::{DestinationClient, DestinationShares, MOST_AT_ONCE};
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

/// The part of all channels, one in so many, that is kept for clients that follow little. Otherwise who gave
/// way would take the room at once that was made for others.
const RESERVED: usize = 16;

/// Every channel there is: one per question, however many clients ask it.
pub(crate) struct DestinationChannels {
    channels: HashMap<DestinationQuestion, Channel>,
    /// Questions whose channel was closed because of the client it counted for, while others followed
    /// it, too. The first of these that asks again has its place.
    handed_over: HashMap<DestinationQuestion, DestinationClient>,
    shares: DestinationShares,
    /// The most channels.
    max: usize,
    /// Number of channels at which idle ones are dropped without waiting for the next sweep.
    limit: usize,
    /// True once there are as many.
    is_full: bool,
}

/// The answer to a question, and the client that it counts for.
struct Channel {
    sender: latest::Sender<Arc<PublishedDestination>>,
    client: DestinationClient,
}

impl DestinationChannels {
    /// No channel, and at most `max` later.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            channels: HashMap::new(),
            handed_over: HashMap::new(),
            shares: DestinationShares::default(),
            max,
            limit: IDLE_CHANNELS.min(max),
            is_full: false,
        }
    }

    /// Follows the answer to a question, for a client.
    pub(crate) fn follow(
        &mut self,
        engine: &mut Engine,
        question: DestinationQuestion,
        client: DestinationClient,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        if !engine.answers_destinations() {
            return Err(LookupError::OutboundOff);
        }
        if !engine.is_synced() {
            return Err(LookupError::NotSynced);
        }
        if let Some(channel) = self.channels.get(&question) {
            return Ok(channel.sender.subscribe());
        }
        if !self.takes_over(&question, &client) && !self.has_room_for(&client) {
            return Err(LookupError::TooManyDestinations);
        }
        let sender = latest::channel(engine.destination(&question));
        let receiver = sender.subscribe();
        self.shares.hold(&client);
        self.channels.insert(question, Channel { sender, client });
        self.is_full = self.channels.len() >= self.limit;
        Ok(receiver)
    }

    /// True if a client asks again for what was closed because of another one.
    fn takes_over(&mut self, question: &DestinationQuestion, client: &DestinationClient) -> bool {
        let is_of_another = self.handed_over.get(question).is_some_and(|from| from != client);
        let has_place = self.channels.len() < self.max.saturating_add(MOST_AT_ONCE);
        is_of_another && has_place && self.handed_over.remove(question).is_some()
    }

    /// True if a client may follow one more. Where there is no room, who holds most makes some.
    fn has_room_for(&mut self, client: &DestinationClient) -> bool {
        let reserved = self.max.checked_div(RESERVED).unwrap_or_default();
        if self.channels.len() < self.max.saturating_sub(reserved) {
            return true;
        }
        let Some((largest, count)) = self.shares.gives_way(client) else { return false };
        if self.channels.len() >= self.max {
            self.close(&largest, count);
        }
        self.channels.len() < self.max
    }

    /// Closes so many channels: those that nobody follows, then those of a client that nobody else follows,
    /// then others of it. Other clients that follow these ask again, and have their places, by which the
    /// bound in all is passed by as many at most as are closed at once.
    fn close(&mut self, client: &DestinationClient, count: usize) {
        let mut left = count;
        let is_idle = |channel: &Channel| !channel.sender.has_receivers();
        let is_alone = |channel: &Channel| {
            channel.client == *client && !channel.sender.has_several_receivers()
        };
        let is_its = |channel: &Channel| channel.client == *client;
        let Self { channels, handed_over, shares, .. } = self;
        // Who asks again does so at once.
        handed_over.clear();
        for may_go in [&is_idle as &dyn Fn(&Channel) -> bool, &is_alone, &is_its] {
            channels.retain(|question, channel| {
                let is_shared = channel.sender.has_several_receivers();
                let goes = left > 0 && may_go(channel);
                if goes {
                    left = left.saturating_sub(1);
                    shares.give_back(&channel.client);
                    if is_shared {
                        handed_over.insert(question.clone(), channel.client.clone());
                    }
                }
                !goes
            });
        }
    }

    /// Publishes answers that may have changed.
    pub(crate) fn publish(&self, engine: &mut Engine, questions: &[DestinationOf]) {
        for DestinationOf(question) in questions {
            let Some(channel) = self.channels.get(question) else { continue };
            let answer = engine.destination(question);
            channel.sender.send_if_modified(|current| {
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
        self.channels.retain(|_, channel| {
            let is_followed = channel.sender.has_receivers();
            if !is_followed {
                self.shares.give_back(&channel.client);
            }
            is_followed
        });
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
