//! One native watch: the client's request, the updates sent, the policies in force.

mod fields;
pub(crate) mod hold;
mod inbound;
mod outbound;
mod port;
pub(crate) mod reported;

use crate::serve::authz::WatchGrant;
use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::codec::Payload;
use crate::serve::core::Core;
use crate::serve::denied::RefusalGuard;
use crate::serve::encodings::{Encodings, Features};
use crate::serve::metrics::Call;
use crate::serve::refusal::refusal;
use crate::serve::slot;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use hold::{Hold, HoldTimeout, ListRequests};
use policy_core::{Revision, WorkloadKey};
use policy_engine::latest::Latest;
use policy_engine::publish::{LookupError, PublishedWorkload};
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{Hello, WatchRequest};
use policy_proto::native::decode_features;
use policy_proto::workload::parse_workload;
use policy_server::Peer;
use port::Port;
use reported::Reported;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::{Status, Streaming};

/// Timeout of the first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The sending half of the response stream.
type MessageSender = slot::Sender<Result<Payload, Status>>;

/// A native watch.
pub(crate) struct Session {
    service: Encodings,
    number: u64,
    key: WorkloadKey,
    features: Features,
    state: Latest<Arc<PublishedWorkload>>,
    /// The workload by which ports were opened and closed last, which is the one that is sent. A
    /// later one may be known already; were it sent, the client could drop a port that stays open
    /// here, and would never be sent it again.
    workload: Arc<PublishedWorkload>,
    grant: WatchGrant,
    /// True if the workload has to be sent.
    workload_due: bool,
    /// The wait for the revision of the workload that the client has. Nothing is sent before: the
    /// workload is the first message, and policies are read by its facts.
    workload_hold: Option<Hold>,
    /// Bound of that wait, which silences every port, revocations included.
    hold_timeout: Option<HoldTimeout>,
    /// Requests for lists, by holds.
    lists: ListRequests,
    /// Boxed, because a map has room for eleven where most watches have a few.
    ports: BTreeMap<NonZeroU16, Box<Port>>,
    /// Ports to be answered with a denial because they cannot be watched.
    refused: BTreeMap<NonZeroU16, LookupError>,
    /// The refusals that the client reported; absent: none.
    denied: Option<Box<RefusalGuard>>,
    /// Revisions that the client reported to have in force, for ports that were not opened yet.
    applied: Reported,
}

impl Session {
    /// Serves a client until it disconnects, the workload is deleted, or `ending` is cancelled.
    ///
    /// # Errors
    /// The status that ends the stream.
    pub(crate) async fn run(
        service: Encodings,
        mut inbound: Streaming<WatchRequest>,
        out: &MessageSender,
        call: &Call,
        (ConnectionInfo { peer, ending, .. }, caller): (ConnectionInfo, Caller),
    ) -> Result<(), Status> {
        let hello = tokio::select! {
            hello = read_hello(&mut inbound) => hello?,
            () = ending.cancelled() => return Ok(()),
        };
        call.received();
        // What is done once or seldom is boxed, so that a watch that waits does not hold room for it.
        let mut session = Box::pin(Self::begin(service, hello, (peer, &caller))).await?;
        let mut open = true;
        let mut seen = session.service.core.policies.seen();
        loop {
            let due = session.is_due();
            tokio::select! {
                // Shutdown goes first, so that nothing is sent after it began.
                biased;
                () = ending.cancelled() => return Ok(()),
                () = out.closed() => return Ok(()),
                status = session.grant.revoked() => return Err(status),
                status = session.applied.revoked() => return Err(status),
                () = RefusalGuard::revoked(&session.denied) => session.give_up_refusals(),
                status = poll_fn(|cx| HoldTimeout::poll_end(&mut session.hold_timeout, cx)) => {
                    return Err(status);
                }
                there = session.state.changed() => {
                    session.grant.check(&session.state.current())?;
                    if !there {
                        return Ok(());
                    }
                    session.workload_due = true;
                    Box::pin(session.sync_declared_ports()).await?;
                }
                (port, there) = poll_fn(|cx| next_change(&mut session.ports, cx)) => {
                    if !there {
                        return Ok(());
                    }
                    session.port_changed(port);
                }
                changed = seen.changed(), if session.holds() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    session.release_holds();
                }
                // After what changes, so that ports that were given up do not pile up while a client
                // goes on asking.
                request = inbound.message(), if open => match request? {
                    None => open = false,
                    Some(request) => {
                        call.received();
                        Box::pin(session.request(request)).await?;
                    }
                },
                listened = out.ready(), if due => {
                    let true = listened else { return Ok(()) };
                    let message = session.next_message();
                    // Checked after the policy was read: a workload's state is published before its
                    // policies, so that a policy is never sent to a client that it is no longer
                    // for.
                    session.grant.check(&session.state.current())?;
                    if let Some(payload) = message {
                        call.sent();
                        out.send(Ok(payload));
                    }
                }
            }
        }
    }

    /// Gives up the refusals of the workload, whose room another client has by now.
    fn give_up_refusals(&mut self) {
        self.denied.iter_mut().for_each(|guard| guard.give_up());
    }

    /// A session that knows the ports that its workload declares.
    async fn begin(
        service: Encodings,
        hello: Hello,
        client: (Peer, &Caller),
    ) -> Result<Self, Status> {
        let mut session = Self::open(service, hello, client).await?;
        session.sync_declared_ports().await?;
        Ok(session)
    }

    async fn open(
        service: Encodings,
        hello: Hello,
        (peer, caller): (Peer, &Caller),
    ) -> Result<Self, Status> {
        let key = parse_workload(&hello.workload).map_err(|error| {
            Status::invalid_argument(format!("hello.workload: {error}"))
                .because(StatusReason::InvalidRequest)
        })?;
        // Names of features this version does not know mean nothing to it.
        let features = decode_features(&hello.features);
        let mut applied = Reported::read(&hello.applied)?;
        let has = hello.workload_revision.as_ref();
        let has =
            has.map(|has| fields::revision("hello.workload_revision", Some(has))).transpose()?;
        let core = &service.core;
        let (state, grant) = core.access.open(&core.policies, caller, &key).await?;
        applied.keep(&state.current().declared, (&core.reported, &peer), &core.config)?;
        let client = fields::shortened(&hello.client);
        tracing::debug!(workload = %key, ?client, features = hello.features.len(), "watch opened");
        let number = service.core.sessions.fetch_add(1, Ordering::Relaxed);
        // The same, in the texts that all who follow the workload share.
        let workload = state.current();
        let key = workload.key.clone();
        let mut lists = ListRequests::new(peer);
        let workload_hold = has.as_ref().and_then(|has| hold_for(core, &mut lists, has));
        let hold_timeout =
            workload_hold.as_ref().map(|_| HoldTimeout::new(core.config.max_workload_hold));
        Ok(Self {
            hold_timeout,
            service,
            number,
            key,
            features: Arc::new(features),
            state,
            workload,
            grant,
            workload_due: true,
            workload_hold,
            lists,
            ports: BTreeMap::new(),
            refused: BTreeMap::new(),
            denied: None,
            applied,
        })
    }

    /// Brings the watched ports in line with the declared ports. Declared ports are never
    /// refused for their number: no client chose it.
    async fn sync_declared_ports(&mut self) -> Result<(), Status> {
        self.workload = self.state.read();
        let declared = self.workload.declared.clone();
        let gone: Vec<_> = self
            .ports
            .iter()
            .filter(|(number, port)| !port.subscribed && !declared.contains(number))
            .map(|(number, _)| *number)
            .collect();
        for port in gone {
            self.close_port(port);
        }
        for port in declared {
            if !self.ports.contains_key(&port) {
                let opened = self.open_port(port, false).await;
                opened.map_err(|error| refusal(&self.key, port, error))?;
            }
        }
        Ok(())
    }

    async fn open_port(&mut self, port: NonZeroU16, subscribed: bool) -> Result<(), LookupError> {
        let policy = self.service.core.policies.port(&self.key, port).await?;
        let applied = self.applied.take(port);
        let hold = match &applied {
            Some(applied) => hold_for(&self.service.core, &mut self.lists, applied),
            None => None,
        };
        self.refused.remove(&port);
        let watched = Box::new(Port::new(policy, subscribed, hold, applied));
        self.ports.insert(port, watched);
        Ok(())
    }

    fn holds(&self) -> bool {
        self.workload_hold.is_some() || self.ports.values().any(|port| port.hold.is_some())
    }

    /// Ends the holds that this replica has caught up with.
    fn release_holds(&mut self) {
        let core = &self.service.core;
        let seen = core.policies.seen();
        let seen = seen.borrow();
        let mut again = self.lists.is_pending();
        let ports = self.ports.values_mut().map(|port| &mut port.hold);
        for hold in ports.chain([&mut self.workload_hold]) {
            if hold.as_ref().is_some_and(|hold| hold.has_ended(&seen)) {
                *hold = None;
            } else if let Some(hold) = hold {
                again |= hold.asks_again(&seen);
            }
        }
        self.hold_timeout.take_if(|_| self.workload_hold.is_none());
        if again && self.holds() {
            self.lists.request(&self.service.core, &seen);
        }
    }

    fn close_port(&mut self, port: NonZeroU16) {
        if self.ports.remove(&port).is_some_and(|port| port.answered) {
            self.service.core.applied.forget(&self.key, port, self.number);
        }
    }

    /// Marks a port whose policy changed.
    fn port_changed(&mut self, number: NonZeroU16) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.due = true;
        if port.answered {
            self.record(number);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let ports: BTreeSet<_> = self.ports.keys().copied().collect();
        for port in ports {
            self.close_port(port);
        }
    }
}

/// Returns the wait for a revision that a client has applied, if this replica lags behind it.
fn hold_for(core: &Core, lists: &mut ListRequests, applied: &Revision) -> Option<Hold> {
    let seen = core.policies.seen();
    let seen = seen.borrow();
    if !seen.is_behind(applied) {
        return None;
    }
    // If events do not arrive any more, only a list shows what was missed.
    lists.request(core, &seen);
    Some(Hold::new(applied, &seen, Some(core.metrics.hold())))
}

/// The Hello that every watch begins with.
async fn read_hello(inbound: &mut Streaming<WatchRequest>) -> Result<Hello, Status> {
    let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.message()).await;
    match first.map_err(|_| {
        Status::deadline_exceeded("no hello within 10 s").because(StatusReason::FirstMessageLate)
    })?? {
        Some(WatchRequest { kind: Some(Kind::Hello(hello)) }) => Ok(hello),
        Some(_) => Err(Status::invalid_argument("the first message must be hello")
            .because(StatusReason::InvalidRequest)),
        None => Err(Status::invalid_argument("the stream ended without hello")
            .because(StatusReason::InvalidRequest)),
    }
}

/// The next port whose policy changed, and true if the workload still exists. Returns the first of
/// several; the next call finds the others.
fn next_change(
    ports: &mut BTreeMap<NonZeroU16, Box<Port>>,
    cx: &Context<'_>,
) -> Poll<(NonZeroU16, bool)> {
    for (number, port) in ports {
        if let Poll::Ready(there) = port.policy.poll_changed(cx) {
            return Poll::Ready((*number, there));
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests;
