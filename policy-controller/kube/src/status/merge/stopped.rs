//! An object that nobody edited, and that stopped matching.
//!
//! A workload's upgrade that renames a port or a label leaves a policy behind that protects nothing,
//! and nobody is told (ISTIO-SECURITY-2021-002). What the object was told before is the only record of
//! it.

use crate::status::desired::Told;
use serde_json::Value;

/// The reason of what stopped matching.
pub(crate) const REASON: &str = "StoppedMatching";

/// The reasons of what concerned proxies, or had.
const CONCERNED: [&str; 4] = ["Programmed", "Pending", "Refused", REASON];

/// What is told in place of `told` where proxies depended on the object `before`, none does now, and
/// the object is still of the same generation. It stays until one does again or the object is edited.
pub(super) fn matching(
    before: Option<&Value>,
    told: &Told,
    generation: Option<i64>,
) -> Option<Told> {
    if told.kind != "Programmed" || &*told.reason != "NoProxies" {
        return None;
    }
    let before = before?;
    let text = |field: &str| before.get(field).and_then(Value::as_str).unwrap_or_default();
    let observed = before.get("observedGeneration").and_then(Value::as_i64);
    let unedited = observed.is_none() || observed == generation;
    if !unedited || !CONCERNED.contains(&text("reason")) {
        return None;
    }
    let message = match text("reason") {
        REASON => text("message").into(),
        _ => format!(
            "{}, and now no running pod with a sidecar depends on it: unless its workloads were \
             scaled to zero or removed, look at its selector, port and target",
            text("message")
        )
        .into(),
    };
    Some(Told { status: "False", reason: REASON.into(), message, ..told.clone() })
}
