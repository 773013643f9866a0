//! One destination: the last answer, and how old it is.

use parking_lot::Mutex;
use policy_core::destination::Destination;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The knowledge of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing: the controller has not answered yet.
    Unanswered,
    /// Nothing: the controller refuses to answer, and has not answered before.
    Refused {
        /// The reason, for people.
        reason: Arc<str>,
    },
    /// The last answer.
    Known {
        /// The destination.
        destination: Arc<Destination>,
        /// True while the controller confirms the answer, and shortly after. If false, "meshed"
        /// still holds, and "not meshed" is no knowledge any more.
        is_fresh: bool,
    },
}

/// Shortest time between two renewals of one entry.
pub(super) const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// A destination.
#[derive(Debug)]
pub(super) struct Entry<B> {
    pub(super) address: SocketAddr,
    pub(super) balancer: Mutex<B>,
    /// Wakes those who wait for an answer.
    pub(super) changed: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    answer: Answer,
    /// The time since which the controller does not confirm the answer; absent: it does.
    lost: Option<Instant>,
    /// True while a renewal waits for its answer.
    is_renewing: bool,
    renewed: Option<Instant>,
}

#[derive(Debug)]
enum Answer {
    None,
    Refused(Arc<str>),
    Known(Arc<Destination>),
}

impl<B> Entry<B> {
    pub(super) fn new(address: SocketAddr) -> Self
    where
        B: Default,
    {
        let state = State { answer: Answer::None, lost: None, is_renewing: false, renewed: None };
        Self {
            address,
            balancer: Mutex::default(),
            changed: Notify::new(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self, stale_unmeshed: Duration, now: Instant) -> Knowledge {
        let state = self.state.lock();
        match &state.answer {
            Answer::None => Knowledge::Unanswered,
            Answer::Refused(reason) => Knowledge::Refused { reason: Arc::clone(reason) },
            Answer::Known(destination) => {
                let age = state.lost.map(|lost| now.saturating_duration_since(lost));
                let is_fresh = age.is_none_or(|age| age < stale_unmeshed);
                Knowledge::Known { destination: Arc::clone(destination), is_fresh }
            }
        }
    }

    /// True if the last answer is a Service.
    pub(super) fn is_service(&self) -> bool {
        match &self.state.lock().answer {
            Answer::Known(destination) => match &**destination {
                Destination::Service(_) | Destination::UndeclaredPort(_) => true,
                Destination::Unknown | Destination::Node | Destination::Workload(_) => false,
            },
            Answer::None | Answer::Refused(_) => false,
        }
    }

    /// True if there is an answer that the controller does not confirm now.
    pub(super) fn is_unconfirmed(&self) -> bool {
        let state = self.state.lock();
        let is_known = match &state.answer {
            Answer::Known(_) => true,
            Answer::None | Answer::Refused(_) => false,
        };
        is_known && state.lost.is_some()
    }

    /// Takes an answer. An equal one keeps its address in memory, by which its readers know it.
    pub(super) fn answer(&self, destination: Arc<Destination>) {
        // Compared without the lock, which connections need; only the client of discovery writes.
        let known = match &self.state.lock().answer {
            Answer::Known(known) => Some(Arc::clone(known)),
            Answer::None | Answer::Refused(_) => None,
        };
        let is_same = known.is_some_and(|known| *known == *destination);
        {
            let mut state = self.state.lock();
            if !is_same {
                state.answer = Answer::Known(destination);
            }
            (state.lost, state.is_renewing) = (None, false);
        }
        self.changed.notify_waiters();
    }

    /// Takes a refusal. It is no answer: what was known ages as if the controller were lost.
    pub(super) fn refuse(&self, reason: &str, now: Instant) {
        {
            let mut state = self.state.lock();
            state.is_renewing = false;
            match state.answer {
                Answer::Known(_) => {
                    state.lost.get_or_insert(now);
                }
                Answer::None | Answer::Refused(_) => state.answer = Answer::Refused(reason.into()),
            }
        }
        self.changed.notify_waiters();
    }

    pub(super) fn lose(&self, now: Instant) {
        let mut state = self.state.lock();
        state.lost.get_or_insert(now);
        // The next connection asks for everything anyway.
        state.is_renewing = false;
    }

    /// Returns true if a renewal is due, and counts it as begun.
    pub(super) fn begin_renewal(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let age = state.renewed.map(|at| now.saturating_duration_since(at));
        let may = !state.is_renewing && age.is_none_or(|age| age >= RENEWAL_INTERVAL);
        if may {
            (state.is_renewing, state.renewed) = (true, Some(now));
        }
        may
    }
}
