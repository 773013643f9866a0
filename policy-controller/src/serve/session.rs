//! One native watch: what the client asked for, what it was sent, what it has in force.

use crate::publish::{LookupError, PortPolicy, UndeclaredPorts, WorkloadKey, WorkloadState};
use crate::serve::applied::{AppliedPort, Refused};
use crate::serve::codec::Payload;
use crate::serve::metrics::{Call, OpenGauge};
use crate::serve::native::{Encoding, Features, Native, update};
use crate::serve::{Core, refusal, token};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use policy_core::{Denied, Revision, ServerPolicy};
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{Ack, Hello, Nack, Undeclared, WatchRequest, WatchResponse, Workload};
use policy_proto::messages::{Revision as WireRevision, watch_response};
use policy_proto::native::{decode_features, decode_revision, encode_facts};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// How long the first message may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Updates of one port whose acknowledgement is still waited for, at most. A client that falls
/// further behind is only asked about the newest.
const MAX_IN_FLIGHT: usize = 8;

/// Most characters of a client's own words that are kept or logged.
const MAX_WORDS: usize = 300;

/// Where messages go. One place: it is free when the last message has been taken.
type Sender = mpsc::Sender<Result<Payload, Status>>;

/// Waits for the next policy of a port; gives back the receiver, or nothing if the workload went.
type Change = BoxFuture<'static, (NonZeroU16, u64, Option<watch::Receiver<Arc<PortPolicy>>>)>;

/// One watch.
pub(crate) struct Session {
    service: Native,
    number: u64,
    key: WorkloadKey,
    features: Features,
    state: watch::Receiver<Arc<WorkloadState>>,
    /// Whether the workload as it is has to be sent.
    workload_due: bool,
    ports: BTreeMap<NonZeroU16, Port>,
    changes: FuturesUnordered<Change>,
    /// Ports to be answered with a denial because they cannot be watched.
    refused: BTreeMap<NonZeroU16, LookupError>,
    /// What the client said it has in force, for ports that were not opened yet.
    applied: BTreeMap<NonZeroU16, Revision>,
    opened: u64,
}

/// One watched port.
struct Port {
    /// Tells this watch of the port from an earlier one.
    opened: u64,
    /// When it was asked for.
    since: Instant,
    policy: watch::Receiver<Arc<PortPolicy>>,
    subscribed: bool,
    due: bool,
    /// What the client applied before and this replica must have seen before it sends anything.
    hold: Option<Hold>,
    /// Content that the client has by its own account, before anything was sent.
    claims: Option<u64>,
    sent: Option<Sent>,
    in_flight: VecDeque<Sent>,
    in_force: Option<(Arc<ServerPolicy>, Revision)>,
    refused: Option<Refused>,
    /// Whether the client ever answered.
    answered: bool,
}

struct Hold {
    until: Revision,
    lists: u64,
    _gauge: OpenGauge,
}

#[derive(Clone)]
struct Sent {
    policy: Arc<ServerPolicy>,
    encoding: Arc<Encoding>,
    revision: Revision,
    /// When the client could first have got it.
    since: Instant,
}

/// What ended a wait.
enum Event {
    Room,
    Request(Option<WatchRequest>),
    PortChanged(NonZeroU16, u64, Option<watch::Receiver<Arc<PortPolicy>>>),
    WorkloadChanged(bool),
    Seen(bool),
    End,
}

impl Session {
    /// Serves a client until it goes away, the workload does, or `ending` is cancelled.
    ///
    /// # Errors
    /// The status that ends the stream.
    pub(crate) async fn run(
        service: Native,
        mut inbound: Streaming<WatchRequest>,
        out: &Sender,
        call: &Call,
        ending: CancellationToken,
    ) -> Result<(), Status> {
        let hello = tokio::select! {
            hello = first(&mut inbound) => hello?,
            () = ending.cancelled() => return Ok(()),
        };
        call.received();
        let mut session = Self::open(service, hello).await?;
        session.follow_declared().await?;
        let mut open = true;
        let mut seen = session.service.core.policies.seen();
        loop {
            let due = session.is_due();
            let event = tokio::select! {
                // The end goes before all else, so that nothing is sent after it was asked for.
                biased;
                () = ending.cancelled() => Event::End,
                () = out.closed() => Event::End,
                request = inbound.message(), if open => Event::Request(request?),
                changed = session.state.changed() => Event::WorkloadChanged(changed.is_ok()),
                Some((port, opened, policy)) = session.changes.next() => {
                    Event::PortChanged(port, opened, policy)
                }
                changed = seen.changed(), if session.holds() => Event::Seen(changed.is_ok()),
                permit = out.reserve(), if due => {
                    let Ok(permit) = permit else { return Ok(()) };
                    if let Some(payload) = session.next_message() {
                        call.sent();
                        permit.send(Ok(payload));
                    }
                    Event::Room
                }
            };
            match event {
                Event::Room => {}
                Event::End | Event::WorkloadChanged(false) | Event::PortChanged(_, _, None) => {
                    return Ok(());
                }
                Event::Seen(false) => return Ok(()),
                Event::Seen(true) => session.end_holds(),
                Event::WorkloadChanged(true) => {
                    session.workload_due = true;
                    session.follow_declared().await?;
                }
                Event::PortChanged(port, opened, Some(policy)) => {
                    session.port_changed(port, opened, policy);
                }
                Event::Request(None) => open = false,
                Event::Request(Some(request)) => {
                    call.received();
                    session.request(request).await?;
                }
            }
        }
    }

    async fn open(service: Native, hello: Hello) -> Result<Self, Status> {
        let key = token::parse(&hello.workload)
            .map_err(|error| Status::invalid_argument(format!("hello.workload: {error}")))?;
        // Names of features this version does not know mean nothing to it.
        let features = decode_features(&hello.features);
        let mut applied = BTreeMap::new();
        for (index, entry) in hello.applied.iter().enumerate() {
            let field = format!("hello.applied[{index}]");
            let port = port_number(&format!("{field}.port"), entry.port)?;
            applied.insert(port, revision(&format!("{field}.revision"), entry.revision.as_ref())?);
        }
        let limit = service.core.config.max_ports_per_stream;
        if applied.len() > limit {
            return Err(Status::invalid_argument(format!("hello.applied: more than {limit} ports")));
        }
        let state = service.core.policies.workload(&key).await;
        let state = state.map_err(|error| refusal(&key, NonZeroU16::MIN, error))?;
        let client = shortened(&hello.client);
        tracing::debug!(workload = %key, ?client, features = hello.features.len(), "watch opened");
        let number = service.core.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            service,
            number,
            key,
            features: Arc::new(features),
            state,
            workload_due: true,
            ports: BTreeMap::new(),
            changes: FuturesUnordered::new(),
            refused: BTreeMap::new(),
            applied,
            opened: 0,
        })
    }

    /// Brings the watched ports in line with what the workload declares. Declared ports are never
    /// refused for their number: no client chose it.
    async fn follow_declared(&mut self) -> Result<(), Status> {
        let declared = self.state.borrow_and_update().declared.clone();
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
        let mut policy = self.service.core.policies.port(&self.key, port).await?;
        let revision = policy.borrow_and_update().revision.clone();
        let applied = self.applied.remove(&port);
        let hold = applied.as_ref().and_then(|applied| self.hold(&revision, applied));
        self.opened = self.opened.wrapping_add(1);
        let opened = self.opened;
        self.changes.push(next_change(port, opened, policy.clone()));
        self.refused.remove(&port);
        self.ports.insert(
            port,
            Port {
                opened,
                since: Instant::now(),
                policy,
                subscribed,
                due: true,
                hold,
                claims: applied.map(|applied| applied.content),
                sent: None,
                in_flight: VecDeque::new(),
                in_force: None,
                refused: None,
                answered: false,
            },
        );
        Ok(())
    }

    /// Whether this replica lags behind what the client applied. A revision of another epoch
    /// cannot be compared and holds up nothing.
    fn hold(&self, own: &Revision, applied: &Revision) -> Option<Hold> {
        let seen = self.service.core.policies.seen();
        let seen = seen.borrow();
        if own.epoch != applied.epoch || seen.revision.has_caught_up_with(applied) {
            return None;
        }
        let gauge = self.service.core.metrics.hold();
        Some(Hold { until: applied.clone(), lists: seen.lists, _gauge: gauge })
    }

    fn holds(&self) -> bool {
        self.ports.values().any(|port| port.hold.is_some())
    }

    /// Lets go what this replica has caught up with. A consistent list begun after the client asked
    /// shows everything the client can have seen.
    fn end_holds(&mut self) {
        let seen = self.service.core.policies.seen();
        let seen = seen.borrow();
        for port in self.ports.values_mut() {
            let caught_up = port.hold.as_ref().is_some_and(|hold| {
                seen.lists > hold.lists || seen.revision.has_caught_up_with(&hold.until)
            });
            if caught_up {
                port.hold = None;
            }
        }
    }

    fn close_port(&mut self, port: NonZeroU16) {
        if self.ports.remove(&port).is_some_and(|port| port.answered) {
            self.service.core.applied.forget(&self.key, port, self.number);
        }
    }

    fn port_changed(
        &mut self,
        number: NonZeroU16,
        opened: u64,
        policy: watch::Receiver<Arc<PortPolicy>>,
    ) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if port.opened != opened {
            return;
        }
        port.due = true;
        self.changes.push(next_change(number, opened, policy));
        if port.answered {
            self.record(number);
        }
    }
}

impl Session {
    /// Whether something is to be sent.
    fn is_due(&self) -> bool {
        self.workload_due
            || !self.refused.is_empty()
            || self.ports.values().any(|port| port.due && port.hold.is_none())
    }

    /// The next message: the workload first, then ports in order. `None`: what was due turned out
    /// to be what the client has.
    fn next_message(&mut self) -> Option<Payload> {
        if std::mem::take(&mut self.workload_due) {
            return Some(self.workload());
        }
        if let Some((port, error)) = self.refused.pop_first() {
            return Some(self.refusal(port, error));
        }
        let due = self.ports.iter_mut().find(|(_, port)| port.due && port.hold.is_none());
        let (number, port) = due?;
        let number = *number;
        port.due = false;
        let published = port.policy.borrow_and_update().clone();
        let encoding = self.service.encoding(&published.policy, &self.features);
        let mut revision = published.revision.clone();
        revision.content = encoding.content();
        let shared = match &port.sent {
            Some(sent) if sent.revision == revision => return None,
            Some(sent) => encoding.change_from(&sent.encoding),
            None if port.claims == Some(revision.content) => encoding.unchanged(),
            None => encoding.full(),
        };
        port.claims = None;
        let payload = update(number, &revision, shared);
        // A client that connects later is not late: its time counts from the first it could get.
        let since = published.published.max(port.since);
        let sent = Sent { policy: published.policy.clone(), encoding, revision, since };
        if port.in_flight.len() >= MAX_IN_FLIGHT {
            port.in_flight.pop_front();
        }
        port.in_flight.push_back(sent.clone());
        port.sent = Some(sent);
        Some(payload)
    }

    fn workload(&self) -> Payload {
        let state = self.state.borrow();
        let workload = Workload {
            name: self.key.to_string(),
            facts: Some(encode_facts(&state.facts)),
            declared_ports: state.declared.iter().map(|port| port.get().into()).collect(),
            undeclared: match state.undeclared {
                UndeclaredPorts::Default => Undeclared::Default.into(),
                UndeclaredPorts::Deny => Undeclared::Deny.into(),
            },
        };
        let kind = Some(watch_response::Kind::Workload(workload));
        Payload::shared(WatchResponse { kind }.encode_to_vec().into())
    }

    /// A port that cannot be watched is denied, so that the client need not guess; its other ports
    /// are not affected.
    fn refusal(&self, port: NonZeroU16, error: LookupError) -> Payload {
        tracing::warn!(workload = %self.key, port, %error, "subscription refused");
        let owner = policy_core::Owner::Default(policy_core::DefaultPolicy::Deny);
        let denial = Arc::new(Core::denied(owner, Denied::PolicyPending));
        let encoding = self.service.encoding(&denial, &self.features);
        let epoch = self.service.core.policies.seen().borrow().revision.epoch.clone();
        let revision = Revision { epoch, content: encoding.content(), versions: BTreeMap::new() };
        update(port, &revision, encoding.full())
    }

    async fn request(&mut self, request: WatchRequest) -> Result<(), Status> {
        match request.kind {
            Some(Kind::Hello(_)) => Err(Status::invalid_argument("hello: sent a second time")),
            Some(Kind::Subscribe(subscribe)) => self.subscribe(&subscribe.ports).await,
            Some(Kind::Unsubscribe(unsubscribe)) => self.unsubscribe(&unsubscribe.ports),
            Some(Kind::Ack(ack)) => self.ack(&ack),
            Some(Kind::Nack(nack)) => self.nack(&nack),
            Some(Kind::Resync(resync)) => {
                let number = port_number("resync.port", resync.port)?;
                if let Some(port) = self.ports.get_mut(&number) {
                    self.service.core.metrics.nacked("resync");
                    port.sent = None;
                    port.due = true;
                }
                Ok(())
            }
            None => Err(Status::invalid_argument("kind: not set, or not known to this version")),
        }
    }

    async fn subscribe(&mut self, ports: &[u32]) -> Result<(), Status> {
        for (index, port) in ports.iter().enumerate() {
            let number = port_number(&format!("subscribe.ports[{index}]"), *port)?;
            if let Some(port) = self.ports.get_mut(&number) {
                port.subscribed = true;
                continue;
            }
            let refused = if self.ports.len() >= self.service.core.config.max_ports_per_stream {
                self.service.core.metrics.refused_ports();
                Err(LookupError::TooManyPorts)
            } else {
                self.open_port(number, true).await
            };
            match refused {
                Ok(()) => {}
                Err(error @ LookupError::TooManyPorts) => {
                    self.refused.insert(number, error);
                }
                // The workload went away meanwhile, or the controller is ending.
                Err(error) => return Err(refusal(&self.key, number, error)),
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, ports: &[u32]) -> Result<(), Status> {
        for (index, port) in ports.iter().enumerate() {
            let number = port_number(&format!("unsubscribe.ports[{index}]"), *port)?;
            self.refused.remove(&number);
            let declared = self.state.borrow().declared.contains(&number);
            match self.ports.get_mut(&number) {
                Some(port) if declared => port.subscribed = false,
                Some(_) => self.close_port(number),
                None => {}
            }
        }
        Ok(())
    }

    fn ack(&mut self, ack: &Ack) -> Result<(), Status> {
        let number = port_number("ack.port", ack.port)?;
        let revision = revision("ack.revision", ack.revision.as_ref())?;
        // Of a port given up meanwhile, or of an update long superseded.
        let Some(port) = self.ports.get_mut(&number) else { return Ok(()) };
        let Some(at) = port.in_flight.iter().position(|sent| sent.revision == revision) else {
            return Ok(());
        };
        // Updates before it are superseded by it.
        let Some(sent) = port.in_flight.drain(..=at).next_back() else { return Ok(()) };
        self.service.core.metrics.acked(sent.since.elapsed());
        port.in_force = Some((sent.policy, sent.revision));
        port.refused = None;
        self.record(number);
        Ok(())
    }

    fn nack(&mut self, nack: &Nack) -> Result<(), Status> {
        let number = port_number("nack.port", nack.port)?;
        let revision = revision("nack.revision", nack.revision.as_ref())?;
        let Some(port) = self.ports.get_mut(&number) else { return Ok(()) };
        let Some(at) = port.in_flight.iter().position(|sent| sent.revision == revision) else {
            return Ok(());
        };
        port.in_flight.drain(..=at);
        // What the client has is not what was sent: the next change goes out in full. The same is
        // not sent again, for it would be refused again.
        if let Some(sent) = port.sent.take()
            && sent.revision != revision
        {
            port.due = true;
        }
        let refused = Refused {
            reason: shortened(&nack.reason),
            field_path: shortened(&nack.field_path),
        };
        self.service.core.metrics.nacked("refused");
        let (reason, field) = (&refused.reason, &refused.field_path);
        tracing::warn!(workload = %self.key, port = number, ?reason, ?field, "client refused an update");
        port.refused = Some(refused);
        self.record(number);
        Ok(())
    }

    /// Tells status what the client has on a port.
    fn record(&mut self, number: NonZeroU16) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.answered = true;
        let record = AppliedPort {
            current: port.policy.borrow().policy.clone(),
            in_force: port.in_force.clone(),
            refused: port.refused.clone(),
        };
        self.service.core.applied.record(&self.key, number, self.number, record);
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

/// The Hello that every watch begins with.
async fn first(inbound: &mut Streaming<WatchRequest>) -> Result<Hello, Status> {
    let first = tokio::time::timeout(HELLO_TIMEOUT, inbound.message()).await;
    match first.map_err(|_| Status::deadline_exceeded("no hello within 10 s"))?? {
        Some(WatchRequest { kind: Some(Kind::Hello(hello)) }) => Ok(hello),
        Some(_) => Err(Status::invalid_argument("the first message must be hello")),
        None => Err(Status::invalid_argument("the stream ended without hello")),
    }
}

fn next_change(
    port: NonZeroU16,
    opened: u64,
    mut policy: watch::Receiver<Arc<PortPolicy>>,
) -> Change {
    Box::pin(async move {
        let there = policy.changed().await.is_ok();
        (port, opened, there.then_some(policy))
    })
}

fn port_number(field: &str, port: u32) -> Result<NonZeroU16, Status> {
    u16::try_from(port)
        .ok()
        .and_then(NonZeroU16::new)
        .ok_or_else(|| Status::invalid_argument(format!("{field}: `{port}` is not from 1 to 65535")))
}

fn revision(field: &str, revision: Option<&WireRevision>) -> Result<Revision, Status> {
    match revision {
        Some(revision) => decode_revision(revision)
            .map_err(|error| Status::invalid_argument(format!("{field}.{error}"))),
        None => Err(Status::invalid_argument(format!("{field}: must be set"))),
    }
}

fn shortened(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}
