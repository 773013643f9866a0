//! Applying native updates, one after the other: what is refused changes nothing, and what is
//! accepted is a policy that encodes to itself.

use policy_core::Revision;
use policy_core::evaluator::Evaluator;
use policy_core::feature::Feature;
use policy_proto::messages::PortUpdate;
use policy_proto::native::{PortState, encode_port};
use prost::Message;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Holds updates to this. `data` is a sequence of them, each with its length before it.
///
/// # Errors
/// What is wrong, in words.
pub fn check(mut data: &[u8]) -> Result<(), String> {
    let features = Feature::ALL.into_iter().collect();
    let mut state = PortState::new();
    while !data.is_empty() {
        let Ok(update) = PortUpdate::decode_length_delimited(&mut data) else { return Ok(()) };
        let before = state.policy().cloned();
        let policy = match state.apply(&update) {
            Ok(policy) => policy,
            Err(_) if state.policy() != before.as_ref() => {
                return Err("a refused update was applied".into());
            }
            Err(_) => continue,
        };
        let encoded = encode_port(&policy, &features);
        let mut again = PortState::new();
        match again.apply(&encoded.full(NonZeroU16::MIN, &Revision::default())) {
            Ok(decoded) if decoded == policy => {}
            Ok(decoded) => return Err(format!("{policy:?} came back as {decoded:?}")),
            Err(error) => return Err(format!("our own update: {error}")),
        }
        let _ = Evaluator::build(Arc::clone(&policy));
    }
    Ok(())
}
