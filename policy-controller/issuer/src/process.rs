//! The parts of the issuer, put together.

use super::config::{AuthoritySettings, IssuerConfig, SERVICE_ACCOUNT};
use super::files::Files;
use super::keeper::{Keeper, Origin, SecretKeeper};
use super::metrics::IssuerMetrics;
use super::own::OwnCertificate;
use super::roots::Roots;
use super::serve::Port;
use super::service::Certifier;
use super::shared::{Shared, Told};
use super::signer::Signer;
use super::spread::Spread;
use super::token::Tokens;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use policy_enforce::PolicyLayer;
use policy_kube::lease;
use policy_kube::status::{EventRecorder, EventWriter};
use policy_proto::linkerd::identity::identity_server::IdentityServer;
use policy_server::Limit;
use policy_server::Requirement;
use policy_server::{TlsHandle, TlsMetrics};
use std::sync::Arc;
use tonic::service::Routes;

/// The largest message that is read: a token, a request and a name.
const MAX_MESSAGE: usize = 32 * 1024;

/// The issuer, before it is started.
pub struct Issuer {
    keeper: Keeper,
    roots: Roots,
    certifier: Certifier,
    events: EventWriter,
    tls: TlsHandle,
    metrics: IssuerMetrics,
    tls_metrics: TlsMetrics,
    event_metrics: policy_kube::status::EventMetrics,
}

/// What has to be run.
pub struct Parts {
    /// Keeps the authority.
    pub keeper: Keeper,
    /// Follows the namespaces that the roots go to.
    pub roots: Roots,
    /// Writes Events.
    pub events: EventWriter,
    /// Where certificates are issued.
    pub port: Port,
}

impl Issuer {
    /// Makes the parts. Nothing is sent yet; files are read once.
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
        let own =
            OwnCertificate::new(settings.identity.clone(), lifetime, signer.clone(), tls.clone());
        let shared = Shared {
            roots: roots.clone(),
            signer: signer.clone(),
            own,
            metrics: metrics.clone(),
            told: Told { events: Some(events), regarding: regarding(settings) },
            ready,
            spread: Spread::default(),
            left_out: 0,
        };
        let from = match &settings.authority {
            AuthoritySettings::Secret(provision) => {
                Origin::Secret(Box::new(SecretKeeper::new(client.clone(), provision.clone())))
            }
            AuthoritySettings::Files(files) => {
                files.read().await.map_err(|error| error.to_string())?;
                Origin::Files(Box::new(Files::new(files.clone(), settings.rotation)))
            }
        };
        let certifier = Certifier {
            config: settings.controller.clone(),
            lifetime,
            tokens: Tokens::new(&client, &settings.audiences),
            signer,
            limit: Limit::new(settings.rate),
            patience: settings.request_timeout,
            metrics: metrics.clone(),
        };
        Ok(Self {
            keeper: Keeper { from, shared },
            roots,
            certifier,
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

    /// The credentials of its ports.
    pub fn tls(&self) -> TlsHandle {
        self.tls.clone()
    }

    /// What has to be run, the port behind `guard`.
    pub fn guarded_by(self, guard: PolicyLayer) -> Parts {
        let server = IdentityServer::new(self.certifier).max_decoding_message_size(MAX_MESSAGE);
        let port =
            Port { routes: Routes::new(server), tls: self.tls, guard, metrics: self.metrics };
        Parts { keeper: self.keeper, roots: self.roots, events: self.events, port }
    }
}

/// What Events are about: where the authority is kept, or where its roots are.
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
