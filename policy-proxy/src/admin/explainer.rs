//! Explains new groups of decisions, within one hundredth of a core.
//!
//! A group is explained if the policy that it was decided by is still in force. Others are explained when
//! they are read, by the policy that is in force then.

use super::decision_fields::explanation;
use policy_enforce::record::Decisions;
use policy_enforce::store::PolicyStore;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks at what is new.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time for which the explainer rests, in shares of the time that it took.
const REST: u32 = 99;

/// Explains what is new, until the task is dropped.
pub async fn run(store: PolicyStore, decisions: Arc<Decisions>) {
    loop {
        let spent = explain_new(&store, &decisions);
        tokio::time::sleep(spent.saturating_mul(REST).max(INTERVAL)).await;
    }
}

/// Explains new groups until its share of a second is used up. Returns the time that it took.
fn explain_new(store: &PolicyStore, decisions: &Decisions) -> Duration {
    let started = Instant::now();
    let share = INTERVAL.checked_div(REST).unwrap_or_default();
    while started.elapsed() < share {
        let Some(group) = decisions.take_unexplained() else { break };
        let live = NonZeroU16::new(group.key.port).and_then(|port| store.live(port));
        let policy = live.as_ref().and_then(|live| live.in_force().ok());
        if policy.is_some_and(|policy| policy.generation == group.key.generation)
            && let Some(explained) = explanation(store, &group)
        {
            decisions.explain(group.id, explained.to_string().into());
        }
    }
    started.elapsed()
}
