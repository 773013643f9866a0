//! Reading `PolicyDiscovery.Watch` field by field as it arrives: whatever the pieces in which they come,
//! messages say what they say to the protobuf library, which reads each as a whole, and an update that is
//! refused changes nothing.
//!
//! Refused is more: a message with a group, which protobuf has given up.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use policy_core::ServerPolicy;
use policy_proto::messages as m;
use policy_proto::messages::watch_response::Kind;
use policy_proto::native::stream_decoder::{self, Response};
use policy_proto::native::{ApplyError, PortState};
use prost::Message;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

/// The most that a message may take, in bytes.
const MAX: usize = 1 << 20;
/// Longer streams do not come byte by byte.
const SHORT: usize = 4 * 1024;
/// A message's head: whether it is compressed, and its length.
const HEAD: usize = 5;

/// Outcome of one message.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Workload(Box<m::Workload>),
    Policy(Arc<ServerPolicy>),
    /// An update that was not applied.
    Refused,
    Unknown,
    /// Nothing follows.
    End,
    /// It is no message; nothing follows.
    Broken(String),
}

/// Holds the body of a response to this: messages, each with its head.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    let theirs = library(data)?;
    for piece in [data.len().max(1), 7, 1] {
        if piece == 1 && data.len() > SHORT {
            continue;
        }
        let ours = ours(data, piece)?;
        alike(&ours, &theirs).map_err(|wrong| format!("in pieces of {piece}: {wrong}"))?;
    }
    Ok(())
}

fn alike(ours: &[Said], theirs: &[Said]) -> Result<(), String> {
    for (place, (own, their)) in ours.iter().zip(theirs).enumerate() {
        match (own, their) {
            // What is wrong within a field may be told before the message has ended, or as refused.
            (Said::Broken(_) | Said::Refused, Said::Broken(_)) => return Ok(()),
            (Said::Broken(why), _) if why.contains("has a group") => return Ok(()),
            (own, their) if own == their => {}
            _ => return Err(format!("message {place} is {own:?} to us, {their:?} to the library")),
        }
    }
    if ours.len() == theirs.len() {
        return Ok(());
    }
    Err(format!("{} messages to us, {} to the library", ours.len(), theirs.len()))
}

fn ours(data: &[u8], piece: usize) -> Result<Vec<Said>, String> {
    let pieces: Vec<_> = data.chunks(piece).map(Bytes::copy_from_slice).collect();
    let frames = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    let mut answer = Some(http::Response::new(StreamBody::new(stream::iter(frames))));
    let channel = tower::service_fn(move |_: http::Request<tonic::body::Body>| {
        ready(answer.take().ok_or("asked twice"))
    });
    let watching = stream_decoder::watch(channel, MAX, stream::empty()).now_or_never();
    let mut responses = watching.ok_or("waits for its answer")?.map_err(|e| e.to_string())?;
    let (mut said, mut state) = (Vec::new(), PortState::new());
    loop {
        let next = responses.message().now_or_never().ok_or("waits for more than there is")?;
        let message = match next {
            Ok(Some(Response::Workload(workload))) => Said::Workload(workload),
            Ok(Some(Response::Port(update))) => {
                applied(&mut state, |state| Ok(state.apply_read(*update)?.policy))?
            }
            Ok(Some(Response::Unknown)) => Said::Unknown,
            Ok(None) => Said::End,
            Err(status) => Said::Broken(status.message().to_owned()),
        };
        let over = matches!(message, Said::End | Said::Broken(_));
        said.push(message);
        if over {
            return Ok(said);
        }
    }
}

fn library(mut data: &[u8]) -> Result<Vec<Said>, String> {
    let (mut said, mut state) = (Vec::new(), PortState::new());
    while !data.is_empty() {
        let Some(message) = framed(&mut data) else {
            said.push(Said::Broken("it is not framed".into()));
            return Ok(said);
        };
        said.push(match m::WatchResponse::decode(message).map(|message| message.kind) {
            Ok(Some(Kind::Workload(workload))) => Said::Workload(Box::new(workload)),
            Ok(Some(Kind::Port(update))) => applied(&mut state, |state| state.apply(&update))?,
            Ok(None) => Said::Unknown,
            Err(error) => {
                said.push(Said::Broken(error.to_string()));
                return Ok(said);
            }
        });
    }
    said.push(Said::End);
    Ok(said)
}

/// The next message without its head; none if it is compressed, too long or not all there.
fn framed<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (head, rest) = data.split_at_checked(HEAD)?;
    let length = head.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let (message, rest) = rest.split_at_checked(length).filter(|_| length <= MAX)?;
    *data = rest;
    Some(message)
}

/// Applies an update. Refused, it must have changed nothing.
fn applied(
    state: &mut PortState,
    apply: impl FnOnce(&mut PortState) -> Result<Arc<ServerPolicy>, ApplyError>,
) -> Result<Said, String> {
    let before = state.clone();
    match apply(state) {
        Ok(policy) => Ok(Said::Policy(policy)),
        Err(error) if error.to_string().is_empty() => Err("a refusal without words".into()),
        Err(_) if (state.policy(), state.revision()) == (before.policy(), before.revision()) => {
            Ok(Said::Refused)
        }
        Err(error) => Err(format!("`{error}` changed what is in force")),
    }
}
