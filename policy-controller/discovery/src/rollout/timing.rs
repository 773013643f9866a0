//! Measures the time from a change until it is in force on the last workload concerned.

use hashbrown::HashMap;
use policy_engine::desired::ShapeId;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// Identifies a change: everything that one read of the index found.
type ChangeNumber = u64;

/// Changes that are not in force everywhere yet.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    pending: HashMap<(ShapeId, NonZeroU16), ChangeNumber>,
    changes: HashMap<ChangeNumber, Change>,
    last: ChangeNumber,
    durations: Vec<Duration>,
}

#[derive(Debug)]
struct Change {
    published: Instant,
    /// Ports of shapes that it is not in force on everywhere.
    left: usize,
    /// Latest time at which it came to be in force on one of the completed ports.
    latest: Option<Instant>,
}

/// A change that is being recorded.
#[derive(Debug)]
pub(crate) struct ChangeRecorder<'a> {
    timing: &'a mut Timing,
    number: ChangeNumber,
    published: Instant,
}

impl Timing {
    /// A change published at this time.
    pub(crate) fn change(&mut self, published: Instant) -> ChangeRecorder<'_> {
        self.last = self.last.wrapping_add(1);
        let number = self.last;
        ChangeRecorder { timing: self, number, published }
    }

    /// Records that the desired policy of a shape's port is in force on every workload of the
    /// shape, the last since `latest`.
    pub(crate) fn reached(&mut self, shape: ShapeId, port: NonZeroU16, latest: Option<Instant>) {
        if let Some(number) = self.pending.remove(&(shape, port)) {
            self.complete_one(number, latest);
        }
    }

    /// Drops a shape without workloads.
    pub(crate) fn forget(&mut self, shape: ShapeId) {
        let gone: Vec<_> = self.pending.extract_if(|(of, _), _| *of == shape).collect();
        for (_, number) in gone {
            self.complete_one(number, None);
        }
    }

    /// Returns the durations of the changes that have come to be in force everywhere since the last
    /// call.
    pub(crate) fn take_durations(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.durations)
    }

    /// True if no change is pending.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.changes.is_empty()
    }

    fn complete_one(&mut self, number: ChangeNumber, latest: Option<Instant>) {
        let Some(change) = self.changes.get_mut(&number) else { return };
        change.latest = change.latest.max(latest);
        change.left = change.left.saturating_sub(1);
        if change.left == 0
            && let Some(Change { published, latest, .. }) = self.changes.remove(&number)
            // A change that later ones overtook everywhere is not measured.
            && let Some(latest) = latest
        {
            self.durations.push(latest.saturating_duration_since(published));
        }
    }
}

impl ChangeRecorder<'_> {
    /// Adds a port of a shape to the change.
    pub(crate) fn concerns(&mut self, shape: ShapeId, port: NonZeroU16) {
        let before = self.timing.pending.insert((shape, port), self.number);
        let first = || Change { published: self.published, left: 0, latest: None };
        let change = self.timing.changes.entry(self.number).or_insert_with(first);
        change.left = change.left.saturating_add(1);
        if let Some(before) = before {
            self.timing.complete_one(before, None);
        }
    }

    /// Drops a port that is no longer declared.
    pub(crate) fn drops(&mut self, shape: ShapeId, port: NonZeroU16) {
        if let Some(before) = self.timing.pending.remove(&(shape, port)) {
            self.timing.complete_one(before, None);
        }
    }
}
