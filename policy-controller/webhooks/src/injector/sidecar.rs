//! Names and numbers of the added parts of a pod.

/// Name of the sidecar.
pub const PROXY: &str = policy_crds::annotation::PROXY_CONTAINER;
/// Name of the init container.
pub(super) const INIT: &str = policy_crds::annotation::INIT_CONTAINER;
/// Port of redirected connections.
pub(super) const INBOUND_PORT: u16 = 4143;
/// Port of the proxy's admin server.
pub(super) const ADMIN_PORT: u16 = 4191;
/// The names of the ports that the sidecar declares.
pub(super) const PORT_NAMES: [(&str, u16); 2] =
    [("proxy-inbound", INBOUND_PORT), ("proxy-admin", ADMIN_PORT)];
/// Port of the pod's own connections, on loopback.
pub(super) const OUTBOUND_PORT: u16 = 4140;
/// Port that nobody listens on: only the inbound redirect leads to the sidecar, so that who gets a
/// response there has proven it.
pub(super) const CAPTURE_PORT: u16 = 4192;
/// Address that the sidecar calls to prove the outbound redirect. It is on loopback, to which every pod
/// has a route, whatever its address family.
pub(super) const CANARY: &str = "127.0.0.127:4193";
/// User ID of the proxy.
pub(super) const PROXY_UID: u64 = 2102;
/// The annotation with the injected version. Before injection, it is the version that the pod
/// requests.
pub const VERSION_ANNOTATION: &str = "portcullis.dev/proxy-version";

/// The annotation by which `portcullis inject --uninject` restores what it cannot tell from the pod.
pub(super) const RECORD: &str = "portcullis.dev/uninject";

pub(super) const TOKEN_VOLUME: &str = "portcullis-identity-token";
pub(super) const ROOTS_VOLUME: &str = "portcullis-trust-roots";
pub(super) const LOCK_VOLUME: &str = "portcullis-init-run";
/// Names of the added volumes.
pub(super) const VOLUMES: [&str; 3] = [TOKEN_VOLUME, ROOTS_VOLUME, LOCK_VOLUME];
