//! An object that nobody edited, and that stopped matching.
//!
//! A workload's upgrade that renames a port or a label leaves a policy behind that protects nothing,
//! and nobody is told (ISTIO-SECURITY-2021-002). What the object was told before is the only record of
//! it.

use crate::status::desired::{Told, bounded};
use policy_engine::programmed::LOST;
use serde_json::Value;

/// The reason of what stopped matching.
pub(crate) const REASON: &str = "StoppedMatching";

/// The reasons of what concerned proxies, or had.
const CONCERNED: [&str; 4] = ["Programmed", "Pending", "Refused", REASON];

/// Between what an object was told while it was in force and what it is told now.
const NOW: &str = ", and now: ";
/// What to do about it.
const ADVICE: &str = ". Unless its workloads were scaled to zero or removed, look at its selector, \
                      port and target";

/// What is told in place of `told` where proxies depended on the object `before`, none does now, and
/// the object is still of the same generation. It stays until one does again or the object is edited.
pub(super) fn matching(
    before: Option<&Value>,
    told: &Told,
    generation: Option<i64>,
) -> Option<Told> {
    if told.kind != "Programmed" || !LOST.contains(&&*told.reason) {
        return None;
    }
    let before = before?;
    let text = |field: &str| before.get(field).and_then(Value::as_str).unwrap_or_default();
    let observed = before.get("observedGeneration").and_then(Value::as_i64);
    let unedited = observed.is_none() || observed == generation;
    if !unedited || !CONCERNED.contains(&text("reason")) {
        return None;
    }
    let (was, _) = text("message").split_once(NOW).unwrap_or((text("message"), ""));
    let message = bounded(&format!("{was}{NOW}{}{ADVICE}", told.message));
    Some(Told { status: "False", reason: REASON.into(), message, ..told.clone() })
}
