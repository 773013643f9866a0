//! Connections to the admin port of a sidecar.

use crate::cluster::{Cluster, port_forward};
use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Admin port of a sidecar.
const ADMIN: u16 = 4191;

/// A sidecar that is asked.
#[derive(Clone)]
pub(crate) enum SidecarAdmin {
    /// The sidecar of a pod, through a port-forward.
    Pod {
        /// Its cluster.
        client: kube::Client,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The admin port at an address.
    Address(SocketAddr),
}

/// Bytes of a connection, whatever carries them.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl SidecarAdmin {
    /// The sidecar of a pod.
    pub(crate) fn pod(cluster: &Cluster, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self::Pod { client: cluster.client.clone(), namespace, name }
    }

    /// The name by which rows and messages have it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Pod { namespace, name, .. } => format!("{namespace}/{name}"),
            Self::Address(address) => address.to_string(),
        }
    }

    /// The workload of whose sidecar an answer must be, as `namespace/name`; of an address any.
    pub(crate) fn workload(&self) -> Option<String> {
        match self {
            Self::Pod { .. } => Some(self.name()),
            Self::Address(_) => None,
        }
    }

    /// Connects to the admin port.
    ///
    /// # Errors
    /// The API server refuses the port-forward, or nothing answers at the address.
    pub(crate) async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        match self {
            Self::Pod { client, namespace, name } => {
                let pods = Api::<Pod>::namespaced(client.clone(), namespace);
                Ok(Box::new(port_forward::plain(&pods, name, ADMIN).await?))
            }
            Self::Address(address) => {
                let connected = TcpStream::connect(address).await;
                Ok(Box::new(connected.with_context(|| format!("cannot connect to {address}"))?))
            }
        }
    }
}
