//! The controller's own identity from the issuer, as its proxies have theirs.

use crate::admin::Readiness;
use policy_issuer::SERVICE_ACCOUNT;
use policy_server::TlsHandle;
use policy_tls::identity::IdentitySource;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the identity's status is checked, besides whenever it changes: certificates
/// expire with time.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Requirement that `/ready` shows until there is one.
const REQUIRED: &str = "an identity from the issuer";

/// Keeps `tls` up to date with the certificates of the issuer. `/ready?verbose` reports problems.
///
/// With an issuer of this control plane the process is not ready before it has had its identity once:
/// clients cannot reach the policy API of a replica without one, so that an upgrade must not replace the
/// replicas that have one. A loss later does not affect readiness: every other replica would
/// lose it too. An issuer that is not ours is not waited for, because its pods may need the webhooks.
pub(super) async fn follow(source: IdentitySource, tls: TlsHandle, readiness: Readiness) {
    let required = is_ours(source.issuer()).then(|| readiness.require(REQUIRED));
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
                if let Some(required) = &required {
                    required.met();
                }
            }
            readiness.remark("identity", status.missing().into_iter().collect());
            // Whichever comes first.
            _ = tokio::time::timeout(POLL_INTERVAL, status.changed()).await;
        }
    };
    tokio::select! {
        () = source.run() => {}
        () = watching => {}
    }
}

/// True if the issuer of an identity's source is that of this control plane.
fn is_ours(issuer: Option<&str>) -> bool {
    let account = issuer.and_then(|name| name.split('.').next());
    account == Some(SERVICE_ACCOUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_issuer_of_this_control_plane_is_waited_for() {
        let rest = "mesh.serviceaccount.identity.mesh.cluster.local";
        assert!(is_ours(Some(&format!("portcullis-issuer.{rest}"))));
        assert!(!is_ours(Some(&format!("linkerd-identity.{rest}"))));
        assert!(!is_ours(None));
    }
}
