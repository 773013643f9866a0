//! Assembly of the issuer.

use super::ca_context::{AuthorityEvents, CaContext};
use super::ca_manager::{CaManager, CaSource, SecretManager};
use super::config::{AuthoritySettings, IssuerConfig, SERVICE_ACCOUNT};
use super::files::FileManager;
use super::message::{MAX_MESSAGE, Messages};
use super::metrics::IssuerMetrics;
use super::propagation::Propagation;
use super::roots::Roots;
use super::serve::{CONNECTIONS, Port};
use super::service::Certifier;
use super::serving_cert::ServingCertificate;
use super::signer::Signer;
use super::token::Tokens;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use policy_enforce::PolicyLayer;
use policy_kube::lease;
use policy_kube::status::{EventRecorder, EventWriter};
use policy_proto::linkerd::identity::identity_server::IdentityServer;
use policy_server::Limit;
use policy_server::Requirement;
use policy_server::log::ClientLines;
use policy_server::{SharedCapacity, TlsHandle, TlsMetrics};
use std::sync::Arc;
use tonic::service::Routes;

/// The issuer before it is started.
pub struct Issuer {
    ca_manager: CaManager,
    roots: Roots,
    certifier: Certifier,
    messages: Arc<Messages>,
    events: EventWriter,
    tls: TlsHandle,
    metrics: IssuerMetrics,
    tls_metrics: TlsMetrics,
    event_metrics: policy_kube::status::EventMetrics,
}

/// The tasks to run.
pub struct Parts {
    /// Manages the authority.
    pub ca_manager: CaManager,
    /// Watches the namespaces that the roots are published in.
    pub roots: Roots,
    /// Writes Events.
    pub events: EventWriter,
    /// Serves requests for certificates.
    pub port: Port,
}

impl Issuer {
    /// Creates the parts. Sends nothing yet; files are read once.
    ///
    /// # Errors
    /// Why a supplied authority cannot be used.
    pub async fn new(
        settings: &IssuerConfig,
        client: Client,
        ready: Requirement,
    ) -> Result<Self, String> {
        let (signer, metrics) = (Signer::default(), IssuerMetrics::default());
        let tls_metrics = TlsMetrics::default();
        let tls = TlsHandle::empty(&tls_metrics);
        let home = &*settings.controller.control_plane_namespace;
        let name = &settings.roots_configmap;
        let roots = Roots::new(client.clone(), name, home, settings.roots_to.clone());
        let controller = Arc::from(SERVICE_ACCOUNT);
        let (events, writer) = EventRecorder::new(client.clone(), controller, lease::identity());
        let event_metrics = events.metrics();
        let lifetime = settings.rotation.certificates;
        let serving_cert = ServingCertificate::new(
            settings.identity.clone(),
            lifetime,
            signer.clone(),
            tls.clone(),
        );
        let context = CaContext {
            roots: roots.clone(),
            signer: signer.clone(),
            serving_cert,
            metrics: metrics.clone(),
            events: AuthorityEvents { events: Some(events), regarding: regarding(settings) },
            ready,
            propagation: Propagation::default(),
            left_out: 0,
        };
        let from = match &settings.authority {
            AuthoritySettings::Secret(provision) => {
                CaSource::Secret(Box::new(SecretManager::new(client.clone(), provision.clone())))
            }
            AuthoritySettings::Files(files) => {
                files.read().await.map_err(|error| error.to_string())?;
                CaSource::Files(Box::new(FileManager::new(files.clone(), settings.rotation)))
            }
        };
        let certifier = Certifier {
            config: settings.controller.clone(),
            lifetime,
            tokens: Tokens::new(&client, &settings.audiences),
            signer,
            limit: Limit::new(settings.rate),
            turns: Certifier::turns(),
            timeout: settings.request_timeout,
            lines: ClientLines::default(),
            metrics: metrics.clone(),
        };
        Ok(Self {
            ca_manager: CaManager { from, context },
            roots,
            certifier,
            messages: Arc::new(Messages::new(settings.rate)),
            events: writer,
            tls,
            metrics,
            tls_metrics,
            event_metrics,
        })
    }

    /// Adds its metrics to `registry`.
    pub fn register(&self, registry: &mut prometheus_client::registry::Registry) {
        self.metrics.register(registry);
        self.tls_metrics.register(registry);
        self.event_metrics.register(registry);
    }

    /// Returns the TLS credentials of its ports.
    pub fn tls(&self) -> TlsHandle {
        self.tls.clone()
    }

    /// Returns the tasks to run, with the port behind `guard`.
    pub fn guarded_by(self, guard: PolicyLayer) -> Parts {
        let Self { ca_manager, roots, certifier, messages, events, tls, metrics, .. } = self;
        let server = IdentityServer::new(certifier).max_decoding_message_size(MAX_MESSAGE);
        let routes = Routes::new(server);
        let connections = SharedCapacity::new(CONNECTIONS);
        let port = Port { routes, tls, guard, connections, messages, metrics };
        Parts { ca_manager, roots, events, port }
    }
}

/// Returns the object that Events refer to: the Secret of the authority, or the ConfigMap of its
/// roots.
fn regarding(settings: &IssuerConfig) -> ObjectReference {
    let (kind, name) = match &settings.authority {
        AuthoritySettings::Secret(provision) => ("Secret", &provision.secret),
        AuthoritySettings::Files(_) => ("ConfigMap", &settings.roots_configmap),
    };
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(settings.controller.control_plane_namespace.to_string()),
        name: Some(name.clone()),
        ..ObjectReference::default()
    }
}
