//! The gRPC server and everything it needs: authorization, the rollout tracker, listeners.

use super::error::RunError;
use super::identity;
use super::index::Handles;
use super::supervisor::Supervisor;
use super::thread::Thread;
use crate::admin;
use crate::admin::{Admin, Readiness};
use crate::args::{OwnCertificate, ServeAuth};
use crate::args::{PeerDiscovery, ReplicaSettings};
use crate::endpoints::{OwnName, follow_endpoints};
use kube::Client;
use policy_discovery::KeyError;
use policy_discovery::peers::Replicas;
use policy_discovery::rollout::{self, ClusterOverview, RolloutConfig, RolloutTracker};
use policy_discovery::serve::{
    AuthzConfig, BoundListener, ReportConfig, ServeConfig, Server, StaleNotice, Transport,
};
use policy_engine::behaviour::Behaviour;
use policy_engine::config::ControllerConfig;
use policy_engine::handles::Policies;
use policy_proto::compat::EncodeOptions;
use policy_server::TlsHandle;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityMetrics;
use policy_tls::identity::{IdentityConfig, IdentitySource};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Settings and clients that serving needs.
pub(super) struct Serving {
    pub(super) controller: ControllerConfig,
    pub(super) serve: ServeConfig,
    pub(super) auth: ServeAuth,
    pub(super) replicas: ReplicaSettings,
    /// Linkerd's controller, if outbound policy is forwarded.
    pub(super) outbound: Option<ControllerAddress>,
    /// The DNS domain of the cluster, which ends the names of Services.
    pub(super) cluster_domain: String,
    /// The API server, with a cluster.
    pub(super) client: Option<Client>,
    /// A client for reviews of tokens, if these are allowed: of its own, because connections belong
    /// to the thread that opens them.
    pub(super) reviewer: Option<Client>,
    pub(super) supervisor: Supervisor,
}

/// The server and where it listens.
pub(super) struct OpenServer {
    pub(super) server: Server,
    /// The address of the first listener.
    pub(super) grpc: SocketAddr,
    pub(super) listeners: Vec<BoundListener>,
    pub(super) counting: RolloutTracker,
    pub(super) tls: Option<TlsHandle>,
}

impl Serving {
    /// Opens the ports and makes the server, which is to run on `thread`.
    pub(super) async fn open(
        self,
        handles: &mut Handles,
        stale: watch::Receiver<StaleNotice>,
        admin: &Admin,
        thread: &Thread,
    ) -> Result<OpenServer, RunError> {
        let access = self.access()?;
        let options = encode_options(&self.controller);
        let policies: Policies = handles.policies.clone();
        let server =
            Server::with_access(policies, self.serve.clone(), options, access, Some(stale))
                .with_destinations(handles.destinations.clone())
                .with_linkerd_discovery(&self.cluster_domain);
        admin.register(|registry| server.metrics().register(registry));
        let listener = admin::bind("gRPC (--grpc-addr)", self.auth.grpc).await?;
        let grpc = listener.local_addr()?;
        let (listeners, tls) = self.listeners(&server, listener, admin.readiness()).await?;
        let server = match self.outbound.clone() {
            Some(to) => server.with_outbound(to, tls.clone()),
            None => server,
        };
        let known = self.replicas();
        let demand = handles.demand.take().ok_or(RunError::Ended("the index"))?;
        let config = RolloutConfig {
            timeout: self.replicas.timeout,
            ..RolloutConfig::new(&self.replicas.name)
        };
        let counting = {
            // With the streams whose acknowledgements are counted.
            let _entered = thread.handle().enter();
            rollout::start(config, demand, server.applied(), known, tls.clone())
        };
        admin.register(|registry| counting.metrics().register(registry));
        let mut tally = counting.tally();
        // The task that counts holds the sender.
        let counts = async move { while tally.changed().await.is_ok() {} };
        self.supervisor.spawn("the rollout tracker", counts);
        let overview = ClusterOverview::new(
            handles.conditions.clone(),
            Some(counting.clone()),
            missing(admin.readiness()),
        );
        let report = ReportConfig {
            replica: self.replicas.name.clone(),
            overviews: Some(Arc::new(overview)),
        };
        Ok(OpenServer { server: server.with_report(report), grpc, listeners, counting, tls })
    }

    /// Returns the configuration of authorization. Tokens are reviewed only where the API server
    /// may be used for that.
    fn access(&self) -> Result<AuthzConfig, KeyError> {
        self.auth.access(&self.controller, self.reviewer.clone())
    }

    /// Returns the listeners, and the credentials for the other replicas.
    async fn listeners(
        &self,
        server: &Server,
        listener: TcpListener,
        readiness: &Readiness,
    ) -> Result<(Vec<BoundListener>, Option<TlsHandle>), RunError> {
        let mut listeners = Vec::new();
        let mut credentials = None;
        let transport = match &self.auth.tls {
            Some(OwnCertificate::Certify(config)) => {
                let config = IdentityConfig::Certify(*config.clone());
                let source = IdentitySource::open(config, IdentityMetrics::default()).await?;
                let tls = server.empty_tls();
                let follow = identity::follow(source, tls.clone(), readiness.clone());
                self.supervisor.spawn("the client of the issuer", follow);
                credentials = Some(tls.clone());
                Transport::Tls(tls)
            }
            Some(OwnCertificate::Files(files)) => {
                let tls = server.load_tls(files.clone()).await?;
                let follow = tls.clone().follow();
                self.supervisor.spawn("the certificate reloader", follow);
                credentials = Some(tls.clone());
                Transport::Tls(tls)
            }
            None => Transport::Plaintext,
        };
        listeners.push(BoundListener { listener, transport });
        if let Some(address) = self.auth.plaintext {
            let listener =
                admin::bind("gRPC in plaintext (--grpc-plaintext-addr)", address).await?;
            tracing::info!(plaintext = %listener.local_addr()?, "listening");
            listeners.push(BoundListener { listener, transport: Transport::Plaintext });
        }
        Ok((listeners, credentials))
    }

    /// Returns the other replicas, now and later.
    fn replicas(&self) -> watch::Receiver<Arc<Replicas>> {
        let fixed = |peers| watch::channel(Arc::new(Replicas::Known(peers))).1;
        match (&self.replicas.discovery, self.client.clone()) {
            (PeerDiscovery::Fixed(peers), _) => fixed(peers.clone()),
            (PeerDiscovery::Off, _) | (PeerDiscovery::Service(_), None) => fixed(BTreeSet::new()),
            (PeerDiscovery::Service(service), Some(client)) => {
                let unknown = Replicas::Unknown("the replicas have not been listed yet".into());
                let (sender, receiver) = watch::channel(Arc::new(unknown));
                let own =
                    OwnName { name: self.replicas.name.clone(), address: self.replicas.address };
                let namespace = self.controller.control_plane_namespace.clone();
                let follow = follow_endpoints(client, namespace, service.clone(), own, sender);
                self.supervisor.spawn("replica discovery", follow);
                receiver
            }
        }
    }
}

/// Returns a function that describes what this replica is missing.
fn missing(readiness: &Readiness) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
    let readiness = readiness.clone();
    move || {
        let missing = readiness.missing();
        missing.iter().map(ToString::to_string).chain(readiness.remarks()).collect()
    }
}

/// The options of encoding that follow from `config`.
pub(super) fn encode_options(config: &ControllerConfig) -> EncodeOptions {
    EncodeOptions {
        connection_secure_header: config.follows_linkerd(Behaviour::ConnectionSecureHeader),
        matches_as_written: config.follows_linkerd(Behaviour::RouteMatches),
        without_addresses: config.follows_linkerd(Behaviour::PodAddresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, Settings, SourceSettings};
    use crate::run::program::reviews;
    use crate::run::supervisor::Supervisor;
    use crate::testing::refusing_client;
    use clap::Parser;

    fn asks_about_tokens(flags: &[&str]) -> bool {
        let command = ["policy-controller", "run"];
        let command = Cli::try_parse_from(command.iter().chain(flags)).unwrap().command;
        let Command::Run(args) = command else { panic!("another command") };
        let settings = Settings::try_from(*args).unwrap();
        let SourceSettings::Cluster(cluster) = &settings.source else { panic!("a directory") };
        let serving = Serving {
            reviewer: reviews(Some(cluster.as_ref())).then(refusing_client),
            controller: settings.controller,
            serve: settings.serve,
            auth: settings.auth,
            replicas: settings.replicas,
            outbound: settings.outbound,
            cluster_domain: settings.cluster_domain,
            client: Some(refusing_client()),
            supervisor: Supervisor::new().0,
        };
        serving.access().unwrap().reviewer.is_some()
    }

    #[tokio::test]
    async fn with_roles_alone_the_api_server_is_not_asked_about_tokens() {
        assert!(asks_about_tokens(&[]));
        assert!(!asks_about_tokens(&["--watch-namespace=a"]));
        assert!(!asks_about_tokens(&["--no-viewer-tokens"]));
    }
}
