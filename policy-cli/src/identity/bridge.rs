//! A port of this machine that leads to the issuer of a cluster.

use crate::cluster::{Cluster, forward};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use policy_core::Identity;
use policy_tls::identity::anonymous_client;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Carries connections from loopback to a pod of the issuer, through a port-forward, in TLS to the
/// issuer's identity; ends when it is dropped. Programs of this machine could use it meanwhile as they
/// could the issuer itself, which certifies nobody without a token.
#[derive(Debug)]
pub(crate) struct Bridge {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

/// Where the bridge leads.
#[derive(Clone)]
struct End {
    pods: Api<Pod>,
    pod: String,
    port: u16,
    tls: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Bridge {
    /// A bridge to a pod, whose issuer has to prove `identity` under `roots`.
    ///
    /// # Errors
    /// No port can be had, or `identity` is no name.
    pub(crate) async fn open(
        cluster: &Cluster,
        (namespace, pod, port): (&str, &str, u16),
        identity: &str,
        roots: Vec<CertificateDer<'static>>,
    ) -> anyhow::Result<Self> {
        let name = ServerName::try_from(identity.to_owned())
            .with_context(|| format!("--issuer-name: `{identity}` is not a name"))?;
        let mut tls = anonymous_client(roots, Identity::Dns(identity.into()))?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let pods = Api::namespaced(cluster.client.clone(), namespace);
        let end = End { pods, pod: pod.to_owned(), port, tls: Arc::new(tls), name };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = AbortOnDropHandle::new(tokio::spawn(serve(listener, end)));
        Ok(Self { address, _task: task })
    }

    /// Where connections are taken.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, end: End) {
    while let Ok((near, _)) = listener.accept().await {
        tokio::spawn(carry(near, end.clone()));
    }
}

async fn carry(mut near: TcpStream, end: End) {
    let End { pods, pod, port, tls, name } = end;
    match forward::tls(&pods, &pod, port, tls, name).await {
        // Either side ends a connection as it likes; its call says what became of it.
        Ok(mut far) => drop(tokio::io::copy_bidirectional(&mut near, &mut far).await),
        Err(error) => tracing::error!("the issuer's pod {pod}, port {port}: {error}"),
    }
}
