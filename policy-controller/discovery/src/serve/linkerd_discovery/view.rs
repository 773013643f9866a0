//! The messages about an answer, by the method that the client called.

use crate::serve::answers::{Answer, Answers, Wording};
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use policy_core::{Destination, ServiceName};
use policy_engine::PublishedDestination;
use policy_proto::compat::{PathTarget, is_opaque, outbound_policy, profile, updates};
use prost::Message;
use std::num::NonZeroU16;
use std::sync::Arc;
use tonic::Status;

/// A method, and what its client has.
#[derive(Debug)]
pub(super) enum View {
    /// `Destination.Get`: the answer that the client has; absent: nothing yet.
    Endpoints(Answers, Option<Arc<Answer>>),
    /// `Destination.GetProfile`.
    Profile(LastMessage),
    /// `OutboundPolicies.Get` and `Watch`.
    Policy(LastMessage),
}

/// The messages of `Destination.Get`.
pub(super) const WORDING: Wording = Wording {
    whole: |now| encoded(None, now),
    change: |before, now| Some(encoded(Some(before), now)),
};

fn encoded(before: Option<&Destination>, now: &Destination) -> Vec<Bytes> {
    updates(before, now).iter().map(|message| message.encode_to_vec().into()).collect()
}

/// The last message about a port, which is sent whole.
#[derive(Debug)]
pub(super) struct LastMessage {
    port: NonZeroU16,
    domain: Arc<str>,
    last: Option<Bytes>,
}

impl LastMessage {
    /// Nothing yet about the port of `target`. `domain` ends the names of Services.
    pub(super) fn nothing(target: &PathTarget, domain: &Arc<str>) -> Self {
        let port = match target {
            PathTarget::Address(_, port) | PathTarget::Service(_, port) => *port,
            // Nothing that is said of it has a port.
            PathTarget::Foreign => NonZeroU16::MIN,
        };
        Self { port, domain: domain.clone(), last: None }
    }

    /// The message, unless the client has it.
    fn news(&mut self, message: &impl Message) -> Vec<Bytes> {
        let message = Bytes::from(message.encode_to_vec());
        if self.last.as_ref() == Some(&message) {
            return Vec::new();
        }
        self.last = Some(message.clone());
        vec![message]
    }
}

impl View {
    /// Lists the messages that lead to `now`, and takes them for sent.
    ///
    /// # Errors
    /// The status that the stream ends with.
    pub(super) fn messages(
        &mut self,
        now: &Arc<PublishedDestination>,
    ) -> Result<Vec<Bytes>, Status> {
        let destination = &now.destination;
        match self {
            Self::Endpoints(_, Some(had)) if had.says(now) => Ok(Vec::new()),
            Self::Endpoints(answers, had) => {
                let answer = answers.answer(now);
                let messages = match had {
                    Some(had) => answer.change_from(had),
                    None => answer.whole(),
                };
                *had = Some(answer);
                Ok(messages.to_vec())
            }
            Self::Profile(sent) => {
                let profile = profile(destination, sent.port, &sent.domain);
                Ok(sent.news(&profile))
            }
            Self::Policy(sent) => {
                let service = service(destination)?;
                let opaque = is_opaque(destination);
                Ok(sent.news(&outbound_policy(service, sent.port, opaque, &sent.domain)))
            }
        }
    }
}

/// The Service; an undeclared port has no endpoints, and connections to it fail.
fn service(destination: &Destination) -> Result<&ServiceName, Status> {
    match destination {
        Destination::Service(service) => Ok(&service.service),
        Destination::UndeclaredPort(service) => Ok(service),
        Destination::Unknown | Destination::Node | Destination::Workload(_) => {
            Err(Status::not_found("not a Service").because(StatusReason::NotAService))
        }
    }
}
