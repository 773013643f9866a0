//! Taking answers about a destination, one after the other: what is refused changes nothing, and what
//! is accepted encodes to itself, whole and as a change.

use policy_core::destination::Destination;
use policy_proto::DecodeError;
use policy_proto::messages::{DestinationResponse, destination_response::Kind};
use policy_proto::native::destination::{
    DestinationState, change_of_destination, encode_destination,
};
use prost::Message;
use std::sync::Arc;

/// Holds answers to this. `data` is a sequence of them, each with its length before it.
///
/// # Errors
/// What is wrong, in words.
pub fn check(mut data: &[u8]) -> Result<(), String> {
    let mut state = DestinationState::new();
    while !data.is_empty() {
        let Ok(response) = DestinationResponse::decode_length_delimited(&mut data) else {
            return Ok(());
        };
        let Some(kind) = response.kind else { continue };
        let before = state.complete().cloned();
        match apply(&mut state, &kind) {
            Ok(Some(after)) => comes_back(before.as_deref(), &after)?,
            Ok(None) | Err(_) if state.complete() == before.as_ref() => {}
            Ok(None) | Err(_) => return Err("a refused or partial answer was applied".into()),
        }
    }
    Ok(())
}

fn apply(
    state: &mut DestinationState,
    kind: &Kind,
) -> Result<Option<Arc<Destination>>, DecodeError> {
    match kind {
        Kind::Found(found) => state.found(found),
        Kind::More(more) => state.more(more),
        Kind::Changed(changed) => state.changed(changed),
        Kind::Refused(_) | Kind::Released(_) => Ok(None),
    }
}

/// A client that has `before` gets `after`, whole and as a change.
fn comes_back(before: Option<&Destination>, after: &Destination) -> Result<(), String> {
    let take = |state: &mut DestinationState, messages: &[Kind]| {
        let mut last = None;
        for message in messages {
            last = apply(state, message).map_err(|error| format!("our own answer: {error}"))?;
        }
        Ok::<_, String>(last)
    };
    let mut state = DestinationState::new();
    let whole = take(&mut state, &encode_destination(after))?;
    if whole.as_deref() != Some(after) {
        return Err(format!("{after:?} came back as {whole:?}"));
    }
    let Some(before) = before else { return Ok(()) };
    let Some(change) = change_of_destination(before, after) else { return Ok(()) };
    let mut state = DestinationState::new();
    take(&mut state, &encode_destination(before))?;
    let changed = take(&mut state, &change)?;
    if changed.as_deref() != Some(after) {
        return Err(format!("{before:?} was changed to {changed:?}, not {after:?}"));
    }
    Ok(())
}
