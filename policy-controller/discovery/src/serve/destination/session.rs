//! One stream: the client's lookups, and what was answered.

use super::lookup::Lookup;
use super::messages::{own_payload, payload};
use super::ready::ReadyList;
use crate::serve::answers::{Answers, Messages};
use crate::serve::authz::WatchGrant;
use crate::serve::caller::Caller;
use crate::serve::codec::Payload;
use crate::serve::core::destination_client;
use crate::serve::metrics::Call;
use crate::serve::refusal::refusal;
use crate::serve::slot;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::WorkloadKey;
use policy_engine::{ClientPlace, Destinations, Latest, LookupError, PublishedWorkload};
use policy_proto::messages::destination_request::Kind;
use policy_proto::messages::destination_response::Kind as Answer;
use policy_proto::messages::{Begin, DestinationRequest, Refused, Released};
use policy_proto::native::destination::decode_lookup;
use policy_proto::workload::parse_workload;
use policy_server::{AllowancePermit, Peer};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// Timeout of the first message.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The sending half of the response stream.
type AnswerSender = slot::Sender<Result<Payload, Status>>;

/// A stream.
pub(super) struct DestinationSession {
    answers: Answers,
    destinations: Destinations,
    workload: WorkloadKey,
    place: ClientPlace,
    state: Latest<Arc<PublishedWorkload>>,
    grant: WatchGrant,
    peer: Peer,
    /// Boxed, because a map has room for more than it holds.
    lookups: HashMap<u32, Box<Lookup>>,
    ready: ReadyList,
    due: VecDeque<Due>,
    /// The answer that is being sent: its lookup, its messages, and how many of them were sent.
    begun: Option<(u32, Messages, usize)>,
}

/// A message to be sent.
enum Due {
    /// The answer of a lookup, as it will be then.
    Answer(u32),
    /// The lookup is refused.
    Refused(u32, String),
    /// The lookup has ended.
    Released(u32),
}

impl DestinationSession {
    /// Serves a client until it disconnects, the workload is deleted, or `ending` is cancelled.
    ///
    /// # Errors
    /// The status that ends the stream.
    pub(super) async fn run(
        handles: (Answers, Destinations),
        mut inbound: Streaming<DestinationRequest>,
        out: &AnswerSender,
        call: &Call,
        (ending, peer, caller): (CancellationToken, Peer, Caller),
    ) -> Result<(), Status> {
        let begin = tokio::select! {
            begin = read_begin(&mut inbound) => begin?,
            () = ending.cancelled() => return Ok(()),
        };
        call.received();
        // What is done once or seldom is boxed, so that a stream that waits does not hold room for it.
        let mut session = Box::pin(Self::open(handles, begin, (peer, &caller))).await?;
        drop(caller);
        let mut open = true;
        loop {
            let (due, room) = (session.is_due(), session.has_room());
            tokio::select! {
                // Shutdown goes first, so that nothing is sent after it began.
                biased;
                () = ending.cancelled() => return Ok(()),
                () = out.closed() => return Ok(()),
                status = session.grant.revoked() => return Err(status),
                there = session.state.changed() => {
                    session.grant.check(&session.state.current())?;
                    if !there {
                        return Ok(());
                    }
                    Box::pin(session.follow_place()).await?;
                }
                id = poll_fn(|cx| session.ready.poll_next(cx)) => {
                    Box::pin(session.changed(id)).await?;
                }
                request = inbound.message(), if open && room => match request? {
                    None => open = false,
                    Some(request) => {
                        call.received();
                        Box::pin(session.request(request)).await?;
                    }
                },
                listened = out.ready(), if due => {
                    let true = listened else { return Ok(()) };
                    if let Some(payload) = session.next_message() {
                        call.sent();
                        out.send(Ok(payload));
                    }
                }
            }
        }
    }

    async fn open(
        (answers, destinations): (Answers, Destinations),
        begin: Begin,
        (peer, caller): (Peer, &Caller),
    ) -> Result<Self, Status> {
        let key = parse_workload(&begin.workload).map_err(|error| {
            Status::invalid_argument(format!("begin.workload: {error}"))
                .because(StatusReason::InvalidRequest)
        })?;
        let core = &answers.core;
        let (state, grant) = core.access.open(&core.policies, caller, &key).await?;
        if !grant.is_own() {
            return Err(core.access.not_a_workload(caller));
        }
        // The same, in the texts that all who follow the workload share.
        let workload = state.current().key.clone();
        let destinations = destinations.of(destination_client(&peer));
        let place = destinations.client(&workload).await.unwrap_or_default();
        let client: String = begin.client.chars().take(100).collect();
        tracing::debug!(%workload, ?client, "stream of destinations opened");
        Ok(Self {
            answers,
            destinations,
            workload,
            place,
            state,
            grant,
            peer,
            lookups: HashMap::new(),
            ready: ReadyList::default(),
            due: VecDeque::new(),
            begun: None,
        })
    }

    /// True if there may be something to send.
    fn is_due(&self) -> bool {
        self.begun.is_some() || !self.due.is_empty()
    }

    /// True if the client may say more. One that does not read what it asked for may not.
    fn has_room(&self) -> bool {
        self.due.len() <= self.answers.core.config.max_lookups_per_stream
    }

    async fn request(&mut self, request: DestinationRequest) -> Result<(), Status> {
        match request.kind {
            Some(Kind::Begin(_)) => Err(Status::invalid_argument("begin: sent a second time")
                .because(StatusReason::InvalidRequest)),
            Some(Kind::Lookup(lookup)) => {
                let address = decode_lookup(&lookup).map_err(|error| {
                    Status::invalid_argument(format!("lookup.{error}"))
                        .because(StatusReason::InvalidRequest)
                })?;
                self.look_up(lookup.id, address).await
            }
            Some(Kind::Release(release)) => {
                self.lookups.remove(&release.id);
                self.begun.take_if(|(id, ..)| *id == release.id);
                self.due.push_back(Due::Released(release.id));
                Ok(())
            }
            None => Err(Status::invalid_argument("kind: not set, or not known to this version")
                .because(StatusReason::InvalidRequest)),
        }
    }

    async fn look_up(&mut self, id: u32, address: SocketAddr) -> Result<(), Status> {
        if self.lookups.contains_key(&id) {
            return Err(Status::invalid_argument(format!("lookup.id: `{id}` is in use"))
                .because(StatusReason::InvalidRequest));
        }
        let core = &self.answers.core;
        let held = match self.room_for_lookup() {
            Ok(held) => held,
            Err(reason) => {
                self.due.push_back(Due::Refused(id, reason));
                return Ok(());
            }
        };
        let own = (self.ready.waker(id), (core.metrics.lookup(), held));
        let mut lookup = match Lookup::open(&self.destinations, &self.place, address, own).await {
            Ok(lookup) => lookup,
            Err(error @ LookupError::TooManyDestinations) => {
                core.metrics.refused_lookup("destinations");
                self.due.push_back(Due::Refused(id, error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(self.failed(error)),
        };
        lookup.is_due = true;
        self.lookups.insert(id, Box::new(lookup));
        self.due.push_back(Due::Answer(id));
        Ok(())
    }

    /// Room for one more lookup. An error is the reason why there is none.
    fn room_for_lookup(&self) -> Result<AllowancePermit, String> {
        let core = &self.answers.core;
        let bound = core.config.max_lookups_per_stream;
        if self.lookups.len() >= bound {
            core.metrics.refused_lookup("lookups_per_stream");
            return Err(format!("{bound} lookups on this stream, the most allowed"));
        }
        core.lookups.take(&self.peer).ok_or_else(|| {
            core.metrics.refused_lookup("lookups_per_peer");
            format!("{} lookups of this client, the most allowed", core.lookups.limit())
        })
    }

    /// Looks at a lookup whose answer may have changed.
    async fn changed(&mut self, id: u32) -> Result<(), Status> {
        let Some(lookup) = self.lookups.get_mut(&id) else { return Ok(()) };
        let settled = lookup.settle(&self.destinations, &self.place).await;
        if let Err(error @ LookupError::TooManyDestinations) = settled {
            self.answers.core.metrics.refused_lookup("destinations");
            self.lookups.remove(&id);
            self.begun.take_if(|(begun, ..)| *begun == id);
            self.due.push_back(Due::Refused(id, error.to_string()));
            return Ok(());
        }
        if !std::mem::replace(&mut lookup.is_due, true) {
            self.due.push_back(Due::Answer(id));
        }
        settled.map_err(|error| self.failed(error))
    }

    /// Looks up again what depends on the client's place, if that changed.
    async fn follow_place(&mut self) -> Result<(), Status> {
        let place = self.destinations.client(&self.workload).await.unwrap_or_default();
        if place != self.place {
            self.place = place;
            let ids: Vec<_> = self.lookups.keys().copied().collect();
            for id in ids {
                self.changed(id).await?;
            }
        }
        Ok(())
    }

    fn failed(&self, error: LookupError) -> Status {
        refusal(&self.workload, NonZeroU16::MIN, error)
    }

    /// The next message; `None`: the client has what was to be sent.
    fn next_message(&mut self) -> Option<Payload> {
        if let Some((id, messages, sent)) = self.begun.take() {
            return self.portion(id, messages, sent);
        }
        match self.due.pop_front()? {
            Due::Answer(id) => self.answer(id),
            Due::Refused(id, reason) => Some(own_payload(id, Answer::Refused(Refused { reason }))),
            Due::Released(id) => Some(own_payload(id, Answer::Released(Released {}))),
        }
    }

    fn answer(&mut self, id: u32) -> Option<Payload> {
        // Released meanwhile, or of a lookup before it with the same number.
        let lookup = self.lookups.get_mut(&id).filter(|lookup| lookup.is_due)?;
        lookup.is_due = false;
        let now = lookup.current();
        if now.is_pending {
            // That nobody has the address may not hold any more: the client asks anew, and waits. An
            // identity that was stated stays, because nothing is sent there in plaintext.
            lookup.sent.as_ref().filter(|sent| sent.says(&now))?;
            self.lookups.remove(&id);
            let reason = PENDING.to_owned();
            return Some(own_payload(id, Answer::Refused(Refused { reason })));
        }
        let messages = match &lookup.sent {
            Some(sent) if sent.says(&now) => return None,
            Some(sent) => {
                let (sent, answer) = (Arc::clone(sent), self.answers.answer(&now));
                let messages = answer.change_from(&sent);
                lookup.sent = Some(answer);
                messages
            }
            None => lookup.sent.insert(self.answers.answer(&now)).whole(),
        };
        self.portion(id, messages, 0)
    }

    /// The message after those of an answer that were sent.
    fn portion(&mut self, id: u32, messages: Messages, sent: usize) -> Option<Payload> {
        let message = messages.get(sent)?.clone();
        let sent = sent.saturating_add(1);
        if sent < messages.len() {
            self.begun = Some((id, messages, sent));
        }
        Some(payload(id, message))
    }
}

/// The Begin that every stream begins with.
async fn read_begin(inbound: &mut Streaming<DestinationRequest>) -> Result<Begin, Status> {
    let first = tokio::time::timeout(BEGIN_TIMEOUT, inbound.message()).await;
    match first.map_err(|_| {
        Status::deadline_exceeded("no begin within 10 s").because(StatusReason::FirstMessageLate)
    })?? {
        Some(DestinationRequest { kind: Some(Kind::Begin(begin)) }) => Ok(begin),
        Some(_) => Err(Status::invalid_argument("the first message must be begin")
            .because(StatusReason::InvalidRequest)),
        None => Err(Status::invalid_argument("the stream ended without begin")
            .because(StatusReason::InvalidRequest)),
    }
}

/// The reason for taking an answer back.
const PENDING: &str = "a pod has the address that is not known yet";
