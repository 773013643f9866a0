//! Beside Linkerd on a real API server: our webhook is called after an injector that is named as
//! Linkerd's, sees what that one made of the pod, and points its proxy at us.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use policy_testkit::{Leaf, self_signed};
use policy_tests::cluster::{Cluster, cluster_or_skip};
use policy_webhooks::admission::{
    Admission, AdmissionSettings, CertificateFiles, CertificateSource, Installation, Target,
};
use policy_webhooks::linkerd_redirect::{BESIDE_CONFIGURATION, ProxyRedirector, configuration};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);

/// As Linkerd names its own.
const INJECTOR: &str = "linkerd-proxy-injector-webhook-config";

/// Environment as Linkerd's injector writes it for the policy controller, with one variable before and
/// after it.
fn environment(address: &str, name: &str) -> Value {
    json!([
        {"name": "_pod_ns", "valueFrom": {"fieldRef": {"apiVersion": "v1",
            "fieldPath": "metadata.namespace"}}},
        {"name": "LINKERD2_PROXY_POLICY_SVC_ADDR", "value": address},
        {"name": "LINKERD2_PROXY_POLICY_SVC_NAME", "value": name},
        {"name": "LINKERD2_PROXY_LOG", "value": "warn"},
    ])
}

/// A certificate and its key in files.
fn files(pair: &Leaf, folder: &Path) -> CertificateFiles {
    pair.write(folder, "tls.crt", "tls.key");
    CertificateFiles { certificates: folder.join("tls.crt"), key: folder.join("tls.key") }
}

/// An injector that gives every pod with the annotation the label and the container that Linkerd's
/// does, as a webhook of the API server.
async fn injector(pair: &Leaf) -> SocketAddr {
    let chain = CertificateDer::pem_slice_iter(pair.certificate_pem.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(policy_tls::identity::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let served = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(inject));
                // The API server hangs up when it likes.
                _ = served.await;
            });
        }
    });
    address
}

async fn inject(
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, hyper::Error> {
    let review: Value =
        serde_json::from_slice(&request.into_body().collect().await?.to_bytes()).unwrap();
    let pod = &review["request"]["object"];
    // Called again because of what ours changed, it has nothing to do, as Linkerd's.
    let asks = !pod["metadata"]["annotations"]["linkerd.io/inject"].is_null()
        && !containers(pod).contains(&"linkerd-proxy");
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy",
        "env": environment("linkerd-policy.linkerd.svc.cluster.local.:8090", "linkerd-destination")});
    let patch = json!([
        {"op": "add", "path": "/metadata/labels", "value": {"linkerd.io/control-plane-ns": "linkerd"}},
        {"op": "add", "path": "/spec/containers/0", "value": proxy},
    ]);
    let patch = if asks { patch } else { json!([]) };
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch",
            "patch": ByteString(patch.to_string().into_bytes())}});
    let response = http::Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::from(answer.to_string())).unwrap())
}

/// The configuration of a webhook here, for pods of one namespace.
fn of_namespace(
    mut configuration: MutatingWebhookConfiguration,
    name: &str,
    namespace: &str,
) -> MutatingWebhookConfiguration {
    configuration.metadata.name = Some(name.to_owned());
    for webhook in configuration.webhooks.iter_mut().flatten() {
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        webhook.namespace_selector = Some(serde_json::from_value(selector).unwrap());
    }
    configuration
}

fn at(address: SocketAddr, path: &str, pair: &Leaf) -> Installation {
    Installation {
        name: BESIDE_CONFIGURATION.to_owned(),
        namespace: "linkerd".to_owned(),
        target: Target::Url(format!("https://{address}{path}")),
        ca_bundle: Some(pair.certificate_pem.clone().into_bytes()),
    }
}

/// Returns the pod that the API server would create, by a dry run.
async fn created(cluster: &Cluster, namespace: &str, meshed: bool) -> Result<Value, kube::Error> {
    let annotations = if meshed { json!({"linkerd.io/inject": "enabled"}) } else { json!({}) };
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"automountServiceAccountToken": false,
            "containers": [{"name": "app", "image": "app"}]},
    }))
    .unwrap();
    let api: Api<Pod> = Api::namespaced(cluster.client(), namespace);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    Ok(serde_json::to_value(api.create(&params, &pod).await?).unwrap())
}

fn containers(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers.iter().map(|container| container["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_proxy_that_linkerds_injector_adds_asks_us_and_without_us_there_is_none() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    let namespace = cluster.namespace("beside").await.unwrap();
    let (pair, folder) = (self_signed("127.0.0.1"), tempfile::tempdir().unwrap());
    let settings = AdmissionSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: CertificateSource::Files(files(&pair, folder.path())),
        linkerd_compatible: false,
    };
    let (address, name) =
        ("portcullis-policy.linkerd.svc.cluster.local.:8090", "policy-controller.linkerd.id");
    let redirector = ProxyRedirector { address: address.to_owned(), name: name.to_owned() };
    let webhook = Admission::new(settings, None, None).await.unwrap().with_redirector(redirector);
    let ours = configuration(&at(webhook.address(), "/beside-linkerd", &pair));
    let stop = CancellationToken::new();
    let serving = tokio::spawn(webhook.run(stop.clone()));
    // Linkerd's selects by namespace; that of ours, by the label that Linkerd's leaves on the pod.
    let mut linkerds = configuration(&at(injector(&pair).await, "/", &pair));
    linkerds.webhooks.as_mut().unwrap()[0].object_selector = None;
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.client());
    for wanted in [
        // Ours first: it is their names that order them.
        of_namespace(ours, BESIDE_CONFIGURATION, &namespace),
        of_namespace(linkerds, INJECTOR, &namespace),
    ] {
        api.create(&PostParams::default(), &wanted).await.unwrap();
    }

    // The API server hears of configurations a moment later.
    let deadline = Instant::now() + PATIENCE;
    let pod = loop {
        let pod = created(&cluster, &namespace, true).await;
        let done = pod.as_ref().is_ok_and(|pod| {
            let environment = &pod["spec"]["containers"][0]["env"];
            containers(pod).len() == 2 && environment[1]["value"] == address
        });
        if done {
            break pod.unwrap();
        }
        assert!(Instant::now() < deadline, "{pod:?}");
        sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(containers(&pod), ["linkerd-proxy", "app"]);
    assert_eq!(pod["spec"]["containers"][0]["env"], environment(address, name));
    let plain = created(&cluster, &namespace, false).await.unwrap();
    assert_eq!(containers(&plain), ["app"]);

    // While nobody answers there is no new proxy that would be served by other rules.
    stop.cancel();
    serving.await.unwrap();
    let refused = created(&cluster, &namespace, true).await.unwrap_err().to_string();
    assert!(refused.contains("proxies.beside.portcullis.dev"), "{refused}");
    assert_eq!(containers(&created(&cluster, &namespace, false).await.unwrap()), ["app"]);
}
