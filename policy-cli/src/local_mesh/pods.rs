//! Pods of a local mesh: a sidecar with an echo application each.

use super::addresses::AddressMap;
use super::authority::{Authority, IssueError};
use crate::echo::{self, EchoOptions, EchoServer};
use policy_core::Identity;
use policy_enforce::record::Recorder;
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_engine::WorkloadState;
use policy_proto::workload::format_workload;
use policy_proxy::discover;
use policy_proxy::discover::DiscoverConfig;
use policy_proxy::outbound::table::Demand;
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, StartError, Target};
use policy_server::DefaultGateways;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{Credentials, IdentityError, IdentityHandle, TlsIdentity};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Starts pods, and holds what they share.
pub(crate) struct PodLauncher {
    /// CA of the certificates.
    pub(crate) authority: Authority,
    /// Address at which the controller serves policies.
    pub(crate) controller: SocketAddr,
    /// Map of the clients' addresses.
    pub(crate) address_map: AddressMap,
    /// Recorder of decisions.
    pub(crate) recorder: Arc<dyn Recorder>,
    /// Allocation of the ports.
    pub(crate) ports: PortAllocation,
}

/// Allocation of the sidecars' ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortAllocation {
    /// The workload's own ports, so that the ports in manifests can be used as they are.
    Declared,
    /// Free ports, so that local meshes do not collide.
    Free,
}

/// A running pod. Dropping it stops it.
pub(crate) struct RunningPod {
    /// Address of each port.
    pub(crate) ports: BTreeMap<NonZeroU16, SocketAddr>,
    /// Address for connections with a transport header.
    pub(crate) direct: Option<SocketAddr>,
    /// Server name for TLS.
    pub(crate) server_name: String,
    sidecar: Sidecar,
    _applications: Vec<EchoServer>,
    _discovery: DropGuard,
}

/// Error of starting a pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodError {
    /// The address is not one of this machine's.
    #[error(
        "`{0}` is not an address of this machine: on Linux every address of 127.0.0.0/8 is; \
         elsewhere add it to the loopback interface first, for example with \
         `sudo ifconfig lo0 alias {0} up`, or run in a Linux container"
    )]
    NoSuchAddress(IpAddr),
    /// The address is in use.
    #[error(
        "`{0}` is in use: stop the process that listens there or on that port of all addresses, or choose \
         other addresses with --subnet"
    )]
    InUse(SocketAddr),
    /// The socket cannot be bound.
    #[error("cannot listen on `{address}`: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The I/O error.
        error: std::io::Error,
    },
    /// The sidecar failed to start.
    #[error("cannot start the sidecar of `{workload}`: {error}")]
    Sidecar {
        /// The workload.
        workload: String,
        /// The sidecar's error.
        error: StartError,
    },
    /// The certificate of its application cannot be used.
    #[error("cannot use the certificate of the application of `{workload}`: {error}")]
    Application {
        /// The workload.
        workload: String,
        /// The TLS library's error.
        error: rustls::Error,
    },
    /// Policy discovery cannot start.
    #[error("cannot ask for the policy of `{workload}`: {error}")]
    Discovery {
        /// The workload.
        workload: String,
        /// The client's error.
        error: String,
    },
    /// The certificate cannot be issued.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// The certificate cannot be used.
    #[error("cannot use the certificate of `{workload}`: {error}")]
    Identity {
        /// The workload.
        workload: String,
        /// The TLS library's error.
        error: IdentityError,
    },
}

impl PodError {
    fn listen(address: SocketAddr, error: std::io::Error) -> Self {
        let kind = error.kind();
        if kind == ErrorKind::AddrNotAvailable {
            Self::NoSuchAddress(address.ip())
        } else if kind == ErrorKind::AddrInUse {
            Self::InUse(address)
        } else {
            Self::Listen { address, error }
        }
    }
}

impl PodLauncher {
    /// Starts a pod at `address` with these ports. Must be called in a runtime, which runs its
    /// applications; the sidecar has its own threads.
    pub(crate) async fn start(
        &self,
        state: &WorkloadState,
        address: Ipv4Addr,
        ports: &BTreeSet<NonZeroU16>,
    ) -> Result<RunningPod, PodError> {
        let workload = state.key.to_string();
        let mut config = SidecarConfig::new(&workload);
        let mut applications = Vec::new();
        let tls = self.application_tls(state)?;
        for port in ports {
            let options = EchoOptions {
                name: Some(format!("{workload}:{port}").into()),
                tls: Some(Arc::clone(&tls)),
                plaintext_too: true,
            };
            let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let application = echo::start(loopback, options)
                .await
                .map_err(|error| PodError::listen(loopback, error))?;
            let target = Target::Fixed { port: *port, upstream: application.address() };
            config.listeners.push(Listener { address: self.listen(address, *port)?, target });
            applications.push(application);
        }
        // As in a pod, meshed clients may name the port in a transport header. It is the last
        // listener.
        if !ports.contains(&DIRECT) {
            let address = self.listen(address, DIRECT)?;
            config.listeners.push(Listener { address, target: Target::Direct });
        }
        let address_map = self.address_map.clone();
        config.client_address = Some(Arc::new(move |address| address_map.resolve(address)));
        let identity = self.identity_of(&workload, &Identity::Dns(Arc::clone(&state.identity)))?;
        let (store, discovery) = self.discover(state, identity.clone(), None)?;
        let recorder = Some(Arc::clone(&self.recorder));
        let sidecar = Sidecar::start(config, store, identity, recorder)
            .map_err(|error| start_error(workload, error))?;
        let addresses = sidecar.addresses();
        let direct = addresses.get(ports.len()).copied();
        let ports = ports.iter().copied().zip(addresses.iter().copied()).collect();
        Ok(RunningPod {
            ports,
            direct,
            server_name: state.identity.to_string(),
            sidecar,
            _applications: applications,
            _discovery: discovery,
        })
    }

    /// Address of a port's listener that is free now. With port 0 the system would choose one that
    /// nobody could be told of before the listener is there.
    pub(crate) fn free(&self, address: Ipv4Addr, port: NonZeroU16) -> Result<SocketAddr, PodError> {
        let wanted = self.listen(address, port)?;
        let bound = std::net::TcpListener::bind(wanted);
        bound
            .and_then(|socket| socket.local_addr())
            .map_err(|error| PodError::listen(wanted, error))
    }

    /// Address of a port's listener. Privileged ports that this process may not bind are replaced
    /// by free ones.
    fn listen(&self, address: Ipv4Addr, port: NonZeroU16) -> Result<SocketAddr, PodError> {
        let free = SocketAddr::from((address, 0));
        let wanted = match self.ports {
            PortAllocation::Declared => SocketAddr::from((address, port.get())),
            PortAllocation::Free => free,
        };
        match std::net::TcpListener::bind(wanted) {
            Ok(_) => Ok(wanted),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(free),
            Err(error) => Err(PodError::listen(wanted, error)),
        }
    }

    /// Synchronises a store with the controller until the guard is dropped, and answers what
    /// `destinations` asks for.
    pub(super) fn discover(
        &self,
        state: &WorkloadState,
        identity: IdentityHandle,
        destinations: Option<Arc<dyn Demand>>,
    ) -> Result<(PolicyStore, DropGuard), PodError> {
        let broken = |error: String| PodError::Discovery { workload: state.key.to_string(), error };
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1)))
            .map_err(|error| broken(error.to_string()))?;
        let controller = ControllerAddress::loopback(self.controller)
            .map_err(|error| broken(error.to_string()))?;
        let token = format_workload(&state.key);
        let stop = CancellationToken::new();
        let mut config = DiscoverConfig::new(controller, &token);
        // The gateways of the manifests' pods, not of this machine.
        config.gateways = DefaultGateways::none();
        config.destinations = destinations;
        tokio::spawn(discover::run(config, store.clone(), identity, stop.clone()));
        Ok((store, stop.drop_guard()))
    }

    /// TLS configuration of the application itself, for passed-through TLS.
    fn application_tls(
        &self,
        state: &WorkloadState,
    ) -> Result<Arc<rustls::ServerConfig>, PodError> {
        let name = application_name(&state.key.namespace, &state.key.name);
        let leaf = self.authority.issue(&Identity::Dns(name.into()))?;
        let key = leaf.private_key();
        let broken = |error| PodError::Application { workload: state.key.to_string(), error };
        echo::server_config(vec![leaf.certificate], key).map_err(broken)
    }

    /// A certificate of this mesh for `identity`.
    pub(super) fn identity_of(
        &self,
        workload: &str,
        identity: &Identity,
    ) -> Result<IdentityHandle, PodError> {
        let leaf = self.authority.issue(identity)?;
        let credentials = Credentials {
            server_name: identity.as_str().into(),
            roots: vec![self.authority.root().clone()],
            key: leaf.private_key(),
            chain: vec![leaf.certificate],
        };
        let identity = TlsIdentity::new(credentials)
            .map_err(|error| PodError::Identity { workload: workload.to_owned(), error })?;
        Ok(IdentityHandle::new(identity))
    }
}

/// Name that a pod's application proves in its own TLS.
pub(crate) fn application_name(namespace: &str, pod: &str) -> String {
    format!("{pod}.{namespace}")
}

pub(super) fn start_error(workload: String, error: StartError) -> PodError {
    match error {
        StartError::Listen { address, error } => PodError::listen(address, error),
        StartError::Worker(_) => PodError::Sidecar { workload, error },
    }
}

impl RunningPod {
    /// Drains open requests and waits for them.
    pub(crate) async fn drain(mut self) {
        self.sidecar.drain();
        self.sidecar.ended().await;
    }

    /// Closes its connections, and waits until its addresses are free.
    pub(crate) async fn stop(mut self) {
        self.sidecar.stop();
        self.sidecar.ended().await;
    }
}

/// Port of connections with a transport header, as in a pod.
const DIRECT: NonZeroU16 = NonZeroU16::new(4143).unwrap();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_our_addresses_says_what_to_do() {
        let address = "127.10.64.1:8080".parse().unwrap();
        let error = PodError::listen(address, ErrorKind::AddrNotAvailable.into()).to_string();
        assert!(error.contains("sudo ifconfig lo0 alias 127.10.64.1 up"), "{error}");
    }
}
