//! The gRPC server with all it is told: who may watch, what is counted, on which ports.

use super::{RunError, encode_options};
use crate::access::ServeAuth;
use crate::admin::{self, Admin, Readiness};
use crate::config::ControllerConfig;
use crate::programmed::{self, ClusterOverview, Counting, CountingConfig};
use crate::publish::Policies;
use crate::replicas::{OwnName, ReplicaSettings, Replicas, Whom, follow_endpoints};
use crate::run::index::Handles;
use crate::serve::{Listening, ReportConfig, ServeConfig, Server, Stale, TlsHandle, Transport};
use kube::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;

/// What serving needs of the settings.
pub(super) struct Serving {
    pub(super) controller: ControllerConfig,
    pub(super) serve: ServeConfig,
    pub(super) auth: ServeAuth,
    pub(super) replicas: ReplicaSettings,
}

/// The server and where it listens.
pub(super) struct Opened {
    pub(super) server: Server,
    pub(super) listeners: Vec<Listening>,
    pub(super) counting: Counting,
    pub(super) tls: Option<TlsHandle>,
}

impl Serving {
    /// Opens the ports and makes the server. `client` is there with a cluster.
    pub(super) async fn open(
        self,
        handles: &mut Handles,
        stale: watch::Receiver<Stale>,
        client: Option<Client>,
        admin: &Admin,
    ) -> Result<Opened, RunError> {
        let access = self.auth.access(&self.controller, client.clone())?;
        let options = encode_options(&self.controller);
        let policies: Policies = handles.policies.clone();
        let server =
            Server::with_access(policies, self.serve.clone(), options, access, Some(stale));
        admin.register(|registry| server.metrics().register(registry));
        let (listeners, tls) = self.listeners(&server).await?;
        let namespace = self.controller.control_plane_namespace.clone();
        let known = self.replicas(namespace, client);
        let demand = handles.demand.take().ok_or(RunError::IndexEnded)?;
        let config = CountingConfig {
            timeout: self.replicas.timeout,
            ..CountingConfig::new(&self.replicas.name)
        };
        let counting = programmed::start(config, demand, server.applied(), known, tls.clone());
        admin.register(|registry| counting.metrics().register(registry));
        let overview = ClusterOverview::new(
            handles.conditions.clone(),
            Some(counting.clone()),
            missing(admin.readiness()),
        );
        let report = ReportConfig {
            replica: self.replicas.name.clone(),
            overviews: Some(Arc::new(overview)),
        };
        Ok(Opened { server: server.reporting(report), listeners, counting, tls })
    }

    /// The listeners, and the credentials that replicas are asked with.
    async fn listeners(
        &self,
        server: &Server,
    ) -> Result<(Vec<Listening>, Option<TlsHandle>), RunError> {
        let listener = admin::bind("gRPC", self.auth.grpc).await?;
        let mut listeners = Vec::new();
        let mut credentials = None;
        let transport = match &self.auth.tls {
            Some(files) => {
                let tls = server.load_tls(files.clone()).await?;
                tokio::spawn(tls.clone().follow());
                credentials = Some(tls.clone());
                Transport::Tls(tls)
            }
            None => Transport::Plaintext,
        };
        listeners.push(Listening { listener, transport });
        if let Some(address) = self.auth.plaintext {
            let listener = admin::bind("gRPC in plaintext", address).await?;
            tracing::info!(plaintext = %listener.local_addr()?, "listening");
            listeners.push(Listening { listener, transport: Transport::Plaintext });
        }
        Ok((listeners, credentials))
    }

    /// Which other replicas there are, now and later.
    fn replicas(
        &self,
        namespace: Arc<str>,
        client: Option<Client>,
    ) -> watch::Receiver<Arc<Replicas>> {
        let fixed = |peers| watch::channel(Arc::new(Replicas::Known(peers))).1;
        match (&self.replicas.whom, client) {
            (Whom::Peers(peers), _) => fixed(peers.clone()),
            (Whom::Nobody, _) | (Whom::Service(_), None) => fixed(BTreeSet::new()),
            (Whom::Service(service), Some(client)) => {
                let unknown = Replicas::Unknown("the replicas have not been listed yet".into());
                let (sender, receiver) = watch::channel(Arc::new(unknown));
                let own =
                    OwnName { name: self.replicas.name.clone(), address: self.replicas.address };
                let follow = follow_endpoints(client, namespace, service.clone(), own, sender);
                tokio::spawn(follow);
                receiver
            }
        }
    }
}

/// What this replica is short of when somebody asks.
fn missing(readiness: &Readiness) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
    let readiness = readiness.clone();
    move || readiness.missing().iter().map(ToString::to_string).collect()
}
