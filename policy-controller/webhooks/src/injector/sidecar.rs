//! The names and numbers of what is added to a pod.

/// Name of the sidecar.
pub const PROXY: &str = "portcullis-proxy";
/// Name of the init container.
pub(super) const INIT: &str = policy_crds::annotation::INIT_CONTAINER;
/// Where redirected connections arrive.
pub(super) const INBOUND_PORT: u16 = 4143;
/// Where the proxy tells of itself.
pub(super) const ADMIN_PORT: u16 = 4191;
/// The user of the proxy.
pub(super) const PROXY_UID: u64 = 2102;
/// The annotation that says which version was injected. What the pod states there before is the
/// version that it asks for.
pub const VERSION_ANNOTATION: &str = "portcullis.dev/proxy-version";

pub(super) const TOKEN_VOLUME: &str = "portcullis-identity-token";
pub(super) const ROOTS_VOLUME: &str = "portcullis-trust-roots";
pub(super) const LOCK_VOLUME: &str = "portcullis-init-run";
/// Names of the volumes that are added.
pub(super) const VOLUMES: [&str; 3] = [TOKEN_VOLUME, ROOTS_VOLUME, LOCK_VOLUME];
