//! The names by which a pod with a sidecar, and the slices of a Service, are known.

/// The label of an EndpointSlice that names its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The mark of a pod's sidecar ([`crate::SidecarMark`]), written at injection.
pub const SIDECAR_MARK: &str = "portcullis.dev/sidecar";
/// The name of the sidecar's container.
pub const PROXY_CONTAINER: &str = "portcullis-proxy";
/// Ports that are not redirected to the sidecar, for people: the arguments of the init container
/// decide.
pub const SKIPPED_PORTS: &str = "portcullis.dev/skipped-inbound-ports";
/// The name of the init container that redirects connections to the sidecar.
pub const INIT_CONTAINER: &str = "portcullis-init";
/// Prefix of the argument of that container which lists the ports to skip.
pub const SKIP_ARGUMENT: &str = "--skip-inbound-ports=";
/// The label that the injector sets on pods with a sidecar.
pub const PROXY_LABEL: &str = "portcullis.dev/proxy";
/// The value of [`PROXY_LABEL`] where there is one.
pub const PROXY_INJECTED: &str = "injected";
