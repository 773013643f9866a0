//! The native service: one stream for all ports, answered with ACK and NACK.

use super::ended::{Ended, limit};
use super::settings::DiscoverConfig;
use policy_core::feature::Feature;
use policy_core::{Revision, UndeclaredPorts};
use policy_enforce::NodeAddresses;
use policy_enforce::store::PolicyStore;
use policy_proto::DecodeError;
use policy_proto::messages as m;
use policy_proto::messages::watch_request::Kind as Say;
use policy_proto::native::stream_decoder::{self, Response, Responses};
use policy_proto::native::{
    Applied, ApplyError, PortState, Update, decode_facts, decode_revision, encode_features,
    encode_revision,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// What is kept from stream to stream: each port's state, so that the server can go on from it, and
/// what says how new it has to be.
pub(super) struct Client {
    config: Arc<DiscoverConfig>,
    store: PolicyStore,
    ports: BTreeMap<NonZeroU16, PortState>,
    /// The revision of the workload that is in force.
    workload: Option<m::Revision>,
    /// Which addresses are the workload's node.
    node: NodeAddresses,
}

/// One stream.
struct Session<'a> {
    client: &'a mut Client,
    demand: watch::Receiver<u64>,
    /// Ports that nothing declares, with the store's number of each.
    subscribed: BTreeMap<NonZeroU16, u64>,
    /// Said, but not yet taken by the connection.
    outbox: VecDeque<Say>,
    /// What each port must still be acknowledged for, and the generation workers must have passed.
    unacknowledged: BTreeMap<NonZeroU16, (m::Revision, u64)>,
}

/// More than any number of ports needs; a server that takes nothing off is not worth talking to.
const MAX_OUTBOX: usize = 4096;

/// How long a refusal of the workload may take to reach the server.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Client {
    pub(super) fn new(config: Arc<DiscoverConfig>, store: PolicyStore) -> Self {
        let node = NodeAddresses::new(config.gateways.clone());
        Self { config, store, ports: BTreeMap::new(), workload: None, node }
    }

    /// Runs one stream to its end. Nothing that was put in force is lost by its ending.
    pub(super) async fn session(&mut self, channel: Channel) -> Ended {
        let streams = self.store.telemetry().discovery.streams.clone();
        self.store.telemetry().discovery.rpc_begun(&self.config.controller.to_string());
        let outcome = self.try_session(channel, &streams).await;
        let ended = outcome.err().unwrap_or(Ended::Closed);
        ended.count(&self.config, &self.store);
        ended
    }

    async fn try_session(
        &mut self,
        channel: Channel,
        streams: &prometheus_client::metrics::gauge::Gauge,
    ) -> Result<(), Ended> {
        let config = Arc::clone(&self.config);
        let (outbound, requests) = mpsc::channel(16);
        let hello = m::WatchRequest { kind: Some(Say::Hello(self.hello())) };
        outbound.try_send(hello).map_err(|_| Ended::Closed)?;
        let requests = ReceiverStream::new(requests);
        let open = async {
            let mut inbound = stream_decoder::watch(channel, config.max_message, requests).await?;
            let first = inbound.message().await?;
            Ok::<_, Ended>((inbound, first))
        };
        let (inbound, first) = match config.initial_timeout {
            Some(bound) => {
                tokio::time::timeout(bound, open).await.map_err(|_| Ended::Silent(bound))??
            }
            None => open.await?,
        };
        let Some(first) = first else { return Err(Ended::Closed) };
        streams.inc();
        let mut session = Session {
            demand: self.store.demand(),
            client: self,
            subscribed: BTreeMap::new(),
            outbox: VecDeque::new(),
            unacknowledged: BTreeMap::new(),
        };
        let ended = session.converse(first, inbound, outbound).await;
        self.store.telemetry().discovery.unacknowledged.set(0);
        streams.dec();
        ended
    }

    fn hello(&mut self) -> m::Hello {
        let held = self.store.ports();
        self.ports.retain(|port, _| held.contains_key(port));
        let revision = |(port, state): (&NonZeroU16, &PortState)| {
            let revision = Some(encode_revision(state.revision()?));
            Some(m::PortRevision { port: port.get().into(), revision })
        };
        m::Hello {
            workload: self.config.workload.to_string(),
            features: encode_features(&Feature::ALL.into_iter().collect()),
            applied: self.ports.iter().filter_map(revision).collect(),
            workload_revision: self.workload.clone(),
            client: concat!("policy-proxy/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl Session<'_> {
    async fn converse(
        &mut self,
        first: Response,
        mut inbound: Responses<tonic::body::Body>,
        outbound: mpsc::Sender<m::WatchRequest>,
    ) -> Result<(), Ended> {
        let ended = self.talk(first, &mut inbound, &outbound).await;
        if matches!(ended, Err(Ended::Workload(_))) {
            // Its server ends the stream once it has read why; another may not.
            let told = self.tell(&mut inbound, &outbound);
            let _ = tokio::time::timeout(LAST_WORDS, told).await;
        }
        ended
    }

    /// Says what is left to say and waits until the server ends the stream.
    async fn tell(
        &mut self,
        inbound: &mut Responses<tonic::body::Body>,
        outbound: &mpsc::Sender<m::WatchRequest>,
    ) {
        while let Some(kind) = self.outbox.pop_front() {
            if outbound.send(m::WatchRequest { kind: Some(kind) }).await.is_err() {
                return;
            }
        }
        while let Ok(Some(_)) = inbound.message().await {}
    }

    async fn talk(
        &mut self,
        first: Response,
        inbound: &mut Responses<tonic::body::Body>,
        outbound: &mpsc::Sender<m::WatchRequest>,
    ) -> Result<(), Ended> {
        let begun = Instant::now();
        let mut heard = begun;
        self.hear(first)?;
        self.subscribe();
        loop {
            let oldest = self.unacknowledged.values().map(|(_, generation)| *generation).min();
            let workers = self.client.store.workers().clone();
            self.note_unacknowledged();
            tokio::select! {
                message = inbound.message() => {
                    heard = Instant::now();
                    self.hear(message?.ok_or(Ended::Closed)?)?;
                }
                () = async { workers.passed(oldest.unwrap_or(0)).await }, if oldest.is_some() => {
                    self.acknowledge(workers.reached());
                }
                room = outbound.reserve(), if !self.outbox.is_empty() => {
                    let room = room.map_err(|_| Ended::Closed)?;
                    room.send(m::WatchRequest { kind: self.outbox.pop_front() });
                }
                changed = self.demand.changed() => {
                    changed.map_err(|_| Ended::Closed)?;
                    self.subscribe();
                }
                bound = limit(begun, heard, &self.client.config) => return Err(Ended::Renewed(bound)),
            }
            if self.outbox.len() > MAX_OUTBOX {
                return Err(Ended::Protocol("the server takes no messages".to_owned()));
            }
        }
    }

    fn hear(&mut self, message: Response) -> Result<(), Ended> {
        match message {
            Response::Workload(workload) => {
                self.workload(&workload).map_err(|error| self.refuse_workload(error))
            }
            Response::Port(update) => self.port(*update),
            Response::Unknown => {
                Err(Ended::Protocol("kind: not set, or not known to this version".to_owned()))
            }
        }
    }

    /// Puts the workload in force, whole or not at all.
    fn workload(&mut self, workload: &m::Workload) -> Result<(), DecodeError> {
        let refuse = |field: &str, message: String| DecodeError { path: field.to_owned(), message };
        let facts = workload.facts.as_ref();
        let facts = facts.ok_or_else(|| refuse("facts", "must be set".to_owned()))?;
        let mut facts = decode_facts(facts)
            .map_err(|error| refuse(&format!("facts.{}", error.path), error.message))?;
        let undeclared = match m::Undeclared::try_from(workload.undeclared) {
            Ok(m::Undeclared::Default) => UndeclaredPorts::Default,
            Ok(m::Undeclared::Deny) => UndeclaredPorts::Deny,
            Ok(m::Undeclared::Unspecified) | Err(_) => {
                let message = format!("`{}` is not known to this version", workload.undeclared);
                return Err(refuse("undeclared", message));
            }
        };
        let ports: Option<BTreeSet<_>> =
            workload.declared_ports.iter().copied().map(number).collect();
        let ports = ports.ok_or_else(|| refuse("declared_ports", "not a port".to_owned()))?;
        tracing::debug!(workload = %workload.name, ports = ports.len(), "workload");
        // Apart from what is decided by: nothing that is open is decided on again for a log's sake.
        let logs = std::mem::take(&mut facts.logs);
        if let Some(own) = &self.client.config.logs {
            own.follow(&logs);
        }
        let facts = self.client.node.settle(facts);
        self.client.store.set_facts(Arc::new(facts));
        self.client.store.declare(&ports, undeclared);
        self.client.workload.clone_from(&workload.revision);
        Ok(())
    }

    /// Nothing of the workload is applied, and nothing that follows: policies may lean on facts that
    /// are not known here. The server learns why, and the stream ends.
    fn refuse_workload(&mut self, error: DecodeError) -> Ended {
        self.client.store.telemetry().discovery.rejected.inc();
        self.outbox.push_back(Say::Nack(m::Nack {
            port: 0,
            revision: None,
            reason: error.message.clone(),
            field_path: error.path.clone(),
        }));
        Ended::Workload(error)
    }

    fn port(&mut self, update: Update) -> Result<(), Ended> {
        let port = number(update.port()).ok_or_else(|| {
            Ended::Protocol(format!("port.port: `{}` is not a port", update.port()))
        })?;
        if !self.client.store.ports().contains_key(&port) {
            // Given up while the update was under way.
            self.client.ports.remove(&port);
            return Ok(());
        }
        let mut state = self.client.ports.get(&port).cloned().unwrap_or_default();
        let sent = update.revision().cloned();
        match state.apply_read(update) {
            Ok(applied) => self.put_in_force(port, state, applied, sent),
            Err(ApplyError::Base { .. }) => {
                self.client.store.lose(port);
                self.outbox.push_back(Say::Resync(m::Resync { port: port.get().into() }));
            }
            Err(ApplyError::Decode(error)) => self.refuse(port, sent, error),
        }
        Ok(())
    }

    fn put_in_force(
        &mut self,
        port: NonZeroU16,
        state: PortState,
        applied: Applied,
        sent: Option<m::Revision>,
    ) {
        let sent = sent.unwrap_or_default();
        let revision = decode_revision(&sent).unwrap_or_else(|_| Revision::default());
        let Applied { policy, change } = applied;
        match self.client.store.apply_change(port, policy, revision, change.as_ref()) {
            Ok(generation) => {
                self.client.ports.insert(port, state);
                self.unacknowledged.insert(port, (sent, generation));
                self.client.store.telemetry().discovery.applied.inc();
            }
            Err(error) => {
                let error = DecodeError { path: String::new(), message: error.to_string() };
                self.refuse(port, Some(sent), error);
            }
        }
    }

    /// The last good policy stays, and the server learns why.
    fn refuse(&mut self, port: NonZeroU16, sent: Option<m::Revision>, error: DecodeError) {
        tracing::warn!(port, reason = %error, "policy refused, the last good one stays");
        self.client.store.reject(port);
        self.client.store.telemetry().discovery.rejected.inc();
        self.outbox.push_back(Say::Nack(m::Nack {
            port: port.get().into(),
            revision: sent,
            reason: error.message,
            field_path: error.path,
        }));
    }

    fn note_unacknowledged(&self) {
        let waiting = i64::try_from(self.unacknowledged.len()).unwrap_or(i64::MAX);
        self.client.store.telemetry().discovery.unacknowledged.set(waiting);
    }

    /// Acknowledges everything that every worker decides by.
    fn acknowledge(&mut self, reached: u64) {
        let passed =
            |(_, (_, generation)): &(&NonZeroU16, &(m::Revision, u64))| *generation <= reached;
        let ports: Vec<_> =
            self.unacknowledged.iter().filter(passed).map(|(port, _)| *port).collect();
        for port in ports {
            if let Some((revision, _)) = self.unacknowledged.remove(&port) {
                let ack = m::Ack { port: port.get().into(), revision: Some(revision) };
                self.outbox.push_back(Say::Ack(ack));
                self.client.store.telemetry().discovery.acknowledged.inc();
            }
        }
    }

    /// Asks for the ports in use that nothing declares, and gives up those no longer used.
    fn subscribe(&mut self) {
        self.demand.mark_unchanged();
        let held = self.client.store.ports();
        let mut wanted = self.client.store.wanted();
        wanted.retain(|port, _| held.get(port) == Some(&false));
        let fewer = missing(&self.subscribed, &wanted);
        let more = missing(&wanted, &self.subscribed);
        let anew = |port: &NonZeroU16| fewer.contains(port) && more.contains(port);
        let known = |port: &NonZeroU16| held.contains_key(port) && !anew(port);
        self.client.ports.retain(|port, _| known(port));
        self.unacknowledged.retain(|port, _| known(port));
        // First, because a port that was given up and is wanted again is in both.
        if !fewer.is_empty() {
            self.outbox.push_back(Say::Unsubscribe(m::Unsubscribe { ports: numbers(&fewer) }));
        }
        if !more.is_empty() {
            self.outbox.push_back(Say::Subscribe(m::Subscribe { ports: numbers(&more) }));
        }
        self.subscribed = wanted;
    }
}

/// The ports of `these` that `those` do not have under the same number.
fn missing(
    these: &BTreeMap<NonZeroU16, u64>,
    those: &BTreeMap<NonZeroU16, u64>,
) -> BTreeSet<NonZeroU16> {
    let missing = these.iter().filter(|(port, serial)| those.get(port) != Some(serial));
    missing.map(|(port, _)| *port).collect()
}

fn numbers(ports: &BTreeSet<NonZeroU16>) -> Vec<u32> {
    ports.iter().map(|port| port.get().into()).collect()
}

fn number(port: u32) -> Option<NonZeroU16> {
    u16::try_from(port).ok().and_then(NonZeroU16::new)
}
