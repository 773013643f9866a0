//! Reads a cluster before an installation, and evaluates it.

use super::install_permissions::{
    create_permissions, escalate_permissions, granted_permissions, helm_permissions, rights,
};
use super::leftovers::{Leftover, leftovers, service};
use super::linkerd::{INJECTOR, VALIDATOR, linkerd, reads_linkerd, upgraded};
use super::network::{network_policies, socket_balancer};
use super::outbound_policy::{forwards, outbound_policy, stated};
use crate::cluster::Cluster;
use crate::cluster::list::ApiResources;
use crate::diagnostics::access_review::{Permission, Subject, missing_permissions};
use crate::diagnostics::clock::clock;
use crate::diagnostics::definition_owners::{definition_owners, linkerd_releases};
use crate::diagnostics::definitions::{ServedKind, gateway_api, installed as definitions};
use crate::diagnostics::fetch::{FetchResult, get, list};
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata;
use crate::diagnostics::metadata::name;
use crate::diagnostics::pod_networks::pod_networks;
use crate::diagnostics::release::Release;
use crate::diagnostics::result::CheckResult;
use crate::diagnostics::security::pod_security;
use crate::diagnostics::server;
use ipnet::IpNet;
use policy_crds::Kind;
use policy_kube::names::{BESIDE_CONFIGURATION, INJECTOR_CONFIGURATION, WEBHOOK_CONFIGURATION};
use serde_json::Value;
use std::time::SystemTime;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Checks everything that the installation of `release` depends on, and the namespaces that are
/// `named`. `networks`: those whose addresses sidecars will look up.
///
/// # Errors
/// The API server cannot be reached.
pub(crate) async fn findings(
    cluster: &Cluster,
    release: Release<'_>,
    named: &[String],
    networks: &[IpNet],
) -> anyhow::Result<Vec<CheckResult>> {
    let namespace = release.namespace;
    let server = server::fetch(cluster).await?;
    let mut findings =
        vec![server::version(&server.version), clock(server.date, SystemTime::now())];
    let served = ApiResources::discover(cluster).await?;
    let kinds = Kind::watched().filter(|kind| !kind.group().is_empty());
    let kinds: Vec<ServedKind> = kinds.map(|kind| (kind, served.version(kind))).collect();
    findings.push(gateway_api(&kinds));
    let client = &cluster.client;
    findings.push(rights(&missing_install_permissions(cluster, namespace).await));
    let (mutating, validating) = (webhooks("mutating"), webhooks("validating"));
    let (injector, validator, definitions, namespaces) = tokio::join!(
        get(client, &mutating, INJECTOR),
        get(client, &validating, VALIDATOR),
        definitions(cluster),
        list(client, "/api/v1/namespaces"),
    );
    findings.extend(linkerd([&injector, &validator], &definitions));
    findings.push(definition_owners(&definitions, &linkerd_releases(client).await));
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let installed = get(client, &path, "policy-controller").await;
    if !matches!(&installed, Ok(Some(controller)) if forwards(controller)) {
        findings.extend(outbound_policy(stated(cluster, &served).await));
    }
    let left = left(cluster, definitions).await;
    findings.extend(leftovers(&left, release, matches!(installed, Ok(Some(_)))));
    let pods = list(client, "/api/v1/pods").await;
    findings.extend(upgraded(&installed, &namespaces, &pods, namespace));
    let reads_linkerd = matches!(&installed, Ok(Some(controller)) if reads_linkerd(controller));
    let injector = InstalledInjector { home: namespace, reads_linkerd };
    let is_concerned =
        |it: &Value| named.iter().any(|named| named == name(it)) || injector.is_asked_by(it);
    findings.extend(of_network(cluster, &namespaces, is_concerned).await);
    findings.extend(pod_security(&namespaces, named, injector));
    let known = namespaces.as_deref().unwrap_or_default().iter();
    let concerned: Vec<&str> = known.filter(|it| is_concerned(it)).map(name).collect();
    let will_have_sidecar = |pod: &Value| concerned.contains(&metadata::namespace(pod));
    findings.push(pod_networks(&pods, Some(networks), will_have_sidecar));
    Ok(findings)
}

/// Checks what the network does to connections of the namespaces that are to have sidecars.
async fn of_network(
    cluster: &Cluster,
    namespaces: &FetchResult<Vec<Value>>,
    has_sidecars: impl Fn(&Value) -> bool,
) -> [CheckResult; 2] {
    let client = &cluster.client;
    let (policies, cilium) = tokio::join!(
        list(client, "/apis/networking.k8s.io/v1/networkpolicies"),
        get(client, "/api/v1/namespaces/kube-system/configmaps", "cilium-config"),
    );
    let known = namespaces.as_deref().unwrap_or_default().iter();
    let concerned: Vec<&str> = known.filter(|it| has_sidecars(it)).map(name).collect();
    let policies = network_policies(&policies, |namespace| concerned.contains(&namespace));
    [policies, socket_balancer(&cilium)]
}

/// API path of the webhook configurations of a type.
fn webhooks(manner: &str) -> String {
    format!("{ADMISSION}/{manner}webhookconfigurations")
}

/// Permissions that an installation needs and the caller lacks.
async fn missing_install_permissions(
    cluster: &Cluster,
    namespace: &str,
) -> FetchResult<Vec<Permission>> {
    let missing = |rights| missing_permissions(&cluster.client, Subject::Caller, rights);
    let place = get(&cluster.client, "/api/v1/namespaces", namespace).await;
    let needed =
        [create_permissions(namespace), helm_permissions(namespace, matches!(place, Ok(None)))];
    let mut all = missing(needed.concat()).await?;
    if !missing(escalate_permissions(namespace)).await?.is_empty() {
        all.extend(missing(granted_permissions(namespace)).await?);
    }
    Ok(all)
}

/// Objects of the whole cluster that the chart would install.
async fn left(cluster: &Cluster, definitions: FetchResult<Vec<Value>>) -> Vec<Leftover> {
    let client = &cluster.client;
    let mut all = Vec::new();
    for name in ["portcullis-policy-controller", "portcullis-issuer", "portcullis-viewer"] {
        for (kind, plural) in
            [("clusterrole", "clusterroles"), ("clusterrolebinding", "clusterrolebindings")]
        {
            let found = get(client, &format!("{RBAC}/{plural}"), name).await;
            all.push(Leftover { what: format!("{kind}/{name}"), found, service: None });
        }
    }
    for (manner, name) in [
        ("validating", WEBHOOK_CONFIGURATION),
        ("mutating", INJECTOR_CONFIGURATION),
        ("mutating", BESIDE_CONFIGURATION),
    ] {
        let found = get(client, &webhooks(manner), name).await;
        let leads = found.as_ref().ok().and_then(Option::as_ref).and_then(service);
        let service = match leads {
            None => None,
            Some((namespace, name)) => {
                let path = format!("/api/v1/namespaces/{namespace}/services");
                get(client, &path, &name).await.ok().map(|found| found.is_some())
            }
        };
        all.push(Leftover { what: format!("{manner}webhookconfiguration/{name}"), found, service });
    }
    let ours = definitions.unwrap_or_default();
    all.extend(ours.into_iter().filter(super::linkerd::is_ours).map(|definition| Leftover {
        what: format!("crd/{}", crate::diagnostics::metadata::name(&definition)),
        found: Ok(Some(definition)),
        service: None,
    }));
    all
}
