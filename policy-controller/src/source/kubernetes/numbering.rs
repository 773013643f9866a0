//! Names the epochs: raises the counter in the Lease where the storage was restored, and follows where
//! another replica has.
//!
//! ```text
//! watch ──older──▶ gather ──older──▶ numbering ◀──Lease──▶ API server
//!                    ▲                   │
//!                    └────── epoch ──────┘
//! ```
//!
//! **Invariants.** The counter never goes down while a replica lives that has seen it. It is raised
//! above everything that the replica has read of it, by a write that fails where somebody has written
//! since, before anything is published of what shows the restore.

use super::api::{Api, Failure};
use super::backoff::{Backoff, jittered};
use super::epoch::{self, Lease, Names};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often the Lease is looked at. Each refresh has it looked at too.
const LOOK: Duration = Duration::from_secs(5);

/// The same where the API server does not allow it.
const REFUSED: Duration = Duration::from_secs(60);

/// How often the Lease is read again at once because somebody has written meanwhile.
const CONFLICTS: u32 = 5;

/// The epoch, and up to which refresh it is known to be the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// Its name.
    pub(super) epoch: Arc<str>,
    /// Counts the epochs of this process.
    pub(super) number: u64,
    /// The last refresh since whose beginning the Lease was looked at.
    pub(super) looked: u64,
}

/// Looks at the Lease for as long as the source runs.
pub(super) struct Numbering {
    api: Api,
    names: Names,
    /// The Lease as it was last read; none: its epoch is not the one that goes on.
    lease: Option<Lease>,
    /// Whether the counter has to be raised.
    owes: bool,
    /// Whether the epoch is this process's own because the counter could not be raised.
    alone: bool,
    told: watch::Sender<Numbered>,
    refresh: watch::Receiver<u64>,
    older: watch::Receiver<Option<u64>>,
    /// What of that has been taken note of.
    noticed: Option<u64>,
    backoff: Backoff,
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The epoch goes on.
    Keep,
    /// The Lease names another epoch.
    Follow,
    /// The counter has to become this.
    Raise(u64),
}

impl Numbering {
    /// Goes on from the epoch that `told` holds and the Lease that named it, if one did. `older` says
    /// in which epoch something was read that is older than what was read before.
    pub(super) fn new(
        (api, names): (Api, Names),
        lease: Option<Lease>,
        told: watch::Sender<Numbered>,
        refresh: watch::Receiver<u64>,
        older: watch::Receiver<Option<u64>>,
    ) -> Self {
        let (owes, alone, noticed, backoff) = (false, false, None, Backoff::default());
        Self { api, names, lease, owes, alone, told, refresh, older, noticed, backoff }
    }

    /// Runs until nobody asks any more.
    pub(super) async fn run(mut self) {
        loop {
            let refresh = *self.refresh.borrow_and_update();
            self.note_older();
            let wait = match self.look().await {
                Ok(()) => {
                    self.backoff.reset();
                    self.looked(refresh);
                    jittered(LOOK)
                }
                Err(failure) if failure.is_final() => {
                    self.refused(&failure);
                    self.looked(refresh);
                    jittered(REFUSED)
                }
                Err(failure) => {
                    tracing::debug!(error = %failure, "the Lease cannot be looked at");
                    self.backoff.next(failure.retry_after())
                }
            };
            let goes_on = tokio::select! {
                () = sleep(wait) => true,
                changed = self.refresh.changed() => changed.is_ok(),
                changed = self.older.changed() => changed.is_ok(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Takes note of what was read that is older than what was read before, in the epoch that goes on.
    fn note_older(&mut self) {
        let older = *self.older.borrow_and_update();
        if older == Some(self.told.borrow().number) && older != self.noticed {
            (self.owes, self.alone, self.noticed) = (true, false, older);
            tracing::warn!(
                "the API server lists older versions than it did before, as after a restored backup: \
                 revisions are numbered anew"
            );
        }
    }

    /// Looks at the Lease, and does what it takes.
    async fn look(&mut self) -> Result<(), Failure> {
        for _ in 0..CONFLICTS {
            let read = epoch::read(&self.api, &self.names).await?;
            match decide(self.lease.as_ref(), &read, self.owes) {
                Step::Keep => {
                    self.lease = Some(read);
                    return Ok(());
                }
                Step::Follow => {
                    self.begin(read);
                    return Ok(());
                }
                Step::Raise(counter) => {
                    self.owes = true;
                    match epoch::write(&self.api, &self.names, &read, counter).await {
                        Err(failure) if failure.is_conflict() => {}
                        written => {
                            self.begin(written?);
                            return Ok(());
                        }
                    }
                }
            }
        }
        Err(Failure::Unreachable("the Lease is written by others again and again".to_owned()))
    }

    /// Begins the epoch that a Lease names.
    fn begin(&mut self, lease: Lease) {
        let epoch = lease.epoch();
        tracing::info!(%epoch, "everything is listed again for another epoch");
        (self.owes, self.alone, self.lease) = (false, false, Some(lease));
        self.tell(epoch);
    }

    /// Begins an epoch of this process alone where a restore was noticed and the counter cannot be
    /// raised.
    fn refused(&mut self, failure: &Failure) {
        if self.owes && !self.alone {
            self.alone = true;
            tracing::warn!(
                reason = %failure,
                "the Lease cannot be written: revisions of replicas cannot be compared until it can"
            );
            self.tell(epoch::of_this_process());
        }
    }

    fn tell(&self, epoch: Arc<str>) {
        self.told.send_modify(|told| {
            (told.epoch, told.number) = (epoch, told.number.saturating_add(1));
        });
    }

    fn looked(&self, refresh: u64) {
        self.told.send_if_modified(|told| {
            let later = refresh > told.looked;
            told.looked = told.looked.max(refresh);
            later
        });
    }
}

/// What a Lease that was `held` and has been `read` now asks for, where the counter has to be raised or
/// not.
fn decide(held: Option<&Lease>, read: &Lease, owes: bool) -> Step {
    let Some(held) = held else { return Step::Follow };
    // Whoever has raised it has noticed what there is to notice.
    if read.counter > held.counter {
        return Step::Follow;
    }
    let older = read.version.zip(held.version).is_some_and(|(read, held)| read < held);
    let same = read.uid == held.uid;
    if owes || older || (same && read.counter < held.counter) {
        return Step::Raise(held.counter.saturating_add(1));
    }
    if same { Step::Keep } else { Step::Follow }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_raised_after_a_restore_and_followed_where_another_has_raised_it() {
        let lease = Lease::for_test;
        let held = lease("a", 3, 50);
        let of = |read: Lease| [false, true].map(|owes| decide(Some(&held), &read, owes));
        assert_eq!(of(lease("a", 3, 50)), [Step::Keep, Step::Raise(4)]);
        assert_eq!(of(lease("a", 3, 60)), [Step::Keep, Step::Raise(4)], "renewed by its holder");
        assert_eq!(of(lease("a", 3, 49)), [Step::Raise(4), Step::Raise(4)], "restored");
        assert_eq!(
            of(lease("a", 1, 20)),
            [Step::Raise(4), Step::Raise(4)],
            "with an older counter"
        );
        assert_eq!(of(lease("a", 0, 60)), [Step::Raise(4), Step::Raise(4)], "annotation removed");
        assert_eq!(of(lease("a", 4, 20)), [Step::Follow, Step::Follow], "raised by another");
        assert_eq!(of(lease("b", 0, 60)), [Step::Follow, Step::Raise(4)], "made anew");
        assert_eq!(of(lease("b", 0, 20)), [Step::Raise(4), Step::Raise(4)], "restored, of before");
        assert_eq!(decide(None, &lease("a", 0, 1), true), Step::Follow, "it may be read now");
    }
}
