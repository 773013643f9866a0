//! Connection to a controller's gRPC port: in plaintext to one on this machine, or through a
//! port-forward to a pod, with TLS to the controller's identity and a viewer's token.

use super::Cluster;
use super::api_error::{explain, is_forbidden, is_not_found, message};
use super::controller::{ControllerPod, PodFlags, find};
use super::port_forward;
use super::roots::roots;
use super::settings::controller_settings;
use super::token;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use policy_controller::args::AUDIENCE;
use policy_core::Identity;
use policy_tls::identity::anonymous_client;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::io;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

/// Lifetime of the token in seconds, the shortest that the API server issues.
const TOKEN_SECONDS: i64 = 600;

/// Timeout of a connection attempt.
const PATIENCE: Duration = Duration::from_secs(10);

/// Flags that select a controller.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Controller")]
pub(crate) struct ControllerFlags {
    /// A controller on this machine, in plaintext, instead of the one in a cluster
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["kubeconfig", "context", "user"])]
    pub(crate) controller: Option<String>,

    #[command(flatten)]
    pub(crate) pod: PodFlags,

    /// Port of the controller's pod [default: that of its --grpc-addr; 8090]
    #[arg(long, value_name = "PORT")]
    controller_port: Option<NonZeroU16>,

    /// The identity that the controller has to prove [default: that of its pod's ServiceAccount]
    #[arg(long, value_name = "NAME")]
    controller_identity: Option<String>,

    /// Roots of the mesh, PEM [default: those of the ConfigMap portcullis-identity-trust-roots in the
    /// controller's namespace, or of linkerd-identity-trust-roots]
    #[arg(long, value_name = "FILE")]
    trust_roots: Option<PathBuf>,

    /// ServiceAccount in the controller's namespace whose token, valid for ten minutes, authorizes you
    /// to read
    #[arg(long, value_name = "NAME", default_value = "portcullis-viewer")]
    viewer: String,
}

/// A channel that sends a bearer token, if there is one.
pub(crate) type AuthorizedChannel = InterceptedService<Channel, BearerToken>;

/// A connection to a controller.
#[derive(Debug)]
pub(crate) struct ControllerConnection {
    /// The channel.
    pub(crate) channel: AuthorizedChannel,
    /// Description of the controller for output.
    pub(crate) to: String,
}

/// Adds a token to every call.
#[derive(Clone, Debug)]
pub(crate) struct BearerToken(Option<MetadataValue<Ascii>>);

impl Interceptor for BearerToken {
    fn call(
        &mut self,
        mut request: tonic::Request<()>,
    ) -> Result<tonic::Request<()>, tonic::Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Connects in plaintext to a controller on this machine.
///
/// # Errors
/// It is not an address of this machine, or the connection is refused.
pub(crate) async fn connect_local(address: &str) -> anyhow::Result<ControllerConnection> {
    let found = tokio::net::lookup_host(address).await;
    let mut found = found
        .with_context(|| format!("--controller: `{address}` is not ADDRESS:PORT"))?
        .map(|address| address.ip());
    // Plaintext proves neither the server's identity nor integrity, so it is limited to loopback.
    if let Some(other) = found.find(|ip| !ip.to_canonical().is_loopback()) {
        bail!(
            "--controller: `{address}` is {other}, which is not on loopback (127.0.0.0/8, ::1); \
             plaintext is limited to a controller on this machine, or one behind a \
             `kubectl port-forward`"
        );
    }
    let channel = Endpoint::try_from(format!("http://{address}"))
        .with_context(|| format!("--controller: `{address}` is not an address"))?
        .connect_timeout(PATIENCE)
        .connect()
        .await
        .with_context(|| format!("cannot connect to the controller at `{address}`"))?;
    let to = format!("controller at {address}");
    Ok(ControllerConnection { channel: InterceptedService::new(channel, BearerToken(None)), to })
}

/// Connects to the controller of a cluster.
///
/// # Errors
/// The first step that fails: finding a pod, reading the roots, requesting a token, the
/// port-forward, or the TLS handshake. Each message contains what is missing and the flag that
/// changes it.
pub(crate) async fn connect_in_cluster(
    cluster: &Cluster,
    flags: &ControllerFlags,
) -> anyhow::Result<ControllerConnection> {
    let found = find(cluster, &flags.pod).await?;
    connect_to(cluster, flags, found).await
}

/// Connects to a pod of the controller.
///
/// # Errors
/// As of [`connect_in_cluster`], from the roots on.
pub(crate) async fn connect_to(
    cluster: &Cluster,
    flags: &ControllerFlags,
    found: ControllerPod,
) -> anyhow::Result<ControllerConnection> {
    let settings = controller_settings(&found).ok();
    let identity = identity(flags, &found, settings.as_ref().map(|settings| &settings.controller));
    let port = flags.controller_port.map_or_else(
        || settings.map_or(8090, |settings| settings.serve.listen.port()),
        NonZeroU16::get,
    );
    let roots =
        roots(cluster, &flags.pod.controller_namespace, flags.trust_roots.as_deref()).await?;
    let token = request_token(cluster, flags).await?;
    let tls = tls_config(roots, &identity)?;
    let name = server_name(&identity, &found)?;
    let (pods, pod) = (Api::<Pod>::namespaced(cluster.client.clone(), &found.namespace), found);
    let to = format!("controller {}/{}", pod.namespace, pod.name);
    let connector = tower::service_fn(move |_| {
        let (pods, pod, tls, name) = (pods.clone(), pod.name.clone(), tls.clone(), name.clone());
        async move {
            let attempt = port_forward::tls(&pods, &pod, port, tls, name);
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no response within 10 s");
            tokio::time::timeout(PATIENCE, attempt).await.map_err(late)?.map(TokioIo::new)
        }
    });
    let channel = Endpoint::from_static("http://controller")
        .connect_with_connector(connector)
        .await
        .map_err(|error| {
            anyhow!("cannot connect to {to}, port {port}: {}", super::error_chain(&error))
        })?;
    Ok(ControllerConnection {
        channel: InterceptedService::new(channel, BearerToken(Some(token))),
        to,
    })
}

/// Identity that the controller has to prove.
fn identity(
    flags: &ControllerFlags,
    found: &ControllerPod,
    config: Option<&policy_engine::ControllerConfig>,
) -> Identity {
    let own = flags.controller_identity.as_deref();
    let name: Arc<str> = match (own, config) {
        (Some(name), _) => name.into(),
        (None, Some(config)) => {
            config.service_account_identity(&found.namespace, &found.service_account)
        }
        (None, None) => policy_engine::ControllerConfig::default()
            .service_account_identity(&found.namespace, &found.service_account),
    };
    if name.starts_with("spiffe://") { Identity::Spiffe(name) } else { Identity::Dns(name) }
}

/// Name for SNI, which is not verified.
fn server_name(identity: &Identity, found: &ControllerPod) -> anyhow::Result<ServerName<'static>> {
    let name = match identity {
        Identity::Dns(name) => name.to_string(),
        Identity::Spiffe(_) => format!("{}.{}", found.service_account, found.namespace),
    };
    ServerName::try_from(name.clone())
        .with_context(|| format!("--controller-identity: `{name}` is not a name"))
}

fn tls_config(
    roots: Vec<CertificateDer<'static>>,
    identity: &Identity,
) -> anyhow::Result<Arc<ClientConfig>> {
    let mut config = anonymous_client(roots, identity.clone())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Requests a token of the viewer, with the audience of this project's controllers.
async fn request_token(
    cluster: &Cluster,
    flags: &ControllerFlags,
) -> anyhow::Result<MetadataValue<Ascii>> {
    let namespace = &flags.pod.controller_namespace;
    let viewer = &flags.viewer;
    let answer = token::request(cluster, (namespace, viewer), AUDIENCE, TOKEN_SECONDS).await;
    let token = match answer {
        Ok(token) => token,
        Err(error) if is_not_found(&error) => bail!(
            "there is no ServiceAccount {namespace}/{viewer} whose token could be shown; \
             --viewer and --controller-namespace name another"
        ),
        Err(error) if is_forbidden(&error) => bail!(
            "cannot create a token of ServiceAccount {namespace}/{viewer}: {}. It needs in namespace \
             {namespace}: {{apiGroups: [\"\"], resources: [serviceaccounts/token], resourceNames: \
             [{viewer}], verbs: [create]}}",
            message(&error)
        ),
        Err(error) => return Err(explain(&error, &cluster.source, "create a token")),
    };
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {token}").parse().context("the API server's token is no header value")?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
