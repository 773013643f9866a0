//! An object that nobody edited, and that stopped matching.
//!
//! A workload's upgrade that renames a port or a label leaves a policy behind that protects nothing,
//! and nobody is told (ISTIO-SECURITY-2021-002). What the object was told before is the only record of
//! it.

use crate::status::desired::{DesiredCondition, bounded};
use policy_engine::programmed::LOST;
use serde_json::Value;

/// The reason of what stopped matching.
pub(crate) const REASON: &str = "StoppedMatching";

/// The reasons of what concerned proxies, or had.
const MATCHED_REASONS: [&str; 4] = ["Programmed", "Pending", "Refused", REASON];

/// Between what an object was told while it was in force and what it is told now.
const SEPARATOR: &str = ", and now: ";
/// What to do about it.
const ADVICE: &str = ". Unless its workloads were scaled to zero or removed, look at its selector, \
                      port and target";

/// What is told in place of `told` where proxies depended on the object `before`, none does now, and
/// the object is still of the same generation. It stays until one does again or the object is edited.
pub(super) fn condition(
    before: Option<&Value>,
    desired: &DesiredCondition,
    generation: Option<i64>,
) -> Option<DesiredCondition> {
    if desired.kind != "Programmed" || !LOST.contains(&&*desired.reason) {
        return None;
    }
    let before = before?;
    let text = |field: &str| before.get(field).and_then(Value::as_str).unwrap_or_default();
    let observed = before.get("observedGeneration").and_then(Value::as_i64);
    let unedited = observed.is_none() || observed == generation;
    if !unedited || !MATCHED_REASONS.contains(&text("reason")) {
        return None;
    }
    let (was, _) = text("message").split_once(SEPARATOR).unwrap_or((text("message"), ""));
    let message = bounded(&format!("{was}{SEPARATOR}{}{ADVICE}", desired.message));
    Some(DesiredCondition { status: "False", reason: REASON.into(), message, ..desired.clone() })
}
