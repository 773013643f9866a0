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
pub struct RateLimitedWarnings {
    /// By the place in the source that they come from, of which there are not many.
    callsites: Mutex<HashMap<Identifier, CallsiteState>>,
}

#[derive(Debug)]
struct CallsiteState {
    next: Instant,
    suppressed: u64,
}

impl RateLimitedWarnings {
    /// Whether a warning of this place is written now.
    fn admit(&self, callsite: Identifier, now: Instant) -> bool {
        let mut callsites = self.callsites.lock();
        let callsite =
            callsites.entry(callsite).or_insert(CallsiteState { next: now, suppressed: 0 });
        if now < callsite.next {
            callsite.suppressed = callsite.suppressed.saturating_add(1);
            return false;
        }
        callsite.next = now.checked_add(INTERVAL).unwrap_or(now);
        true
    }

    /// How many were left out in front of one that is written.
    fn take_suppressed(&self, callsite: &Identifier) -> u64 {
        let mut callsites = self.callsites.lock();
        callsites.get_mut(callsite).map_or(0, |callsite| std::mem::take(&mut callsite.suppressed))
    }
}

impl<S: Subscriber> Layer<S> for RateLimitedWarnings {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        is_exempt(event) || self.admit(event.metadata().callsite(), Instant::now())
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_exempt(event) {
            return;
        }
        let suppressed = self.take_suppressed(&event.metadata().callsite());
        if suppressed > 0 {
            let library = event.metadata().target();
            tracing::warn!(library, left_out = suppressed, "warnings of a library were left out");
        }
    }
}

/// Whether it is one of ours, or no warning.
fn is_exempt(event: &Event<'_>) -> bool {
    let metadata = event.metadata();
    *metadata.level() != Level::WARN || metadata.target().starts_with(OURS)
}

/// What the names of our crates begin with.
const OURS: &str = "policy_";
/// As for the lines that we write of clients' failures.
const INTERVAL: Duration = Duration::from_secs(10);
