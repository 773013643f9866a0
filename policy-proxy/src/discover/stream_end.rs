//! Ends of policy streams, and the delay before the next.

use super::settings::DiscoverConfig;
use policy_enforce::store::PolicyStore;
use policy_proto::DecodeError;
use policy_tls::control::{Backoff, ControllerAddress, chain, random};
use std::error::Error;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

/// The reason for which a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamEnd {
    /// The server ended it with a status.
    #[error("{}", describe(.0))]
    Status(#[from] Status),
    /// The connection could not be made.
    #[error("{}", chain(.0))]
    Connect(#[from] tonic::transport::Error),
    /// The server closed the stream.
    #[error("the server closed the stream")]
    Closed,
    /// No first message before the timeout.
    #[error("no message within {0:?}")]
    InitialTimeout(Duration),
    /// The idle timeout or lifetime of a working stream.
    #[error("renewed after {0:?}")]
    Expired(Duration),
    /// The workload message is invalid for this version.
    #[error("workload.{0}")]
    Workload(DecodeError),
    /// The server broke the protocol.
    #[error("{0}")]
    Protocol(String),
}

impl StreamEnd {
    /// True if the server does not implement the service.
    pub(super) fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// True if a retry soon would fail in the same way.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::Status(status) => {
                matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition)
            }
            Self::Workload(_) | Self::Protocol(_) => true,
            Self::Connect(_) | Self::Closed | Self::InitialTimeout(_) | Self::Expired(_) => false,
        }
    }

    /// Counts the ended RPC.
    pub(super) fn count(&self, config: &DiscoverConfig, store: &PolicyStore) {
        let failure = !matches!(self, Self::Expired(_) | Self::Closed);
        let address = config.controller.to_string();
        let status = self.code().map(|code| code as i32);
        store.telemetry().discovery.rpc_ended(&address, status, failure);
    }

    /// True if the connection is lost, so that the next one may reach another server.
    pub(super) fn is_disconnect(&self) -> bool {
        match self {
            Self::Status(status) => status.code() == Code::Unavailable || status.source().is_some(),
            Self::Connect(_) => true,
            Self::Closed
            | Self::InitialTimeout(_)
            | Self::Expired(_)
            | Self::Workload(_)
            | Self::Protocol(_) => false,
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            Self::Status(status) => Some(status.code()),
            Self::Connect(_)
            | Self::Closed
            | Self::InitialTimeout(_)
            | Self::Expired(_)
            | Self::Workload(_)
            | Self::Protocol(_) => None,
        }
    }
}

/// Logs the end of the stream and waits before the next attempt.
pub(super) async fn pause(
    backoff: &mut Backoff,
    ended: &StreamEnd,
    controller: &ControllerAddress,
) {
    let delay = if ended.is_permanent() { backoff.slow(random()) } else { backoff.delay(random()) };
    match ended {
        StreamEnd::Expired(_) => {
            tracing::debug!(target: TARGET, %controller, reason = %ended, "policy stream ended");
        }
        StreamEnd::Status(_)
        | StreamEnd::Connect(_)
        | StreamEnd::Closed
        | StreamEnd::InitialTimeout(_)
        | StreamEnd::Workload(_)
        | StreamEnd::Protocol(_) => {
            tracing::warn!(
                target: TARGET, %controller, reason = %ended, ?delay,
                "policy stream ended, retrying"
            );
        }
    }
    tokio::time::sleep(delay).await;
}

/// Waits for the idle timeout or the end of the lifetime, and returns which duration expired.
pub(super) async fn expiry(
    begun: Instant,
    last_message: Instant,
    config: &DiscoverConfig,
) -> Duration {
    let at = |since: Instant, bound: Option<Duration>| {
        bound.and_then(|bound| since.checked_add(bound).map(|at| (at, bound)))
    };
    let ends = [at(last_message, config.idle_timeout), at(begun, config.lifetime)];
    match ends.into_iter().flatten().min() {
        Some((at, bound)) => {
            sleep_until(at).await;
            bound
        }
        None => std::future::pending().await,
    }
}

fn describe(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("{:?}: {}: {}", status.code(), status.message(), chain(source)),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}

/// Log target that operators filter by.
pub(super) const TARGET: &str = "policy_proxy::discover";
