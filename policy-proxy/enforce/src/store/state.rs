//! The states of one port's policy and all transitions between them, without clock or I/O.

use policy_core::Denied;
use std::time::Duration;
use tokio::time::Instant;

/// State of one port's policy. `P` is the policy itself; transitions never inspect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State<P> {
    /// Nothing has been received.
    Waiting,
    /// The controller's latest policy, according to an open stream.
    Current(P),
    /// The last good policy, after the stream was lost or an update was rejected.
    Stale {
        /// The last good policy.
        policy: P,
        /// Time since when it may be out of date.
        since: Instant,
    },
    /// Stale for longer than the maximum age: nothing is granted until the controller answers.
    Expired {
        /// The last good policy, which the controller may send again.
        policy: P,
        /// Time since when it may be out of date.
        since: Instant,
    },
    /// Every update so far was rejected.
    Rejected,
    /// The workload denies undeclared ports.
    Undeclared,
}

/// Event of a port's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// A policy was received and built.
    Received(P),
    /// A policy could not be applied.
    Rejected,
    /// The stream of updates ended.
    Lost,
    /// Time passed.
    Tick {
        /// Maximum age of a stale policy; `None` for no limit.
        maximum_age: Option<Duration>,
    },
    /// The port is undeclared, and undeclared ports are denied.
    Undeclared,
    /// The port is declared again, or undeclared ports have a policy again.
    Declared,
}

/// Returns the state after `event`. Every event is legal in every state.
pub fn step<P>(state: State<P>, event: Event<P>, now: Instant) -> State<P> {
    match event {
        Event::Received(policy) => State::Current(policy),
        Event::Rejected => rejected(state, now),
        Event::Lost => lost(state, now),
        Event::Tick { maximum_age } => tick(state, now, maximum_age),
        Event::Undeclared => State::Undeclared,
        Event::Declared => declared(state),
    }
}

/// Keeps the last good policy, which is no longer the latest.
fn rejected<P>(state: State<P>, now: Instant) -> State<P> {
    match state {
        State::Waiting => State::Rejected,
        State::Current(policy) => State::Stale { policy, since: now },
        kept @ (State::Stale { .. }
        | State::Expired { .. }
        | State::Rejected
        | State::Undeclared) => kept,
    }
}

fn lost<P>(state: State<P>, now: Instant) -> State<P> {
    match state {
        State::Current(policy) => State::Stale { policy, since: now },
        kept @ (State::Waiting
        | State::Stale { .. }
        | State::Expired { .. }
        | State::Rejected
        | State::Undeclared) => kept,
    }
}

fn tick<P>(state: State<P>, now: Instant, maximum_age: Option<Duration>) -> State<P> {
    match state {
        State::Stale { policy, since } => {
            let expired =
                maximum_age.is_some_and(|bound| now.saturating_duration_since(since) >= bound);
            if expired { State::Expired { policy, since } } else { State::Stale { policy, since } }
        }
        kept @ (State::Waiting
        | State::Current(_)
        | State::Expired { .. }
        | State::Rejected
        | State::Undeclared) => kept,
    }
}

fn declared<P>(state: State<P>) -> State<P> {
    match state {
        State::Undeclared => State::Waiting,
        kept @ (State::Waiting
        | State::Current(_)
        | State::Stale { .. }
        | State::Expired { .. }
        | State::Rejected) => kept,
    }
}

impl<P> State<P> {
    /// Returns the last good policy, in force or expired.
    pub fn last_good(&self) -> Option<&P> {
        match self {
            Self::Current(policy) | Self::Stale { policy, .. } | Self::Expired { policy, .. } => {
                Some(policy)
            }
            Self::Waiting | Self::Rejected | Self::Undeclared => None,
        }
    }

    /// Returns the reason if connections are refused without waiting.
    pub fn refusal(&self) -> Option<Denied> {
        match self {
            Self::Waiting | Self::Current(_) | Self::Stale { .. } => None,
            Self::Expired { .. } => Some(Denied::PolicyExpired),
            // No usable policy was received; to the caller that equals none at all.
            Self::Rejected => Some(Denied::PolicyPending),
            Self::Undeclared => Some(Denied::PortUndeclared),
        }
    }

    /// Returns the time since when the policy may be out of date; `None` while it is the latest.
    pub fn since(&self) -> Option<Instant> {
        match self {
            Self::Stale { since, .. } | Self::Expired { since, .. } => Some(*since),
            Self::Waiting | Self::Current(_) | Self::Rejected | Self::Undeclared => None,
        }
    }

    /// Returns the state's name in metrics and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Current(_) => "current",
            Self::Stale { .. } => "stale",
            Self::Expired { .. } => "expired",
            Self::Rejected => "rejected",
            Self::Undeclared => "undeclared",
        }
    }

    /// Returns the same state with another policy.
    pub fn map<Q>(self, change: impl FnOnce(P) -> Q) -> State<Q> {
        match self {
            Self::Waiting => State::Waiting,
            Self::Current(policy) => State::Current(change(policy)),
            Self::Stale { policy, since } => State::Stale { policy: change(policy), since },
            Self::Expired { policy, since } => State::Expired { policy: change(policy), since },
            Self::Rejected => State::Rejected,
            Self::Undeclared => State::Undeclared,
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;
    use State::{Current, Expired, Rejected, Stale, Undeclared, Waiting};

    const BOUND: Duration = Duration::from_secs(60);

    /// Every state in every event: the table that the module's documentation promises.
    #[test]
    fn every_event_in_every_state_has_the_stated_result() {
        let t0 = Instant::now();
        let now = t0 + Duration::from_secs(10);
        let stale = Stale { policy: 1, since: t0 };
        let expired = Expired { policy: 1, since: t0 };
        let tick = Event::Tick { maximum_age: Some(BOUND) };
        let rows: Vec<(State<u8>, Event<u8>, State<u8>)> = vec![
            (Waiting, Event::Received(2), Current(2)),
            (Waiting, Event::Rejected, Rejected),
            (Waiting, Event::Lost, Waiting),
            (Waiting, tick.clone(), Waiting),
            (Waiting, Event::Undeclared, Undeclared),
            (Waiting, Event::Declared, Waiting),
            (Current(1), Event::Received(2), Current(2)),
            (Current(1), Event::Rejected, Stale { policy: 1, since: now }),
            (Current(1), Event::Lost, Stale { policy: 1, since: now }),
            (Current(1), tick.clone(), Current(1)),
            (Current(1), Event::Undeclared, Undeclared),
            (Current(1), Event::Declared, Current(1)),
            (stale.clone(), Event::Received(2), Current(2)),
            (stale.clone(), Event::Rejected, stale.clone()),
            (stale.clone(), Event::Lost, stale.clone()),
            (stale.clone(), tick.clone(), stale.clone()),
            (stale.clone(), Event::Undeclared, Undeclared),
            (stale.clone(), Event::Declared, stale),
            (expired.clone(), Event::Received(2), Current(2)),
            (expired.clone(), Event::Rejected, expired.clone()),
            (expired.clone(), Event::Lost, expired.clone()),
            (expired.clone(), tick.clone(), expired.clone()),
            (expired.clone(), Event::Undeclared, Undeclared),
            (expired.clone(), Event::Declared, expired),
            (Rejected, Event::Received(2), Current(2)),
            (Rejected, Event::Rejected, Rejected),
            (Rejected, Event::Lost, Rejected),
            (Rejected, tick.clone(), Rejected),
            (Rejected, Event::Undeclared, Undeclared),
            (Rejected, Event::Declared, Rejected),
            (Undeclared, Event::Received(2), Current(2)),
            (Undeclared, Event::Rejected, Undeclared),
            (Undeclared, Event::Lost, Undeclared),
            (Undeclared, tick, Undeclared),
            (Undeclared, Event::Undeclared, Undeclared),
            (Undeclared, Event::Declared, Waiting),
        ];
        assert_eq!(rows.len(), 6 * 6, "a row per state and event");
        for (state, event, expected) in rows {
            assert_eq!(
                step(state.clone(), event.clone(), now),
                expected,
                "{state:?} and {event:?}"
            );
        }
    }

    #[test]
    fn a_stale_policy_expires_exactly_at_the_maximum_age() {
        let since = Instant::now();
        let stale = Stale { policy: 1, since };
        let tick = Event::Tick { maximum_age: Some(BOUND) };
        let before = since + BOUND - Duration::from_millis(1);
        assert_eq!(step(stale.clone(), tick.clone(), before), stale);
        assert_eq!(step(stale.clone(), tick, since + BOUND), Expired { policy: 1, since });
        let unbounded = Event::Tick { maximum_age: None };
        assert_eq!(step(stale.clone(), unbounded, since + BOUND * 1000), stale);
    }

    #[test]
    fn only_expired_rejected_and_undeclared_ports_refuse_at_once() {
        let since = Instant::now();
        assert_eq!(Waiting::<u8>.refusal(), None);
        assert_eq!(Current(1).refusal(), None);
        assert_eq!(Stale { policy: 1, since }.refusal(), None);
        assert_eq!(Expired { policy: 1, since }.refusal(), Some(Denied::PolicyExpired));
        assert_eq!(Rejected::<u8>.refusal(), Some(Denied::PolicyPending));
        assert_eq!(Undeclared::<u8>.refusal(), Some(Denied::PortUndeclared));
    }
}
