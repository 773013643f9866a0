//! A stale watch of the source ends every stream once, so that clients may find a replica whose
//! watches are current. A client that comes back is served the snapshot.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;

/// Number of times that a watch of the source became stale, and the last such watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleNotice {
    /// The number.
    pub times: u64,
    /// Description of the watch.
    pub watch: Arc<str>,
}

/// Waits until it happens again, after it had happened `before` times; forever if the sender is
/// gone. Cancel-safe.
pub(crate) async fn became_stale(stale: &mut watch::Receiver<StaleNotice>, before: u64) -> Status {
    let became = stale.wait_for(|now| now.times != before).await.map(|now| now.watch.clone()).ok();
    match became {
        Some(watch) => Status::unavailable(format!(
            "the watch of {watch} is stale: another replica may be current"
        ))
        .because(StatusReason::WatchStale),
        None => std::future::pending().await,
    }
}
