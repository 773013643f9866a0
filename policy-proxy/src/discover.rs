//! Controller stream → store. The only module that sees `policy_proto`.
//!
//! [`run`] asks the native service for the whole workload; where the server does not know it
//! (`UNIMPLEMENTED`), it falls back to Linkerd's `InboundServerPolicies`, one stream per port, and
//! tries the native service again from time to time.
//!
//! **Invariants.** Policy is accepted from the configured server identity alone. What cannot be
//! applied whole is not applied: the last good policy stays. No answer, and no number of answers,
//! makes the client call again without a delay.

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
use stream_end::pause;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Keeps the store in line with the controller until `shutdown`. Also lets the store's time pass, so
/// there must be exactly one of these per store. Fails never: whatever goes wrong is tried again.
pub async fn run(
    config: DiscoverConfig,
    store: PolicyStore,
    identity: IdentityHandle,
    shutdown: CancellationToken,
) {
    let config = Arc::new(config);
    let work = async {
        tokio::join!(sweep(&store), follow(&config, &store, &identity));
    };
    shutdown.run_until_cancelled(work).await;
}

async fn sweep(store: &PolicyStore) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        store.sweep();
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
            Ok(channel) => {
                let ended = client.session(channel.clone()).await;
                if ended.is_unimplemented() {
                    tracing::info!(controller = %config.controller, "using the compatible policy service");
                    // Bounded: it ends for the native service to be tried again.
                    linkerd::run(config, store, channel).await
                } else {
                    ended
                }
            }
            Err(error) => error.into(),
        };
        store.telemetry().discovery.ended.inc();
        store.lose_all();
        backoff.settle(begun.elapsed());
        pause(&mut backoff, &ended, &config.controller).await;
    }
}

/// Waits for an identity where the controller asks for one, so that an ordinary start is no failed attempt.
/// Who has none after a while is told so by the attempt.
async fn wait_for_identity(config: &DiscoverConfig, identity: &IdentityHandle) {
    if !config.controller.is_loopback() {
        let _ = tokio::time::timeout(IDENTITY_WAIT, identity.present()).await;
    }
}

/// How long the first certificate may take; an issuer that starts with us takes seconds.
const IDENTITY_WAIT: Duration = Duration::from_secs(30);

/// The controller is spoken to as who we are, for it lets workloads watch no policy but their own.
fn credentials(identity: IdentityHandle) -> TlsSource {
    Arc::new(move |expected| {
        let own = identity.current().clone();
        let missing = || io::Error::new(io::ErrorKind::NotConnected, "no identity of our own yet");
        own.ok_or_else(missing)?.client(expected).map_err(io::Error::other)
    })
}
