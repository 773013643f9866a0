//! A controller with its injector, its webhook configuration, and requests to the API server.

use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use policy_testkit::wait_for;
use policy_tests::cluster::{Cluster, ControllerProcess, documents};
use serde_json::{Value, json};
use std::path::Path;

/// Response of the API server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Names of the init containers of the pod that was answered.
    pub(crate) fn inits(&self) -> Vec<String> {
        let list = self.body["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
        list.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn assert_injected(&self) {
        assert!(self.is_done(), "{self:?}");
        assert_eq!(self.inits(), ["portcullis-init", "portcullis-proxy"], "{self:?}");
    }

    #[track_caller]
    pub(crate) fn assert_left_alone(&self) {
        assert!(self.is_done(), "{self:?}");
        assert_eq!(self.inits(), [] as [&str; 0], "{self:?}");
    }
}

/// A controller whose injector the API server asks about some namespaces.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) controller: ControllerProcess,
}

impl World {
    /// Starts a controller as the administrator, with a configuration of its own name.
    pub(crate) async fn start(cluster: &Cluster, namespaces: &[&str]) -> Self {
        let mesh = cluster.namespace("mesh").await.unwrap();
        let name = format!("injector-{mesh}");
        Self::with(cluster, cluster.kubeconfig(), mesh, &name, namespaces).await
    }

    /// Starts a controller as whoever `kubeconfig` names.
    pub(crate) async fn with(
        cluster: &Cluster,
        kubeconfig: &Path,
        mesh: String,
        name: &str,
        namespaces: &[&str],
    ) -> Self {
        Self::flagged(cluster, kubeconfig, (mesh, name), namespaces, &[]).await
    }

    /// The same with further flags.
    pub(crate) async fn flagged(
        cluster: &Cluster,
        kubeconfig: &Path,
        (mesh, name): (String, &str),
        namespaces: &[&str],
        more: &[&str],
    ) -> Self {
        let client = cluster.client();
        let flags = [
            "--injector",
            "--injector-configuration",
            name,
            "--control-plane-namespace",
            &mesh,
            "--webhook-names",
            "127.0.0.1",
            "--lease-name",
            name,
        ];
        let flags = [&flags, more].concat();
        let controller = ControllerProcess::start(kubeconfig, &flags).await.unwrap();
        controller.wait_ready().await.unwrap();
        let url = format!("https://{}/inject", controller.admission().unwrap());
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let wanted = documented(name, &mesh, namespaces, &url);
        api.create(&PostParams::default(), &wanted).await.unwrap();
        let held = || async {
            let found = api.get(name).await.unwrap();
            let webhooks = found.webhooks.unwrap_or_default();
            webhooks.iter().all(|webhook| webhook.client_config.ca_bundle.is_some()).then_some(())
        };
        wait_for("the caBundle is filled in", held).await;
        Self { client, controller }
    }

    /// Creates a pod.
    pub(crate) async fn create(&self, namespace: &str, pod: &Value) -> Answer {
        self.post(namespace, pod, "").await
    }

    /// Says what creating it would do.
    pub(crate) async fn try_create(&self, namespace: &str, pod: &Value) -> Answer {
        self.post(namespace, pod, "?dryRun=All").await
    }

    async fn post(&self, namespace: &str, pod: &Value, query: &str) -> Answer {
        let uri = format!("/api/v1/namespaces/{namespace}/pods{query}");
        self.send(Method::POST, &uri, "application/json", pod).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, "application/json", &Value::Null).await.body
    }

    /// Merges labels and annotations into a namespace.
    pub(crate) async fn mark(&self, namespace: &str, metadata: Value) {
        let uri = format!("/api/v1/namespaces/{namespace}");
        let patch = json!({ "metadata": metadata });
        let answer = self.send(Method::PATCH, &uri, "application/merge-patch+json", &patch).await;
        assert!(answer.is_done(), "{answer:?}");
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        uri: &str,
        content: &str,
        body: &Value,
    ) -> Answer {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content)
            .body(Body::from(body))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let status = response.status().as_u16();
        let all = response.headers().get_all("warning").iter();
        let warnings = all.map(|value| {
            // `299 - "text"`.
            let text = std::str::from_utf8(value.as_bytes()).unwrap();
            let quoted = text.split_once('"').unwrap().1.strip_suffix('"').unwrap();
            quoted.replace("\\\"", "\"")
        });
        let warnings = warnings.collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default(), warnings }
    }

    /// The value of the label that the API server selects by.
    pub(crate) async fn label(&self, namespace: &str) -> Option<String> {
        let object = self.get(&format!("/api/v1/namespaces/{namespace}")).await;
        object["metadata"]["labels"]["portcullis.dev/inject"].as_str().map(str::to_owned)
    }

    /// Waits until the label of a namespace is this.
    pub(crate) async fn labelled(&self, namespace: &str, wanted: Option<&str>) {
        let is = || async { (self.label(namespace).await.as_deref() == wanted).then_some(()) };
        wait_for(&format!("{namespace} is labelled {wanted:?}"), is).await;
    }

    /// Waits until creating the pod would be answered as `is` says, and gives that answer.
    pub(crate) async fn until(
        &self,
        namespace: &str,
        pod: &Value,
        what: &str,
        is: impl Fn(&Answer) -> bool,
    ) -> Answer {
        let asked = || async {
            let answer = self.try_create(namespace, pod).await;
            is(&answer).then_some(answer)
        };
        wait_for(what, asked).await
    }
}

/// The documented configuration for an injector at `url`, about some namespaces: other tests are not
/// asked.
fn documented(
    name: &str,
    control_plane: &str,
    namespaces: &[&str],
    url: &str,
) -> MutatingWebhookConfiguration {
    let text = include_str!("../../../../docs/injector-webhook.yaml");
    let mut wanted = documents(text).unwrap().remove(0);
    wanted["metadata"]["name"] = name.into();
    for webhook in wanted["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"] = json!({ "url": url });
        let selectors = webhook["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap();
        let key = "kubernetes.io/metadata.name";
        let is_own =
            |selector: &&mut Value| selector["key"] == key && selector["operator"] == "NotIn";
        let own = selectors.iter_mut().find(is_own).unwrap();
        own["values"] = json!(["kube-system", control_plane]);
        selectors.push(json!({"key": key, "operator": "In", "values": namespaces}));
    }
    serde_json::from_value(wanted).unwrap()
}

/// A pod with one container and these annotations.
pub(crate) fn pod(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        // Nobody gives pods of this control plane an account.
        "spec": {"serviceAccountName": "web", "containers": [{
            "name": "web",
            "image": "example.com/web",
            "ports": [{"containerPort": 8080, "name": "http"}],
            "readinessProbe": {"tcpSocket": {"port": "http"}},
        }]},
    })
}
