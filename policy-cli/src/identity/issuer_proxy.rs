//! Proxy to the issuer: a listener on loopback that forwards each connection over TLS.
//!
//! The issuer client is the one of sidecars, which connects to an address. An issuer behind a
//! port-forward has no address, so this provides one. The server is verified here: the client
//! speaks plaintext on loopback, and whatever leaves this process is TLS to the issuer's identity.

use crate::cluster::api_error::explain;
use crate::cluster::controller::{is_ready, pods};
use crate::cluster::settings::issuer_args;
use crate::cluster::{Cluster, port_forward};
use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use policy_core::Identity;
use policy_tls::identity::anonymous_client;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Route to the issuer.
#[derive(Clone)]
pub(crate) enum IssuerRoute {
    /// At an address, `HOST:PORT`.
    Address(String),
    /// Through a port-forward to one of its pods.
    Forward(Box<IssuerPods>),
}

/// The issuer's pods, listed anew for each connection, because they change.
#[derive(Clone)]
pub(crate) struct IssuerPods {
    /// Their cluster.
    pub(crate) cluster: Cluster,
    /// Their namespace.
    pub(crate) namespace: Arc<str>,
    /// Their labels.
    pub(crate) selector: String,
}

impl IssuerPods {
    /// Returns the name and port of one of the pods, preferring a ready one.
    ///
    /// # Errors
    /// There is none, or listing pods is forbidden. The message names the flags that change it.
    pub(crate) async fn find(&self) -> anyhow::Result<(String, u16)> {
        let Self { cluster, namespace, selector } = self;
        let all = pods(cluster, namespace, selector).await;
        let mut all =
            all.map_err(|error| explain(&error, &cluster.source, "look for the issuer"))?;
        all.sort_by_key(|pod| !is_ready(pod));
        let pod = all.first().ok_or_else(|| {
            anyhow!(
                "no pod with the labels {selector} was found in namespace {namespace}; \
                 --controller-namespace and --issuer-selector say where else, --issuer names an \
                 address"
            )
        })?;
        let port = issuer_args(pod).map_or(ISSUER_PORT, |args| args.grpc_addr.port());
        let name = pod.pointer("/metadata/name").and_then(Value::as_str);
        Ok((name.context("the issuer's pod has no name")?.to_owned(), port))
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client.clone(), &self.namespace)
    }
}

/// Default port of the issuer.
const ISSUER_PORT: u16 = 8080;

/// Expected identity of the server, and the roots that verify it.
pub(crate) struct ExpectedIssuer {
    /// The issuer's identity, a DNS name.
    pub(crate) name: String,
    /// The roots of the mesh.
    pub(crate) roots: Vec<CertificateDer<'static>>,
}

/// The listener. Dropping it closes it.
pub(crate) struct IssuerProxy {
    address: SocketAddr,
    failure: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl Drop for IssuerProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl IssuerProxy {
    /// Listens on loopback.
    ///
    /// # Errors
    /// No port is available, or the expected identity is invalid.
    pub(crate) async fn open(route: IssuerRoute, expected: ExpectedIssuer) -> anyhow::Result<Self> {
        let ExpectedIssuer { name, roots } = expected;
        let mut config = anonymous_client(roots, Identity::Dns(name.as_str().into()))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let server = ServerName::try_from(name)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let failure = Arc::new(Mutex::new(None));
        let forwarder =
            Forwarder { route, tls: Arc::new(config), server, failure: Arc::clone(&failure) };
        let task = tokio::spawn(forwarder.serve(listener));
        Ok(Self { address, failure, task })
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Error of the last connection to the issuer.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Clone)]
struct Forwarder {
    route: IssuerRoute,
    tls: Arc<ClientConfig>,
    server: ServerName<'static>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Forwarder {
    async fn serve(self, listener: TcpListener) {
        while let Ok((local, _)) = listener.accept().await {
            let forwarder = self.clone();
            tokio::spawn(async move {
                let failed = forwarder.forward(local).await.err().map(|error| error.to_string());
                *forwarder.failure.lock().unwrap_or_else(PoisonError::into_inner) = failed;
            });
        }
    }

    /// Forwards one connection until either side closes it.
    async fn forward(&self, mut local: TcpStream) -> io::Result<()> {
        let (tls, server) = (Arc::clone(&self.tls), self.server.clone());
        // Once the connection is established, the client reports its errors.
        match &self.route {
            IssuerRoute::Address(address) => {
                let remote = TcpStream::connect(address.as_str()).await?;
                let mut remote = TlsConnector::from(tls).connect(server, remote).await?;
                let _ = copy_bidirectional(&mut local, &mut remote).await;
            }
            IssuerRoute::Forward(pods) => {
                let found = pods.find().await;
                let (pod, port) = found.map_err(|error| io::Error::other(format!("{error:#}")))?;
                let mut remote = port_forward::tls(&pods.api(), &pod, port, tls, server).await?;
                let _ = copy_bidirectional(&mut local, &mut remote).await;
            }
        }
        Ok(())
    }
}
