//! Snapshot of a cluster.

use super::component_settings::{ControllerSettings, IssuerSettings};
use crate::cluster::pod_http::{PodRequestError, PodResponse};
use crate::diagnostics::access_review::Permission;
use crate::diagnostics::definitions::ServedKind;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::name;
use crate::diagnostics::release::Release;
use crate::diagnostics::server::Server;
use ipnet::IpNet;
use serde_json::Value;
use std::time::SystemTime;

/// Everything that the checks evaluate.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The namespace of the control plane.
    pub(super) home: String,
    /// The API server.
    pub(super) server: Server,
    /// Time of this machine.
    pub(super) local: SystemTime,
    /// The kinds that are served.
    pub(super) kinds: Vec<ServedKind>,
    /// The definitions of the chart's kinds, and Helm's releases of Linkerd's.
    pub(super) definitions: FetchResult<Vec<Value>>,
    pub(super) linkerd_releases: FetchResult<Vec<Value>>,
    /// The pods of the controller and of the issuer.
    pub(super) controllers: FetchResult<Vec<Value>>,
    pub(super) issuers: FetchResult<Vec<Value>>,
    /// The Deployments of the control plane's namespace.
    pub(super) deployments: FetchResult<Vec<Value>>,
    /// Settings of controller and issuer, or why they are unknown.
    pub(super) controller: Result<ControllerSettings, String>,
    pub(super) issuer: Result<IssuerSettings, String>,
    /// State that each replica reports, by pod.
    pub(super) replicas: Vec<(String, Result<PodResponse, PodRequestError>)>,
    /// The Lease.
    pub(super) lease: FetchResult<Option<Value>>,
    /// Missing permissions by service account.
    pub(super) accounts: Vec<(String, FetchResult<Vec<Permission>>)>,
    /// The expected webhook configurations.
    pub(super) webhooks: Vec<WebhookConfiguration>,
    /// The Secret with the webhooks' certificate; `None`: the operator supplies the certificate.
    pub(super) secret: Option<FetchResult<Option<Value>>>,
    /// Response of the API server to an object that the webhook rejects, or why it was not sent;
    /// `None` if no webhook is served.
    pub(super) refusal: Option<FetchResult<ProbeResponse>>,
    /// The ConfigMap of the roots in the control plane's namespace, and everywhere.
    pub(super) roots: FetchResult<Option<Value>>,
    pub(super) all_roots: FetchResult<Vec<Value>>,
    /// The selected namespaces.
    pub(super) namespaces: FetchResult<Vec<Value>>,
    /// The pods of these namespaces.
    pub(super) pods: FetchResult<Vec<Value>>,
    /// Events about pods that could not be created, and about others that could.
    pub(super) refused: FetchResult<Vec<Value>>,
    pub(super) created: FetchResult<Vec<Value>>,
}

/// An expected webhook configuration.
#[derive(Clone, Debug)]
pub(super) struct WebhookConfiguration {
    /// Name in `kubectl`'s format.
    pub(super) name: String,
    /// Names of its webhooks.
    pub(super) webhooks: Vec<String>,
    /// The object in the cluster.
    pub(super) found: FetchResult<Option<Value>>,
}

/// Response to an object that was sent with `dryRun=All`, so that it was not persisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeResponse {
    /// The namespace.
    pub(super) namespace: String,
    /// HTTP status, 0 without a response.
    pub(super) status: u16,
    /// The message.
    pub(super) message: String,
}

impl Snapshot {
    /// True if an issuer of this project is expected.
    pub(super) fn has_issuer(&self) -> bool {
        !self.controller.as_ref().is_ok_and(|settings| settings.external)
    }

    /// True if an injector of this project is expected.
    pub(super) fn has_injector(&self) -> bool {
        !self.controller.as_ref().is_ok_and(|settings| settings.injector.is_none())
    }

    /// The injector, as the controller's flags have it.
    pub(super) fn injector(&self) -> InstalledInjector<'_> {
        let reads_linkerd = self.controller.as_ref().is_ok_and(|settings| settings.reads_linkerd);
        InstalledInjector { home: &self.home, reads_linkerd }
    }

    /// The release of Helm that has the controller; without one, that of the documentation.
    pub(super) fn release(&self) -> Release<'_> {
        let known = self.deployments.as_deref().unwrap_or_default().iter();
        let mut owners = known.filter(|it| name(it) == "policy-controller").filter_map(Release::of);
        owners.next().unwrap_or(Release { name: "portcullis", namespace: &self.home })
    }

    /// The networks whose addresses sidecars look up; `None`: no address is. Of a controller whose settings
    /// are unknown, the defaults.
    pub(super) fn looked_up_networks(&self) -> Option<Vec<IpNet>> {
        match &self.controller {
            Ok(settings) => settings.looked_up.clone(),
            Err(_) => ControllerSettings::default().looked_up,
        }
    }

    /// Time by the API server's clock, which its Leases and Events use.
    pub(super) fn now(&self) -> SystemTime {
        self.server.date.unwrap_or(self.local)
    }
}
