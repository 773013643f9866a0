//! Reads the snapshot.

use super::accounts::{of_controller, of_issuer};
use super::component_settings::{self, ControllerSettings, IssuerSettings};
use super::probe_namespace::probe_namespace;
use super::snapshot::{ProbeResponse, Snapshot, WebhookConfiguration};
use super::webhook_probe;
use crate::cluster::controller::{ControlPlaneFlags, pods};
use crate::cluster::list::ApiResources;
use crate::cluster::pod_http::{PodRequestError, PodResponse, get as pod_get};
use crate::cluster::roots::ROOTS;
use crate::cluster::{Cluster, Scope};
use crate::diagnostics::access_review::{Permission, Subject, missing_permissions};
use crate::diagnostics::definition_owners::linkerd_releases;
use crate::diagnostics::definitions::installed as definitions;
use crate::diagnostics::fetch::{FetchError, FetchResult, get, list, select};
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::{name, text};
use crate::diagnostics::server;
use futures_util::future::join_all;
use policy_crds::Kind;
use policy_kube::names::BESIDE_CONFIGURATION;
use policy_webhooks::admission::{
    Installation, Target, cluster_webhook, configuration, outbound_webhook,
};
use policy_webhooks::injector::injector_configuration;
use policy_webhooks::linkerd_redirect;
use serde_json::Value;
use std::time::SystemTime;

/// Reads the snapshot.
///
/// # Errors
/// The API server cannot be reached. Whatever it forbids is recorded in the snapshot.
pub(crate) async fn read(cluster: &Cluster, flags: &ControlPlaneFlags) -> anyhow::Result<Snapshot> {
    let server = server::fetch(cluster).await?;
    let local = SystemTime::now();
    let served = ApiResources::discover(cluster).await?;
    let kinds = Kind::watched().filter(|kind| !kind.group().is_empty());
    let kinds = kinds.map(|kind| (kind, served.version(kind))).collect();
    let control_plane = ControlPlane::read(cluster, flags).await;
    let (run, issue) = control_plane.settings();
    let home = &control_plane.home;
    let (deployments, lease, secret) = control_plane_objects(cluster, home, &run).await;
    let (roots, all_roots) = roots(cluster, &control_plane, &issue).await;
    let webhooks = configurations(cluster, &run, home).await;
    let (namespaces, pods) = tokio::join!(namespaces(cluster), list_pods(cluster));
    let (refused, created) = tokio::join!(
        list_selected(cluster, "events", "reason=FailedCreate"),
        list_selected(cluster, "events", "reason=SuccessfulCreate"),
    );
    let components =
        [(&control_plane.controllers, run.admin), (&control_plane.issuers, issue.admin)];
    let replicas = replicas(cluster, components).await;
    let (definitions, linkerd_releases) =
        tokio::join!(definitions(cluster), linkerd_releases(&cluster.client));
    let accounts = accounts(cluster, &control_plane, (&run, &issue)).await;
    let refusal = match &run.webhook {
        Some(_) => Some(refusal(cluster, &namespaces, &run, home).await),
        None => None,
    };
    let ControlPlane { home, controllers, issuers, controller, issuer } = control_plane;
    Ok(Snapshot {
        home,
        server,
        local,
        kinds,
        definitions,
        linkerd_releases,
        controllers,
        issuers,
        deployments,
        controller,
        issuer,
        replicas,
        lease,
        accounts,
        webhooks,
        secret,
        refusal,
        roots,
        all_roots,
        namespaces,
        pods,
        refused,
        created,
    })
}

/// The control plane and its settings.
struct ControlPlane {
    home: String,
    controllers: FetchResult<Vec<Value>>,
    issuers: FetchResult<Vec<Value>>,
    controller: Result<ControllerSettings, String>,
    issuer: Result<IssuerSettings, String>,
}

impl ControlPlane {
    async fn read(cluster: &Cluster, flags: &ControlPlaneFlags) -> Self {
        let home = flags.pod.controller_namespace.to_string();
        let controllers = component(cluster, &home, &flags.pod.controller_selector).await;
        let issuers = component(cluster, &home, &flags.issuer_selector).await;
        let controller =
            component_settings::controller(&home, controllers.as_deref().unwrap_or_default());
        let issuer = component_settings::issuer(issuers.as_deref().unwrap_or_default());
        Self { home, controllers, issuers, controller, issuer }
    }

    /// Settings of both, or the chart's defaults if they are unknown.
    fn settings(&self) -> (ControllerSettings, IssuerSettings) {
        let (controller, issuer) = (self.controller.clone(), self.issuer.clone());
        (controller.unwrap_or_default(), issuer.unwrap_or_default())
    }
}

/// Reads the Deployments, the Lease, and the Secret of the webhooks' certificate if there is one.
async fn control_plane_objects(
    cluster: &Cluster,
    home: &str,
    settings: &ControllerSettings,
) -> (FetchResult<Vec<Value>>, FetchResult<Option<Value>>, Option<FetchResult<Option<Value>>>) {
    let client = &cluster.client;
    let deployments = format!("/apis/apps/v1/namespaces/{home}/deployments");
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{home}/leases");
    let secrets = format!("/api/v1/namespaces/{home}/secrets");
    let (deployments, lease) =
        tokio::join!(list(client, &deployments), get(client, &leases, &settings.lease));
    let secret = match &settings.secret {
        Some(secret) => Some(get(client, &secrets, secret).await),
        None => None,
    };
    (deployments, lease, secret)
}

/// Reads the ConfigMap of the roots in the control plane's namespace, and everywhere. With another
/// certificate service, the controller's flags name the ConfigMap.
async fn roots(
    cluster: &Cluster,
    control_plane: &ControlPlane,
    issue: &IssuerSettings,
) -> (FetchResult<Option<Value>>, FetchResult<Vec<Value>>) {
    let external = control_plane.controller.as_ref().ok().filter(|settings| settings.external);
    let [_, theirs] = ROOTS;
    let map = match external {
        Some(settings) => settings.roots.as_deref().unwrap_or(theirs),
        None => &issue.roots,
    };
    let maps = format!("/api/v1/namespaces/{}/configmaps", control_plane.home);
    let named = format!("metadata.name={map}");
    tokio::join!(get(&cluster.client, &maps, map), list_selected(cluster, "configmaps", &named))
}

/// Lists the pods of a component of the control plane.
async fn component(cluster: &Cluster, home: &str, selector: &str) -> FetchResult<Vec<Value>> {
    let path = format!("/api/v1/namespaces/{home}/pods");
    pods(cluster, home, selector)
        .await
        .map_err(|error| FetchError::new(&error, "list", &path, None))
}

/// Lists the selected namespaces.
async fn namespaces(cluster: &Cluster) -> FetchResult<Vec<Value>> {
    match &cluster.scope {
        Scope::All => list(&cluster.client, "/api/v1/namespaces").await,
        Scope::Namespace(name) => {
            let found = get(&cluster.client, "/api/v1/namespaces", name).await?;
            Ok(found.into_iter().collect())
        }
    }
}

/// API path of a core resource in the selected namespaces.
fn path(cluster: &Cluster, resource: &str) -> String {
    match &cluster.scope {
        Scope::All => format!("/api/v1/{resource}"),
        Scope::Namespace(name) => format!("/api/v1/namespaces/{name}/{resource}"),
    }
}

/// Lists the pods of these namespaces.
async fn list_pods(cluster: &Cluster) -> FetchResult<Vec<Value>> {
    list(&cluster.client, &path(cluster, "pods")).await
}

/// Lists objects of these namespaces with a field selector.
async fn list_selected(cluster: &Cluster, resource: &str, fields: &str) -> FetchResult<Vec<Value>> {
    select(&cluster.client, &path(cluster, resource), fields).await
}

/// Webhook configurations that a controller with these settings has.
async fn configurations(
    cluster: &Cluster,
    settings: &ControllerSettings,
    home: &str,
) -> Vec<WebhookConfiguration> {
    let installation = |name: &str| Installation {
        name: name.to_owned(),
        namespace: home.to_owned(),
        target: Target::Url(String::new()),
        ca_bundle: None,
    };
    let mut wanted: Vec<(&str, String, Vec<String>)> = Vec::new();
    if let Some(name) = &settings.webhook {
        let mut webhooks = configuration(&installation(name)).webhooks.unwrap_or_default();
        // Objects of the cluster are not read where some namespaces alone are watched.
        let whole = settings.watched.is_none();
        webhooks.extend(whole.then(|| cluster_webhook(&installation(name))));
        webhooks.extend(settings.outbound.then(|| outbound_webhook(&installation(name))));
        let webhooks = webhooks.into_iter().map(|webhook| webhook.name).collect();
        wanted.push(("validating", name.clone(), webhooks));
    }
    if let Some(name) = &settings.injector {
        let configuration = injector_configuration(&installation(name), settings.reads_linkerd);
        let webhooks = configuration.webhooks.unwrap_or_default();
        let webhooks = webhooks.into_iter().map(|webhook| webhook.name).collect();
        wanted.push(("mutating", name.clone(), webhooks));
    }
    if settings.beside {
        let name = BESIDE_CONFIGURATION;
        let webhooks =
            linkerd_redirect::configuration(&installation(name)).webhooks.unwrap_or_default();
        let webhooks = webhooks.into_iter().map(|webhook| webhook.name).collect();
        wanted.push(("mutating", name.to_owned(), webhooks));
    }
    let found = wanted.into_iter().map(|(manner, name, webhooks)| async move {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{manner}webhookconfigurations");
        let found = get(&cluster.client, &path, &name).await;
        let name = format!("{manner}webhookconfiguration/{name}");
        WebhookConfiguration { name, webhooks, found }
    });
    join_all(found).await
}

/// State that each replica reports.
async fn replicas(
    cluster: &Cluster,
    components: [(&FetchResult<Vec<Value>>, u16); 2],
) -> Vec<(String, Result<PodResponse, PodRequestError>)> {
    let all = components.into_iter().flat_map(|(pods, port)| {
        let running = pods.iter().flatten().filter(|pod| text(pod, "/status/phase") == "Running");
        running.map(move |pod| (pod, port))
    });
    let pages = all.map(|(pod, port)| async move {
        let place = (text(pod, "/metadata/namespace"), name(pod));
        (name(pod).to_owned(), pod_get(cluster, place, port, "/ready?verbose").await)
    });
    join_all(pages).await
}

/// Permissions that the accounts of the control plane lack.
async fn accounts(
    cluster: &Cluster,
    control_plane: &ControlPlane,
    (run, issue): (&ControllerSettings, &IssuerSettings),
) -> Vec<(String, FetchResult<Vec<Permission>>)> {
    let home = control_plane.home.as_str();
    let mut all = Vec::new();
    for (pods, rights) in [
        (&control_plane.controllers, of_controller(run, home)),
        (&control_plane.issuers, of_issuer(issue, home)),
    ] {
        let Some(pod) = pods.iter().flatten().next() else { continue };
        let account = match text(pod, "/spec/serviceAccountName") {
            "" => "default",
            account => account,
        };
        let missing =
            missing_permissions(&cluster.client, Subject::ServiceAccount(home, account), rights)
                .await;
        all.push((format!("{home}/{account}"), missing));
    }
    all
}

/// Response of the API server to an object that the webhook rejects, or the reason why it was not
/// sent.
async fn refusal(
    cluster: &Cluster,
    namespaces: &FetchResult<Vec<Value>>,
    settings: &ControllerSettings,
    home: &str,
) -> FetchResult<ProbeResponse> {
    let watched = settings.watched.as_deref();
    let injector = InstalledInjector { home, reads_linkerd: settings.reads_linkerd };
    let namespace = match probe_namespace(namespaces, watched, injector) {
        Ok(namespace) => namespace,
        Err(why) if watched.is_some() => return Err(why),
        Err(why) => {
            // Only one namespace is selected, or listing is forbidden.
            let other = get(&cluster.client, "/api/v1/namespaces", "default").await;
            let other = other.map(|other| other.into_iter().collect());
            probe_namespace(&other, None, injector).map_err(|_| why)?
        }
    };
    Ok(webhook_probe::send(cluster, &namespace).await)
}
