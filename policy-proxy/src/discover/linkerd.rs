//! Linkerd's service: one stream per port, full states only, no acknowledgements.

use super::settings::DiscoverConfig;
use super::stream_end::{StreamEnd, expiry, pause};
use foldhash::fast::FixedState;
use policy_core::{Facts, Revision, UndeclaredPorts};
use policy_enforce::store::PolicyStore;
use policy_proto::compat;
use policy_proto::linkerd::inbound;
use policy_proto::linkerd::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio::task::AbortHandle;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

/// Keeps every port's policy in sync with the server until it is time to retry the native service.
/// Ends early if the connection is lost, because another server may answer next.
pub(super) async fn run(
    config: &Arc<DiscoverConfig>,
    store: &PolicyStore,
    channel: Channel,
) -> StreamEnd {
    store.set_facts(Arc::clone(&config.facts));
    store.declare(&config.declared, UndeclaredPorts::Default);
    let mut demand = store.demand();
    let mut tasks = JoinSet::new();
    // Watched ports, with the store's serial number of each.
    let mut watched: BTreeMap<NonZeroU16, (u64, AbortHandle)> = BTreeMap::new();
    let until = tokio::time::sleep(config.native_retry);
    tokio::pin!(until);
    loop {
        demand.mark_unchanged();
        let wanted = store.wanted();
        watched.retain(|port, (serial, task)| {
            let keep = wanted.get(port) == Some(serial);
            if !keep {
                task.abort();
            }
            keep
        });
        for (port, serial) in wanted {
            watched.entry(port).or_insert_with(|| {
                let (config, store) = (Arc::clone(config), store.clone());
                (serial, tasks.spawn(watch(config, store, channel.clone(), port)))
            });
        }
        tokio::select! {
            () = &mut until => return StreamEnd::Expired(config.native_retry),
            changed = demand.changed() => if changed.is_err() { return StreamEnd::Closed },
            // An aborted task is ignored; the others end with the connection.
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Ok(end) = ended {
                    return end;
                }
            }
        }
    }
}

/// Watches a port while it is in use and the connection lasts.
async fn watch(
    config: Arc<DiscoverConfig>,
    store: PolicyStore,
    channel: Channel,
    port: NonZeroU16,
) -> StreamEnd {
    let mut backoff = config.new_backoff();
    loop {
        let begun = Instant::now();
        store.telemetry().discovery.streams.inc();
        let guard = OpenStream(&store);
        store.telemetry().discovery.rpc_begun(&config.controller.to_string());
        let ended = stream(&config, &store, channel.clone(), port).await;
        drop(guard);
        let ended = ended.err().unwrap_or(StreamEnd::Closed);
        ended.count(&config, &store);
        store.lose(port);
        if ended.is_disconnect() {
            return ended;
        }
        backoff.settle(begun.elapsed());
        pause(&mut backoff, &ended, &config.controller).await;
        store.telemetry().discovery.attempts.inc();
    }
}

/// Counts a stream as open, also when its task is aborted.
struct OpenStream<'a>(&'a PolicyStore);

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.0.telemetry().discovery.streams.dec();
        self.0.telemetry().discovery.ended.inc();
    }
}

async fn stream(
    config: &DiscoverConfig,
    store: &PolicyStore,
    channel: Channel,
    port: NonZeroU16,
) -> Result<(), StreamEnd> {
    let mut service =
        InboundServerPoliciesClient::new(channel).max_decoding_message_size(config.max_message);
    let request =
        inbound::PortSpec { workload: config.workload.to_string(), port: port.get().into() };
    let open = async {
        let mut inbound = service.watch_port(request).await?.into_inner();
        let first = inbound.message().await?;
        Ok::<_, StreamEnd>((inbound, first))
    };
    let (mut inbound, first) = match config.initial_timeout {
        Some(bound) => tokio::time::timeout(bound, open)
            .await
            .map_err(|_| StreamEnd::InitialTimeout(bound))??,
        None => open.await?,
    };
    let begun = Instant::now();
    let mut next = first;
    while let Some(server) = next {
        apply(config, store, port, &server);
        let last_message = Instant::now();
        next = tokio::select! {
            message = inbound.message() => message?,
            bound = expiry(begun, last_message, config) => return Err(StreamEnd::Expired(bound)),
        };
    }
    Err(StreamEnd::Closed)
}

fn apply(config: &DiscoverConfig, store: &PolicyStore, port: NonZeroU16, server: &inbound::Server) {
    let refused = match compat::decode(server) {
        Ok(policy) => {
            follow_facts(config, store, server);
            // This service has no revisions; they are made from the content.
            let content = FixedState::default().hash_one(format!("{server:?}"));
            let revision = Revision { content, ..Revision::default() };
            store.apply(port, Arc::new(policy), revision).err().map(|error| error.to_string())
        }
        Err(error) => {
            store.reject(port);
            Some(error.to_string())
        }
    };
    let discovery = &store.telemetry().discovery;
    match refused {
        None => discovery.applied.inc(),
        Some(reason) => {
            tracing::warn!(port, reason, "policy update rejected, keeping the last good policy");
            discovery.rejected.inc()
        }
    };
}

/// This service states the pod's addresses with each port; the other facts are configured.
fn follow_facts(config: &DiscoverConfig, store: &PolicyStore, server: &inbound::Server) {
    if let Ok(stated) = compat::decode_facts(server)
        && !stated.pod_addresses.is_empty()
    {
        let facts = Facts { pod_addresses: stated.pod_addresses, ..Facts::clone(&config.facts) };
        store.set_facts(Arc::new(facts));
    }
}
