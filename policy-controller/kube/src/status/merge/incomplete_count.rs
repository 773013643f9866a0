//! Counts of a leader whose clients have not all connected yet.
//!
//! When all replicas restart at once, proxies connect to them one after the other. Until they have,
//! the count is too low. That is no news about an object, and GitOps tools that read conditions would
//! take it for a fault (linkerd2#14298, linkerd2#12310).

use crate::status::desired::DesiredCondition;
use serde_json::Value;

/// The current condition `Programmed` in place of `desired`, if it is about this generation.
pub(super) fn condition(
    before: Option<&Value>,
    desired: &DesiredCondition,
    generation: Option<i64>,
) -> Option<DesiredCondition> {
    let before = before.filter(|_| desired.kind == "Programmed")?;
    let observed = before.get("observedGeneration").and_then(Value::as_i64);
    if observed.is_some() && observed != generation {
        return None;
    }
    let text = |field: &str| before.get(field).and_then(Value::as_str);
    let status =
        ["True", "False", "Unknown"].into_iter().find(|one| text("status") == Some(one))?;
    let (reason, message) = (text("reason")?.into(), text("message")?.into());
    Some(DesiredCondition { kind: desired.kind, status, reason, message })
}
