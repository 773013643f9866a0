//! The client of discovery: controller streams → store, and → table of destinations. The only module
//! that names `policy_proto`.
//!
//! [`run`] watches the native service for the whole workload. If the server does not implement it
//! (`UNIMPLEMENTED`), it falls back to Linkerd's `InboundServerPolicies`, one stream per port, and
//! retries the native service from time to time. What connections lead to is asked on the same
//! connection (`destination`), which ends and is made again with the policy stream.
//!
//! **Invariants.** Policy is accepted from the configured server identity alone. An update that
//! cannot be applied as a whole is not applied: the last good policy stays. No number of responses
//! makes the client call again without a delay.

mod destination;
mod linkerd;
mod native;
mod settings;
mod stream_end;

pub use policy_tls::control::{AddressError, Backoff, ControllerAddress};
pub use settings::{DiscoverConfig, workload_name};

use policy_enforce::store::PolicyStore;
use policy_tls::control;
use policy_tls::control::TlsSource;
use policy_tls::identity::IdentityHandle;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use stream_end::{StreamEnd, pause};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// Keeps the store in sync with the controller until `shutdown`. It also advances the store's
/// clock, so there must be exactly one of these per store. It never fails: every error is retried.
pub async fn run(
    config: DiscoverConfig,
    store: PolicyStore,
    identity: IdentityHandle,
    shutdown: CancellationToken,
) {
    let config = Arc::new(config);
    let work = async {
        tokio::join!(sweep(&config, &store), follow(&config, &store, &identity));
    };
    shutdown.run_until_cancelled(work).await;
}

async fn sweep(config: &DiscoverConfig, store: &PolicyStore) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        store.sweep();
        if let Some(table) = &config.destinations {
            table.sweep();
        }
    }
}

async fn follow(config: &Arc<DiscoverConfig>, store: &PolicyStore, identity: &IdentityHandle) {
    let mut client = native::Client::new(Arc::clone(config), store.clone());
    let mut backoff = config.new_backoff();
    loop {
        wait_for_identity(config, identity).await;
        store.telemetry().discovery.attempts.inc();
        let begun = Instant::now();
        let bounds =
            control::Bounds { connect: config.connect_timeout, keep_alive: config.keep_alive };
        let own = credentials(identity.clone());
        let ended = match control::connect(&config.controller, bounds, own).await {
            Ok(channel) => tokio::select! {
                ended = follow_policies(config, &mut client, channel.clone()) => ended,
                never = destination::follow(config, channel) => match never {},
            },
            Err(error) => error.into(),
        };
        if let Some(table) = &config.destinations {
            table.lose_all();
        }
        store.telemetry().discovery.ended.inc();
        store.lose_all();
        backoff.settle(begun.elapsed());
        pause(&mut backoff, &ended, &config.controller).await;
    }
}

/// Follows the policies of the workload, until the stream or the connection ends.
async fn follow_policies(
    config: &Arc<DiscoverConfig>,
    client: &mut native::Client,
    channel: Channel,
) -> StreamEnd {
    let ended = client.session(channel.clone()).await;
    if !ended.is_unimplemented() {
        return ended;
    }
    tracing::info!(controller = %config.controller, "the controller does not implement PolicyDiscovery: using Linkerd's InboundServerPolicies");
    // Bounded, so that the native service is retried.
    linkerd::run(config, client.store(), channel).await
}

/// Waits for the proxy's identity if the controller requires one, so that an ordinary start is no
/// failed attempt. After a timeout the attempt itself reports the missing identity.
async fn wait_for_identity(config: &DiscoverConfig, identity: &IdentityHandle) {
    if !config.controller.is_loopback() {
        let _ = tokio::time::timeout(IDENTITY_WAIT, identity.present()).await;
    }
}

/// Time to wait for the first certificate; an issuer that starts at the same time takes seconds.
const IDENTITY_WAIT: Duration = Duration::from_secs(30);

/// The client's TLS configuration. The proxy authenticates itself, because the controller permits a
/// workload to watch its own policy alone.
fn credentials(identity: IdentityHandle) -> TlsSource {
    Arc::new(move |expected| {
        let own = identity.current().clone();
        let missing =
            || io::Error::new(io::ErrorKind::NotConnected, "the proxy has no identity yet");
        own.ok_or_else(missing)?.client(expected).map_err(io::Error::other)
    })
}
