//! Flags that make no sense together. One by one they are read by clap.

use policy_engine::config::ConfigError;
use policy_tls::control::{AddressError, ControllerAddress};
use std::net::SocketAddr;
use std::sync::Arc;

/// Flags that make no sense together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// A server's address without an identity that it could prove there.
    #[error("--{}, --{}: {error}", flags.0, flags.1)]
    Server {
        /// The flags of its address and its identity, without dashes.
        flags: (&'static str, &'static str),
        /// The problem.
        error: AddressError,
    },
    /// A setting of the controller that makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A plaintext address outside of loopback.
    #[error(
        "--grpc-addr: `{0}` is not on loopback, and without --identity=certify or --grpc-tls-key, --grpc-tls-certs and \
         --grpc-tls-roots callers cannot prove who they are: give these, or an address on loopback"
    )]
    TlsMissing(SocketAddr),
    /// Two certificates.
    #[error("--identity: `certify` and --grpc-tls-key are two certificates; give one of them")]
    TwoCertificates,
    /// A webhook whose port is not served.
    #[error(
        "--{0} needs the webhook's port: leave out --admission-controller-disabled; \
         with --watch-namespace give --server-tls-certs and --server-tls-key"
    )]
    NoWebhookPort(&'static str),
    /// Machines whose addresses no sidecar looks up.
    #[error(
        "--external-workload-namespaces: machines count outside --cluster-networks alone, and sidecars look up \
         these alone; give --injector-outbound-networks with the networks of both"
    )]
    MachinesNotLookedUp,
    /// A name of Linkerd's controller where that runs.
    #[error("--{flag}: `{value}` is not allowed; a name of its own with --beside-linkerd")]
    OfLinkerd {
        /// The flag, without dashes.
        flag: &'static str,
        /// The value of the flag.
        value: Arc<str>,
    },
    /// A service account that cannot have an identity.
    #[error("--service-account: `{0}` makes no identity (allowed: labels of the DNS, lower-case)")]
    ServiceAccount(Arc<str>),
    /// Certificates that would outlive their authority.
    #[error(
        "--ca-lifetime: it is too short: --issuance-lifetime and --root-settle have to fit into \
         what is left of it after --rotate-after percent"
    )]
    TooShort,
}

impl ArgsError {
    /// A server at `address`, which proves `identity` where it is not on loopback.
    pub(super) fn server(
        flags: (&'static str, &'static str),
        address: &str,
        identity: Option<&str>,
    ) -> Result<ControllerAddress, Self> {
        ControllerAddress::parse(address, identity).map_err(|error| Self::Server { flags, error })
    }
}
