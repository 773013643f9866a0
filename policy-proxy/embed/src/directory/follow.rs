//! Puts the policies of one workload in force whenever they change.

use policy_core::{Facts, WorkloadKey};
use policy_enforce::{NodeAddresses, PolicyStore};
use policy_engine::Controller;
use policy_engine::handles::Policies;
use policy_engine::latest::Latest;
use policy_engine::publish::{LookupError, PortPolicy, PublishedWorkload};
use policy_server::DefaultGateways;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Interval at which the store's clock is advanced, and a missing workload is looked up again.
const TICK: Duration = Duration::from_secs(1);

/// A followed port, and what is in force on it.
struct Followed {
    policy: Latest<Arc<PortPolicy>>,
    applied: Option<Arc<PortPolicy>>,
}

/// Follows the workload as long as the controller lives.
pub(super) async fn run(controller: Controller, store: PolicyStore, key: WorkloadKey) {
    let policies = &controller.policies;
    let mut node = NodeAddresses::new(DefaultGateways::of_process());
    loop {
        match policies.workload(&key).await {
            Ok(state) => {
                let ended = follow(policies, &store, &key, &mut node, state).await;
                // Nothing says any more which policy holds: the last ones stay, as in a sidecar whose
                // controller is lost.
                store.lose_all();
                tracing::warn!(workload = %key, ?ended, "the manifests have no such workload any more");
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
        tokio::time::sleep(TICK).await;
        store.sweep();
    }
}

/// Applies each change until the workload goes away.
async fn follow(
    policies: &Policies,
    store: &PolicyStore,
    key: &WorkloadKey,
    node: &mut NodeAddresses,
    mut state: Latest<Arc<PublishedWorkload>>,
) -> Result<(), LookupError> {
    let mut ports: BTreeMap<NonZeroU16, Followed> = BTreeMap::new();
    let mut demand = store.demand();
    let mut tick = tokio::time::interval(TICK);
    loop {
        let workload = state.read();
        store.set_facts(Arc::new(node.settle(Facts::clone(&workload.facts))));
        store.declare(&workload.declared, workload.undeclared);
        // What was declared just now is no demand of others.
        demand.mark_unchanged();
        let wanted = store.ports();
        ports.retain(|port, _| wanted.contains_key(port));
        for port in wanted.keys() {
            if !ports.contains_key(port) {
                match policies.port(key, *port).await {
                    Ok(policy) => _ = ports.insert(*port, Followed { policy, applied: None }),
                    // The others are followed on, and this one waits for a policy.
                    Err(error @ LookupError::TooManyPorts) => {
                        tracing::warn!(workload = %key, port, %error, "cannot follow a port");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        for (port, followed) in &mut ports {
            followed.apply(store, *port);
        }
        let changed = poll_fn(|cx| {
            let any = ports.values_mut().any(|one| one.policy.poll_changed(cx).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            there = state.changed() => if !there { return Ok(()) },
            () = changed => {}
            demanded = demand.changed() => if demanded.is_err() { return Ok(()) },
            _ = tick.tick() => store.sweep(),
        }
        if state.is_closed() {
            return Ok(());
        }
    }
}

impl Followed {
    fn apply(&mut self, store: &PolicyStore, port: NonZeroU16) {
        let published = self.policy.read();
        if self.applied.as_ref().is_some_and(|applied| Arc::ptr_eq(applied, &published)) {
            return;
        }
        let (policy, revision) = (Arc::clone(&published.policy), published.revision.clone());
        if let Err(error) = store.apply(port, policy, revision) {
            tracing::error!(port, %error, "a policy cannot be enforced; the last one stays");
        }
        self.applied = Some(published);
    }
}
