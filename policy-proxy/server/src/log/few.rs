//! Warnings of libraries that whoever is on the other side of a connection can cause at will.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lets a library warn of the same thing once in a while, and says how often it was left out since. Our
/// own crates see to their lines themselves; what is less than a warning is written where somebody asks
/// for it, and then all of it; what is more is always written.
#[derive(Debug, Default)]
pub struct FewWarnings {
    /// By the place in the source that they come from, of which there are not many.
    places: Mutex<HashMap<Identifier, Place>>,
}

#[derive(Debug)]
struct Place {
    next: Instant,
    left_out: u64,
}

impl FewWarnings {
    /// Whether a warning of this place is written now.
    fn admit(&self, place: Identifier, now: Instant) -> bool {
        let mut places = self.places.lock();
        let place = places.entry(place).or_insert(Place { next: now, left_out: 0 });
        if now < place.next {
            place.left_out = place.left_out.saturating_add(1);
            return false;
        }
        place.next = now.checked_add(INTERVAL).unwrap_or(now);
        true
    }

    /// How many were left out in front of one that is written.
    fn left_out(&self, place: &Identifier) -> u64 {
        let mut places = self.places.lock();
        places.get_mut(place).map_or(0, |place| std::mem::take(&mut place.left_out))
    }
}

impl<S: Subscriber> Layer<S> for FewWarnings {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        is_own_affair(event) || self.admit(event.metadata().callsite(), Instant::now())
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_own_affair(event) {
            return;
        }
        let left_out = self.left_out(&event.metadata().callsite());
        if left_out > 0 {
            let library = event.metadata().target();
            tracing::warn!(library, left_out, "warnings of a library were left out");
        }
    }
}

/// Whether it is one of ours, or no warning.
fn is_own_affair(event: &Event<'_>) -> bool {
    let metadata = event.metadata();
    *metadata.level() != Level::WARN || metadata.target().starts_with(OURS)
}

/// What the names of our crates begin with.
const OURS: &str = "policy_";
/// As for the lines that we write of clients' failures.
const INTERVAL: Duration = Duration::from_secs(10);
