//! Applies the cluster's Servers to our own ports.

use super::settings::loopback;
use super::shared::Shared;
use futures_util::future::select_all;
use policy_core::{Denied, Facts, Owner};
use policy_enforce::NodeAddresses;
use policy_engine::handles::Policies;
use policy_engine::latest::Latest;
use policy_engine::publish::{LookupError, PortPolicy, PublishedWorkload};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Delay before a missing pod is looked up again.
const PAUSE: Duration = Duration::from_secs(5);

type Port = (NonZeroU16, Latest<Arc<PortPolicy>>);

/// Follows our own pod as long as there is a controller.
pub(super) async fn run(shared: Arc<Shared>, policies: Policies) {
    let mut synced = policies.synced();
    if synced.wait_for(|synced| *synced).await.is_err() {
        return;
    }
    let mut node = NodeAddresses::new(shared.gateways.clone());
    loop {
        match open(&shared, &policies).await {
            Ok((state, ports)) => {
                tracing::debug!(workload = %shared.workload, "own ports follow the cluster's Servers");
                follow(&shared, &mut node, state, ports).await;
                shared.metrics.follows(false);
                // The policy of a pod that is gone does not apply any more.
                restore(&shared);
            }
            Err(LookupError::Stopped) => return,
            Err(
                LookupError::NotFound
                | LookupError::NotSynced
                | LookupError::TooManyPorts
                | LookupError::TooManyDestinations
                | LookupError::OutboundOff,
            ) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn open(
    shared: &Shared,
    policies: &Policies,
) -> Result<(Latest<Arc<PublishedWorkload>>, Vec<Port>), LookupError> {
    let state = policies.workload(&shared.workload).await?;
    let mut ports = Vec::new();
    for port in shared.local.ports() {
        ports.push((port, policies.port(&shared.workload, port).await?));
    }
    Ok((state, ports))
}

/// Applies each change until the pod goes away.
async fn follow(
    shared: &Shared,
    node: &mut NodeAddresses,
    mut state: Latest<Arc<PublishedWorkload>>,
    mut ports: Vec<Port>,
) {
    loop {
        let pod = Facts::clone(&state.read().facts);
        let facts = facts(shared, node.settle(pod));
        shared.node_known.store(!facts.1, Ordering::Release);
        shared.store.set_facts(facts.0);
        for (port, policy) in &mut ports {
            let policy = policy.read();
            apply(shared, *port, &policy);
        }
        shared.metrics.follows(true);
        let changed = ports.iter_mut().map(|(_, policy)| Box::pin(policy.changed()));
        let there = tokio::select! {
            there = state.changed() => there,
            (there, _, _) = select_all(changed) => there,
        };
        if !there {
            return;
        }
    }
}

/// Applies a policy. A Server of the cluster decides; where none selects the port, or it is
/// invalid, the local policy does: nothing says what an invalid Server was to admit, and denying
/// everybody would close the webhooks to the whole cluster, whose API servers reject what they
/// cannot have reviewed.
fn apply(shared: &Shared, port: NonZeroU16, published: &PortPolicy) {
    let invalid = published.policy.deny == Some(Denied::ServerInvalid);
    let (policy, revision) = match (&published.policy.owner, shared.local.policy(port)) {
        (Owner::Default(_), Some(local)) => (local.clone(), shared.local.revision()),
        (Owner::Server(server), Some(local)) if invalid => {
            tracing::warn!(port, %server, "invalid: the local policy stays on this port");
            (local.clone(), shared.local.revision())
        }
        (Owner::Default(_) | Owner::Server(_), _) => {
            (published.policy.clone(), published.revision.clone())
        }
    };
    if let Err(error) = shared.store.apply(port, policy, revision) {
        tracing::error!(port, %error, "the policy of an own port cannot be enforced; the last one stays");
    }
}

fn restore(shared: &Shared) {
    shared.node_known.store(false, Ordering::Release);
    for port in shared.local.ports() {
        if let Some(local) = shared.local.policy(port) {
            // It could be built before.
            _ = shared.store.apply(port, local.clone(), shared.local.revision());
        }
    }
}

/// Returns our own facts: those of the pod, with loopback as part of our node. The flag is true if
/// nothing is known of the node.
fn facts(shared: &Shared, mut facts: Facts) -> (Arc<Facts>, bool) {
    let unknown = facts.node_local.is_empty();
    match unknown {
        true => facts.node_local.clone_from(&shared.node),
        false => facts.node_local.extend(loopback()),
    }
    (Arc::new(facts), unknown)
}
