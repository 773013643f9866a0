//! The native service: one stream for all ports, acknowledged with ACK and NACK.

mod refusals;

use super::settings::DiscoverConfig;
use super::stream_end::{StreamEnd, expiry};
use policy_core::feature::Feature;
use policy_core::{Revision, UndeclaredPorts};
use policy_enforce::NodeAddresses;
use policy_enforce::store::PolicyStore;
use policy_proto::DecodeError;
use policy_proto::messages as m;
use policy_proto::messages::watch_request::Kind as Message;
use policy_proto::native::stream_decoder::{self, Response, Responses};
use policy_proto::native::{
    Applied, ApplyError, PortState, Update, decode_facts, decode_revision, encode_features,
    encode_revision,
};
use refusals::RefusalReporter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// State that outlives a stream: each port's policy and revision, so that the server can resume
/// from it.
pub(super) struct Client {
    config: Arc<DiscoverConfig>,
    store: PolicyStore,
    ports: BTreeMap<NonZeroU16, PortState>,
    /// The revision of the workload that is in force.
    workload: Option<m::Revision>,
    /// The addresses of the workload's node.
    node: NodeAddresses,
}

/// A stream.
struct Session<'a> {
    client: &'a mut Client,
    demand: watch::Receiver<u64>,
    /// Subscribed ports that are not declared, with the store's serial number of each.
    subscribed: BTreeMap<NonZeroU16, u64>,
    /// Messages that are queued for the connection.
    outbox: VecDeque<Message>,
    /// Revisions that are not acknowledged, and the generation that all workers must have reached
    /// before.
    unacknowledged: BTreeMap<NonZeroU16, (m::Revision, u64)>,
    /// Sends what the sidecar refuses.
    refusals: RefusalReporter,
}

/// Limit of queued messages: more than any number of ports needs, so that a server that does not
/// read them is disconnected.
const MAX_OUTBOX: usize = 4096;

/// Time for a NACK of the workload to reach the server.
const NACK_TIMEOUT: Duration = Duration::from_secs(1);

impl Client {
    pub(super) fn new(config: Arc<DiscoverConfig>, store: PolicyStore) -> Self {
        let node = NodeAddresses::new(config.gateways.clone());
        Self { config, store, ports: BTreeMap::new(), workload: None, node }
    }

    /// The store that policies are applied to.
    pub(super) fn store(&self) -> &PolicyStore {
        &self.store
    }

    /// Runs one stream to its end. Applied policies outlive it.
    pub(super) async fn session(&mut self, channel: Channel) -> StreamEnd {
        let streams = self.store.telemetry().discovery.streams.clone();
        self.store.telemetry().discovery.rpc_begun(&self.config.controller.to_string());
        let outcome = self.try_session(channel, &streams).await;
        let ended = outcome.err().unwrap_or(StreamEnd::Closed);
        ended.count(&self.config, &self.store);
        ended
    }

    async fn try_session(
        &mut self,
        channel: Channel,
        streams: &prometheus_client::metrics::gauge::Gauge,
    ) -> Result<(), StreamEnd> {
        let config = Arc::clone(&self.config);
        let (outbound, requests) = mpsc::channel(16);
        let hello = m::WatchRequest { kind: Some(Message::Hello(self.hello())) };
        outbound.try_send(hello).map_err(|_| StreamEnd::Closed)?;
        let requests = ReceiverStream::new(requests);
        let open = async {
            let mut inbound = stream_decoder::watch(channel, config.max_message, requests).await?;
            let first = inbound.message().await?;
            Ok::<_, StreamEnd>((inbound, first))
        };
        let (inbound, first) = match config.initial_timeout {
            Some(bound) => tokio::time::timeout(bound, open)
                .await
                .map_err(|_| StreamEnd::InitialTimeout(bound))??,
            None => open.await?,
        };
        let Some(first) = first else { return Err(StreamEnd::Closed) };
        streams.inc();
        let mut session = Session::new(self);
        let ended = session.run(first, inbound, outbound).await;
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

impl<'a> Session<'a> {
    fn new(client: &'a mut Client) -> Self {
        let refusals = RefusalReporter::new(client.config.decisions.clone(), Instant::now());
        Self {
            demand: client.store.demand(),
            client,
            refusals,
            subscribed: BTreeMap::new(),
            outbox: VecDeque::new(),
            unacknowledged: BTreeMap::new(),
        }
    }

    async fn run(
        &mut self,
        first: Response,
        mut inbound: Responses<tonic::body::Body>,
        outbound: mpsc::Sender<m::WatchRequest>,
    ) -> Result<(), StreamEnd> {
        let ended = self.exchange(first, &mut inbound, &outbound).await;
        if matches!(ended, Err(StreamEnd::Workload(_))) {
            // The server ends the stream once it has read the NACK; other servers may not.
            let flushed = self.flush_outbox(&mut inbound, &outbound);
            let _ = tokio::time::timeout(NACK_TIMEOUT, flushed).await;
        }
        ended
    }

    /// Sends the queued messages and waits until the server ends the stream.
    async fn flush_outbox(
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

    async fn exchange(
        &mut self,
        first: Response,
        inbound: &mut Responses<tonic::body::Body>,
        outbound: &mpsc::Sender<m::WatchRequest>,
    ) -> Result<(), StreamEnd> {
        let begun = Instant::now();
        let mut last_message = begun;
        self.handle(first)?;
        self.subscribe();
        loop {
            let oldest = self.unacknowledged.values().map(|(_, generation)| *generation).min();
            let workers = self.client.store.workers().clone();
            self.record_unacknowledged();
            tokio::select! {
                message = inbound.message() => {
                    last_message = Instant::now();
                    self.handle(message?.ok_or(StreamEnd::Closed)?)?;
                }
                () = async { workers.wait_reached(oldest.unwrap_or(0)).await }, if oldest.is_some() => {
                    self.acknowledge(workers.reached());
                }
                room = outbound.reserve(), if !self.outbox.is_empty() => {
                    let room = room.map_err(|_| StreamEnd::Closed)?;
                    room.send(m::WatchRequest { kind: self.outbox.pop_front() });
                }
                () = self.refusals.due() => {
                    let refusals = self.refusals.take(Instant::now());
                    self.outbox.extend(refusals.map(Message::Refusals));
                }
                changed = self.demand.changed() => {
                    changed.map_err(|_| StreamEnd::Closed)?;
                    self.subscribe();
                }
                bound = expiry(begun, last_message, &self.client.config) => return Err(StreamEnd::Expired(bound)),
            }
            if self.outbox.len() > MAX_OUTBOX {
                return Err(StreamEnd::Protocol("the server does not read messages".to_owned()));
            }
        }
    }

    fn handle(&mut self, message: Response) -> Result<(), StreamEnd> {
        match message {
            Response::Workload(workload) => {
                self.handle_workload(&workload).map_err(|error| self.nack_workload(error))
            }
            Response::Port(update) => self.handle_port(*update),
            Response::Unknown => {
                Err(StreamEnd::Protocol("kind: not set, or not known to this version".to_owned()))
            }
        }
    }

    /// Applies the workload, as a whole or not at all.
    fn handle_workload(&mut self, workload: &m::Workload) -> Result<(), DecodeError> {
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
            workload.declared_ports.iter().copied().map(port_number).collect();
        let ports = ports.ok_or_else(|| refuse("declared_ports", "not a port".to_owned()))?;
        tracing::debug!(workload = %workload.name, ports = ports.len(), "workload");
        // Log settings are no part of the facts: a change of these must not trigger reviews.
        let logs = std::mem::take(&mut facts.logs);
        if let Some(own) = &self.client.config.logs {
            own.follow(&logs);
        }
        let facts = self.client.node.settle(facts);
        self.client.store.set_facts(Arc::new(facts));
        self.client.store.declare(&ports, undeclared);
        self.client.workload.clone_from(&workload.revision);
        self.refusals.set_wanted(workload.takes_refusals);
        Ok(())
    }

    /// Rejects the workload with a NACK and ends the stream: policies that follow may depend on
    /// facts that are unknown here.
    fn nack_workload(&mut self, error: DecodeError) -> StreamEnd {
        self.client.store.telemetry().discovery.rejected.inc();
        self.outbox.push_back(Message::Nack(m::Nack {
            port: 0,
            revision: None,
            reason: error.message.clone(),
            field_path: error.path.clone(),
        }));
        StreamEnd::Workload(error)
    }

    fn handle_port(&mut self, update: Update) -> Result<(), StreamEnd> {
        let port = port_number(update.port()).ok_or_else(|| {
            StreamEnd::Protocol(format!("port.port: `{}` is not a port", update.port()))
        })?;
        if !self.client.store.ports().contains_key(&port) {
            // Unsubscribed while the update was in flight.
            self.client.ports.remove(&port);
            return Ok(());
        }
        let mut state = self.client.ports.get(&port).cloned().unwrap_or_default();
        let sent = update.revision().cloned();
        match state.apply_read(update) {
            Ok(applied) => self.apply(port, state, applied, sent),
            Err(ApplyError::Base { .. }) => {
                self.client.store.lose(port);
                self.outbox.push_back(Message::Resync(m::Resync { port: port.get().into() }));
            }
            Err(ApplyError::Decode(error)) => self.nack(port, sent, error),
        }
        Ok(())
    }

    fn apply(
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
                self.nack(port, Some(sent), error);
            }
        }
    }

    /// Rejects an update with a NACK; the last good policy stays.
    fn nack(&mut self, port: NonZeroU16, sent: Option<m::Revision>, error: DecodeError) {
        tracing::warn!(port, reason = %error, "policy update rejected, keeping the last good policy");
        self.client.store.reject(port);
        self.client.store.telemetry().discovery.rejected.inc();
        self.outbox.push_back(Message::Nack(m::Nack {
            port: port.get().into(),
            revision: sent,
            reason: error.message,
            field_path: error.path,
        }));
    }

    fn record_unacknowledged(&self) {
        let waiting = i64::try_from(self.unacknowledged.len()).unwrap_or(i64::MAX);
        self.client.store.telemetry().discovery.unacknowledged.set(waiting);
    }

    /// Acknowledges the revisions that every worker decides by.
    fn acknowledge(&mut self, reached: u64) {
        let passed =
            |(_, (_, generation)): &(&NonZeroU16, &(m::Revision, u64))| *generation <= reached;
        let ports: Vec<_> =
            self.unacknowledged.iter().filter(passed).map(|(port, _)| *port).collect();
        for port in ports {
            if let Some((revision, _)) = self.unacknowledged.remove(&port) {
                let ack = m::Ack { port: port.get().into(), revision: Some(revision) };
                self.outbox.push_back(Message::Ack(ack));
                self.client.store.telemetry().discovery.acknowledged.inc();
            }
        }
    }

    /// Subscribes to undeclared ports in use, and unsubscribes from those no longer used.
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
        // First, because a port that was released and is in use again is in both.
        if !fewer.is_empty() {
            self.outbox
                .push_back(Message::Unsubscribe(m::Unsubscribe { ports: port_numbers(&fewer) }));
        }
        if !more.is_empty() {
            self.outbox.push_back(Message::Subscribe(m::Subscribe { ports: port_numbers(&more) }));
        }
        self.subscribed = wanted;
    }
}

/// The ports of `these` that `those` lacks, or has under another serial number.
fn missing(
    these: &BTreeMap<NonZeroU16, u64>,
    those: &BTreeMap<NonZeroU16, u64>,
) -> BTreeSet<NonZeroU16> {
    let missing = these.iter().filter(|(port, serial)| those.get(port) != Some(serial));
    missing.map(|(port, _)| *port).collect()
}

fn port_numbers(ports: &BTreeSet<NonZeroU16>) -> Vec<u32> {
    ports.iter().map(|port| port.get().into()).collect()
}

fn port_number(port: u32) -> Option<NonZeroU16> {
    u16::try_from(port).ok().and_then(NonZeroU16::new)
}

#[cfg(test)]
mod tests;
