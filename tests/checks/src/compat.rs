//! Decoding Linkerd's messages: what is accepted can be arranged for deciding, and said again.

use policy_core::Facts;
use policy_core::evaluator::Evaluator;
use policy_proto::compat::{self, EncodeOptions};
use policy_proto::linkerd::inbound::Server;
use prost::Message;
use std::sync::Arc;

/// Holds one message of Linkerd's to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    let Ok(server) = Server::decode(data) else { return Ok(()) };
    let _ = compat::decode_facts(&server);
    let policy = match compat::decode(&server) {
        Ok(policy) => policy,
        Err(error) if error.to_string().is_empty() => return Err("a refusal without words".into()),
        Err(_) => return Ok(()),
    };
    let encoded = compat::encode(&policy, &Facts::default(), &EncodeOptions::default());
    compat::decode(&encoded.server).map_err(|error| format!("our own message: {error}"))?;
    // A policy too large to arrange is refused by the store; it must not panic.
    let _ = Evaluator::build(Arc::new(policy));
    Ok(())
}
