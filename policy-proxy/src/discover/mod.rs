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

pub use crate::control::{AddressError, Backoff, ControllerAddress};

use crate::control::{self, TlsSource, chain, random};
use crate::identity::IdentityHandle;
use crate::store::PolicyStore;
use policy_core::Facts;
use policy_proto::DecodeError;
use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

/// Whom to ask for policy, and how patiently.
#[derive(Clone, Debug)]
pub struct DiscoverConfig {
    /// Where the controller is.
    pub controller: ControllerAddress,
    /// The workload's token, as the injector wrote it; opaque here.
    pub workload: Arc<str>,
    /// The ports that the workload declares. Only asked of operators for servers that do not say it
    /// themselves (Linkerd's).
    pub declared: BTreeSet<NonZeroU16>,
    /// Facts for servers that do not state them (Linkerd's).
    pub facts: Arc<Facts>,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// How long the first message of a stream may take; absent: for ever.
    pub initial_timeout: Option<Duration>,
    /// After how long without a message a stream is opened anew; absent: never.
    pub idle_timeout: Option<Duration>,
    /// After how long a stream is opened anew in any case; absent: never.
    pub lifetime: Option<Duration>,
    /// Interval of HTTP/2 PINGs, and how long their answer may take.
    pub keep_alive: Duration,
    /// The first delay between attempts, and the longest.
    pub backoff: (Duration, Duration),
    /// The largest message accepted, in bytes.
    pub max_message: usize,
    /// How long Linkerd's service is used before the native one is tried again.
    pub native_retry: Duration,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The server said so.
    #[error("{}", describe(.0))]
    Refused(#[from] Status),
    /// The connection could not be made.
    #[error("{}", chain(.0))]
    Connect(#[from] tonic::transport::Error),
    /// The server closed the stream.
    #[error("the server closed the stream")]
    Closed,
    /// No first message within the bound.
    #[error("no message within {0:?}")]
    Silent(Duration),
    /// A bound of ours on a stream that works.
    #[error("opened anew after {0:?}")]
    Renewed(Duration),
    /// The server described the workload in a way that this version cannot read.
    #[error("workload.{0}")]
    Workload(DecodeError),
    /// The server broke the protocol.
    #[error("{0}")]
    Protocol(String),
}

impl DiscoverConfig {
    /// The defaults for a workload (proxy-semantics 2.1, 2.3).
    pub fn new(controller: ControllerAddress, workload: &str) -> Self {
        let most = if controller.is_loopback() { 10 } else { 60 };
        Self {
            controller,
            workload: workload.into(),
            declared: BTreeSet::new(),
            facts: Arc::new(Facts::default()),
            connect_timeout: Duration::from_secs(5),
            initial_timeout: None,
            idle_timeout: None,
            lifetime: None,
            keep_alive: Duration::from_secs(10),
            backoff: (Duration::from_millis(100), Duration::from_secs(most)),
            max_message: 32 << 20,
            native_retry: Duration::from_secs(600),
        }
    }

    fn new_backoff(&self) -> Backoff {
        Backoff::new(self.backoff.0, self.backoff.1)
    }
}

impl Ended {
    fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// Whether asking again soon is of no use: the server understood and will not change its mind.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Refused(status) => {
                matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition)
            }
            Self::Workload(_) | Self::Protocol(_) => true,
            Self::Connect(_) | Self::Closed | Self::Silent(_) | Self::Renewed(_) => false,
        }
    }

    /// Counts the RPC that ended so.
    fn count(&self, config: &DiscoverConfig, store: &PolicyStore) {
        let failure = !matches!(self, Self::Renewed(_) | Self::Closed);
        let address = config.controller.to_string();
        let status = self.code().map(|code| code as i32);
        store.telemetry().discovery.rpc_ended(&address, status, failure);
    }

    /// Whether the connection is gone, so that the next one may reach another server.
    fn is_disconnect(&self) -> bool {
        match self {
            Self::Refused(status) => {
                status.code() == Code::Unavailable || status.source().is_some()
            }
            Self::Connect(_) => true,
            Self::Closed
            | Self::Silent(_)
            | Self::Renewed(_)
            | Self::Workload(_)
            | Self::Protocol(_) => false,
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(status) => Some(status.code()),
            Self::Connect(_)
            | Self::Closed
            | Self::Silent(_)
            | Self::Renewed(_)
            | Self::Workload(_)
            | Self::Protocol(_) => None,
        }
    }
}

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

/// Waits before the next attempt and says why.
async fn pause(backoff: &mut Backoff, ended: &Ended, controller: &ControllerAddress) {
    let delay = if ended.is_lasting() { backoff.slow(random()) } else { backoff.delay(random()) };
    match ended {
        Ended::Renewed(_) => tracing::debug!(%controller, reason = %ended, "policy stream ended"),
        Ended::Refused(_)
        | Ended::Connect(_)
        | Ended::Closed
        | Ended::Silent(_)
        | Ended::Workload(_)
        | Ended::Protocol(_) => {
            tracing::warn!(%controller, reason = %ended, ?delay, "policy stream ended, trying again");
        }
    }
    tokio::time::sleep(delay).await;
}

fn describe(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("{:?}: {}: {}", status.code(), status.message(), chain(source)),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}

/// The controller is spoken to as who we are, for it lets workloads watch no policy but their own.
fn credentials(identity: IdentityHandle) -> TlsSource {
    Arc::new(move |expected| {
        let own = identity.current().clone();
        let missing = || io::Error::new(io::ErrorKind::NotConnected, "no identity of our own yet");
        own.ok_or_else(missing)?.client(expected).map_err(io::Error::other)
    })
}
