//! Rate limit of library warnings that peers can cause at will.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Rate-limits the warnings of libraries and reports the number of suppressed ones. Not affected:
/// our own crates, which limit their lines themselves; levels below warning, which are written only
/// if enabled; and errors.
#[derive(Debug, Default)]
pub struct RateLimitedWarnings {
    /// By callsite, of which there are few.
    callsites: Mutex<HashMap<Identifier, CallsiteState>>,
}

#[derive(Debug)]
struct CallsiteState {
    next: Instant,
    suppressed: u64,
}

impl RateLimitedWarnings {
    /// Returns true if a warning of this callsite is written now.
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

    /// Takes the number of warnings suppressed before the current one.
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
            tracing::warn!(library, left_out = suppressed, "library warnings suppressed");
        }
    }
}

/// Returns true for events of our crates, and for events that are not warnings.
fn is_exempt(event: &Event<'_>) -> bool {
    let metadata = event.metadata();
    *metadata.level() != Level::WARN || metadata.target().starts_with(OURS)
}

/// Prefix of the names of our crates.
const OURS: &str = "policy_";
/// As for the log lines about failures of clients.
const INTERVAL: Duration = Duration::from_secs(10);
