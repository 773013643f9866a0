//! A watch of the source that fell behind ends every stream once, so that clients may find a replica
//! whose watches are current. Whoever comes back is served the snapshot.

use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;

/// How often some watch of the source became stale, and which did last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stale {
    /// How often.
    pub times: u64,
    /// Which, in words.
    pub watch: Arc<str>,
}

/// Waits until it happens again, after it had happened `before` times. Where nobody would tell, for
/// ever. May be dropped and begun again: nothing is missed.
pub(crate) async fn became_stale(stale: &mut watch::Receiver<Stale>, before: u64) -> Status {
    let became = stale.wait_for(|now| now.times != before).await.map(|now| now.watch.clone()).ok();
    match became {
        Some(watch) => Status::unavailable(format!(
            "the watch of {watch} is stale: another replica may be current"
        )),
        None => std::future::pending().await,
    }
}
