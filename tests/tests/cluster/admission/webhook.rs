//! A webhook that is served here, on an index that follows the cluster, and its configuration.

use super::api::{document, until};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use policy_engine::{Controller, ControllerConfig};
use policy_kube::source::{KubernetesConfig, KubernetesSource};
use policy_testkit::{Leaf, self_signed};
use policy_tests::cluster::Cluster;
use policy_webhooks::admission::{
    Admission, AdmissionSettings, CertificateFiles, CertificateSource, Installation, Target,
    configuration,
};
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running webhook.
pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
    pub(crate) pair: Leaf,
    _controller: Option<Controller>,
    _stop: DropGuard,
}

impl Webhook {
    /// Serves with an index of the whole cluster.
    pub(crate) async fn start(cluster: &Cluster, control_plane: &str) -> Self {
        let controller = index(cluster, control_plane).await;
        Self::serve(Some(controller)).await
    }

    /// Serves without an index, as long as nothing has been listed.
    pub(crate) async fn serve(controller: Option<Controller>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pair = self_signed("127.0.0.1");
        pair.write(folder.path(), "tls.crt", "tls.key");
        let settings = AdmissionSettings {
            listen: "127.0.0.1:0".parse().unwrap(),
            certificate: CertificateSource::Files(CertificateFiles {
                certificates: folder.path().join("tls.crt"),
                key: folder.path().join("tls.key"),
            }),
            linkerd_compatible: false,
        };
        let review = controller.as_ref().map(|controller| controller.review.clone());
        let admission = Admission::new(settings, review, None).await.unwrap();
        let address = admission.address();
        let stop = CancellationToken::new();
        tokio::spawn(admission.run(stop.clone()));
        Self { address, folder, pair, _controller: controller, _stop: stop.drop_guard() }
    }

    pub(crate) fn target(&self) -> Target {
        Target::Url(format!("https://{}/", self.address))
    }
}

/// An index of the whole cluster that has seen everything.
pub(crate) async fn index(cluster: &Cluster, control_plane: &str) -> Controller {
    let config = KubernetesConfig {
        control_plane_namespace: control_plane.into(),
        ..KubernetesConfig::default()
    };
    let source = KubernetesSource::prepare(cluster.client(), config).connected().await;
    let controller = policy_engine::start(ControllerConfig::default(), source);
    controller.policies.synced().wait_for(|synced| *synced).await.unwrap();
    controller
}

/// A configuration in the cluster, for some namespaces only: other tests are not asked.
pub(crate) struct Installed {
    pub(crate) name: String,
    pub(crate) api: Api<ValidatingWebhookConfiguration>,
}

impl Installed {
    pub(crate) async fn new(
        client: &Client,
        installation: &Installation,
        namespaces: &[&str],
    ) -> Self {
        let mut wanted = configuration(installation);
        for webhook in wanted.webhooks.iter_mut().flatten() {
            let selector = webhook.namespace_selector.as_mut().unwrap();
            selector.match_expressions.as_mut().unwrap().push(LabelSelectorRequirement {
                key: "kubernetes.io/metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(namespaces.iter().map(ToString::to_string).collect()),
            });
        }
        let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        api.create(&PostParams::default(), &wanted).await.unwrap();
        Self { name: installation.name.clone(), api }
    }

    /// Waits until the API server asks about objects of this namespace.
    pub(crate) async fn effective(&self, client: &Client, namespace: &str) {
        let broken = document(&format!(
            "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
             metadata: {{name: probe, namespace: {namespace}}}\n\
             spec: {{networks: [{{cidr: nowhere}}]}}\n"
        ));
        until(client, &broken, "asked", |answer| answer.message().contains("admission")).await;
    }

    pub(crate) async fn remove(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}
