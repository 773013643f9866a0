//! The controller's own identity from the issuer, as its proxies have theirs.

use crate::admin::Readiness;
use policy_server::TlsHandle;
use policy_tls::identity::IdentitySource;
use std::sync::Arc;
use std::time::Duration;

/// How often it is asked how the identity is doing, besides whenever it changes: time makes
/// certificates expire.
const LOOK: Duration = Duration::from_secs(5);

/// Keeps `tls` as the issuer certifies us. `/ready?verbose` says what is missing. The process is ready
/// without: the webhooks do not need this certificate, and the pods of an issuer that is not ours may
/// need the webhooks.
pub(super) async fn follow(source: IdentitySource, tls: TlsHandle, readiness: Readiness) {
    let (identity, mut status) = (source.identity(), source.status());
    let watching = async {
        let mut in_use = None;
        loop {
            let current = identity.current().clone();
            let same = match (&current, &in_use) {
                (Some(current), Some(in_use)) => Arc::ptr_eq(current, in_use),
                (None, _) => true,
                (Some(_), None) => false,
            };
            if let Some(current) = current.filter(|_| !same) {
                tls.put(current.clone(), current.validity().map(|(_, ends)| ends));
                tracing::info!(
                    identity = current.server_name(),
                    "certificate of the gRPC port renewed"
                );
                in_use = Some(current);
            }
            readiness.remark("identity", status.missing().into_iter().collect());
            // Whichever comes first.
            _ = tokio::time::timeout(LOOK, status.changed()).await;
        }
    };
    tokio::select! {
        () = source.run() => {}
        () = watching => {}
    }
}
