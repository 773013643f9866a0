//! The binary as it is installed: with the configuration and the rights that are documented, and a
//! certificate that it makes itself.

use super::api::{apply, document, merge, path, send, until};
use super::webhook::Installed;
use http::Method;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::PostParams;
use kube::{Api, Client};
use policy_kube::rbac;
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip, documents};
use serde_json::{Value, json};

const ACCOUNT: &str = "policy-controller";

/// A documented configuration for a webhook at `url`, about one namespace: other tests are not
/// asked.
pub(super) async fn install(
    client: &Client,
    configuration: &str,
    (control_plane, namespace): (&str, &str),
    url: &str,
) -> Installed {
    let mut wanted = documents(configuration).unwrap().remove(0);
    for webhook in wanted["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"] = json!({"url": url});
        // That of the cluster's policy selects no namespaces.
        let Some(selector) = webhook.get_mut("namespaceSelector") else { continue };
        let selectors = selector["matchExpressions"].as_array_mut().unwrap();
        let key = "kubernetes.io/metadata.name";
        let own = selectors.iter_mut().find(|selector| selector["key"] == key).unwrap();
        own["values"] = json!([control_plane]);
        selectors.push(json!({"key": key, "operator": "In", "values": [namespace]}));
    }
    let wanted: ValidatingWebhookConfiguration = serde_json::from_value(wanted).unwrap();
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    api.create(&PostParams::default(), &wanted).await.unwrap();
    Installed { name: wanted.metadata.name.unwrap(), api }
}

fn server(namespace: &str, name: &str, app: &str, protocol: &str) -> Value {
    document(&format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, port: 80, proxyProtocol: {protocol}}}\n"
    ))
}

/// One that only the webhook refuses.
pub(super) fn broken(namespace: &str) -> Value {
    document(&format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
         metadata: {{name: broken, namespace: {namespace}}}\n\
         spec: {{networks: [{{cidr: 10.0.0.0/8, except: [192.0.2.0/24]}}]}}\n"
    ))
}

#[tokio::test]
async fn the_binary_with_the_documented_configuration_and_rights_refuses_and_warns() {
    // Its rights have names of the whole cluster, and it leads.
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let client = cluster.client();
    let (mesh, ns) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("binary").await.unwrap());
    let rights = rbac::manifests(&mesh, ACCOUNT, "portcullis-issuer").unwrap();
    cluster.apply(&rights).await.unwrap();
    let user = format!("system:serviceaccount:{mesh}:{ACCOUNT}");
    let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
    let flags = ["--control-plane-namespace", mesh.as_str(), "--webhook-names", "127.0.0.1"];
    let controller = ControllerProcess::start(&kubeconfig, &flags).await.unwrap();
    controller.wait_ready().await.unwrap();
    let url = format!("https://{}/", controller.admission().unwrap());
    let configuration = include_str!("../../../../docs/admission-webhook.yaml");
    let installed = install(&client, configuration, (&mesh, &ns), &url).await;

    let refused = |answer: &super::api::Answer| {
        answer.status == 422 && answer.message().contains("spec.networks[0].except[0]: ")
    };
    until(&client, &broken(&ns), "refused by the webhook", refused).await;
    let warned = apply(&client, &server(&ns, "nobody", "wbe", "HTTP/1")).await;
    assert!(warned.is_done(), "{warned:?}");
    assert_eq!(warned.warnings, [format!("spec.podSelector: selects no pod of namespace `{ns}`")]);
    // What belongs to the cluster has a webhook of its own.
    let misnamed = document(
        "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\nmetadata: {name: other}\n\
         spec: {}\n",
    );
    let answer = apply(&client, &misnamed).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.message().contains("\"cluster.admission.portcullis.dev\""), "{answer:?}");
    assert!(answer.message().contains("metadata.name: "), "{answer:?}");
    nothing_gets_past(&client, &ns).await;

    let metrics = controller.metrics().await;
    let denied = "verdict=\"denied\"} ";
    assert!(metrics.lines().any(|line| line.contains(denied)), "{metrics}");
    let logs = controller.logs();
    assert!(!logs.contains("PRIVATE KEY"), "{logs}");
    installed.remove().await;
    cluster.delete(&rights).await.unwrap();
}

/// A way to write an object, and what it changes in it.
type Way<'a> = (&'a str, &'a dyn Fn(&mut Value));

/// Ways to write an object that are not asked about, or that a client might make look so.
async fn nothing_gets_past(client: &Client, namespace: &str) {
    let broken = broken(namespace);
    let object = path(&broken);
    let (collection, _) = object.rsplit_once('/').unwrap();
    let post = async |change: &dyn Fn(&mut Value)| {
        let mut object = broken.clone();
        change(&mut object);
        let body = serde_json::to_vec(&object).unwrap();
        send(client, Method::POST, collection, "application/json", body).await
    };
    let gone = json!("2026-01-01T00:00:00Z");
    let ways: [Way<'_>; 4] = [
        ("as it is", &|_| {}),
        ("as if it were being deleted", &|object| {
            object["metadata"]["deletionTimestamp"] = gone.clone();
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            object["metadata"]["finalizers"] = json!(["example.com/wait"]);
        }),
        ("with a name that is made", &|object| {
            object["metadata"] = json!({"generateName": "broken-"});
        }),
        ("with labels and a status", &|object| {
            object["status"] = json!({"conditions": []});
            object["metadata"]["labels"] = json!({"a": "b"});
        }),
    ];
    for (way, change) in ways {
        let answer = post(change).await;
        assert_eq!(answer.status, 422, "{way}: {answer:?}");
    }
    // What exists is not changed into it by any kind of patch, and not while it is marked as ending.
    let mut sound = broken.clone();
    sound["spec"] = json!({"networks": [{"cidr": "10.0.0.0/8"}]});
    assert!(apply(client, &sound).await.is_done());
    let spec = &broken["spec"];
    for patch in [
        json!({"spec": spec}),
        json!({"spec": spec, "metadata": {"deletionTimestamp": gone}}),
        json!({"spec": null}),
    ] {
        let answer = merge(client, &sound, "", &patch).await;
        assert_eq!(answer.status, 422, "{patch}: {answer:?}");
    }
    let operations = json!([{"op": "replace", "path": "/spec", "value": spec}]);
    let body = serde_json::to_vec(&operations).unwrap();
    let answer = send(client, Method::PATCH, &object, "application/json-patch+json", body).await;
    assert_eq!(answer.status, 422, "{answer:?}");
}
