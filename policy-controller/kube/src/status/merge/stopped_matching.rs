//! Objects that stopped matching without being edited.
//!
//! A workload's upgrade that renames a port or a label leaves a policy behind that protects nothing,
//! and no operator notices (ISTIO-SECURITY-2021-002). The previous condition is the only record of
//! it.

use crate::status::desired::{DesiredCondition, STOPPED_MATCHING};
use crate::status::message::bounded;
use policy_engine::programmed::no_longer_matches;
use serde_json::Value;

/// The reasons of objects that match proxies, or did.
const MATCHED_REASONS: [&str; 4] = ["Programmed", "Pending", "Refused", STOPPED_MATCHING];

/// Separates the message while it was in force from the current one.
const SEPARATOR: &str = ", and now: ";
/// Advice to the operator.
const ADVICE: &str = ". Unless its workloads were scaled to zero or removed, check its selector, \
                      port and target";

/// The condition in place of `desired` if proxies depended on the object `before`, none does now, and
/// its generation is the same. It stays until one does again or the object is edited.
pub(super) fn condition(
    before: Option<&Value>,
    desired: &DesiredCondition,
    generation: Option<i64>,
) -> Option<DesiredCondition> {
    if desired.kind != "Programmed" || !no_longer_matches(&desired.reason) {
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
    Some(DesiredCondition {
        status: "False",
        reason: STOPPED_MATCHING.into(),
        message,
        ..desired.clone()
    })
}
