//! What is legal, and means something else than its author thinks.

use super::api::{apply, document};
use super::webhook::{Installed, Webhook};
use kube::Client;
use policy_tests::cluster::Cluster;
use policy_webhooks::admission::Installation;
use serde_json::Value;

/// A namespace about whose objects a webhook with an index is asked.
struct Asked {
    client: Client,
    namespace: String,
    installed: Installed,
    _webhook: Webhook,
}

impl Asked {
    async fn new(cluster: &Cluster, name: &str) -> Self {
        let client = cluster.client();
        let mesh = cluster.namespace("mesh").await.unwrap();
        let namespace = cluster.namespace(name).await.unwrap();
        let webhook = Webhook::start(cluster, &mesh).await;
        let installation = Installation {
            name: format!("{name}-{namespace}"),
            namespace: mesh,
            target: webhook.target(),
            ca_bundle: Some(webhook.pair.certificate_pem.clone().into_bytes()),
        };
        let installed = Installed::new(&client, &installation, &[&namespace]).await;
        installed.effective(&client, &namespace).await;
        Self { client, namespace, installed, _webhook: webhook }
    }

    fn object(&self, api: &str, kind: &str, name: &str, spec: &str) -> Value {
        let namespace = &self.namespace;
        document(&format!(
            "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
             spec: {spec}\n"
        ))
    }

    /// What whoever applies an object is told.
    async fn told(&self, object: &Value) -> Vec<String> {
        let answer = apply(&self.client, object).await;
        assert!(answer.is_done(), "{answer:?}");
        answer.warnings
    }
}

#[tokio::test]
async fn an_identity_of_another_mesh_is_told_with_the_spelling_of_this_one() {
    let Some(cluster) = super::cluster().await else { return };
    let asked = Asked::new(cluster, "identities").await;
    let authentication = |identity: &str| {
        let spec = format!("{{identities: [{identity}]}}");
        asked.object("policy.linkerd.io/v1alpha1", "MeshTLSAuthentication", "m", &spec)
    };
    let own = "cart.elsewhere.serviceaccount.identity.linkerd.cluster.local";
    let other = own.replace("identity.linkerd", "identity.istio-system");
    assert_eq!(
        asked.told(&authentication(&other)).await,
        [format!(
            "spec.identities[0]: ends in no trust domain of this mesh, whose identities end in \
             `.identity.linkerd.cluster.local`; is `{own}` meant?"
        )]
    );
    assert_eq!(asked.told(&authentication(own)).await, [""; 0]);
    asked.installed.remove().await;
}
