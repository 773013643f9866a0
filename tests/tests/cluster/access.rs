//! Access to the watch of a workload on a real cluster: by certificate, by tokens of its API server,
//! and by nothing that a user can edit.

mod denied;
mod herd;
pub(crate) mod mesh;

use mesh::{Mesh, get, identity, watch};
use policy_tests::cluster::{Cluster, ControllerProcess};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Code, Status};

const PATIENCE: Duration = Duration::from_secs(60);

const AUDIENCE: &str = "portcullis.dev/policy";

fn pod(namespace: &str, account: &str, labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web-0, namespace: {namespace}, \
         labels: {{{labels}}}}}\nspec: {{serviceAccountName: {account}, \
         automountServiceAccountToken: false, containers: [{{name: c, image: i, \
         ports: [{{containerPort: 80}}]}}]}}\n"
    )
}

fn accounts(namespace: &str) -> String {
    let account = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: ServiceAccount\n\
             metadata: {{name: {name}, namespace: {namespace}}}\n"
        )
    };
    let accounts: String = ["web", "other", "viewer"].map(account).concat();
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n{accounts}")
}

/// Lets a subject see the policies of the namespace.
fn grant(namespace: &str, account: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: policies, namespace: {namespace}}}\n\
         rules: [{{apiGroups: [portcullis.dev], resources: [policies], verbs: [get]}}]\n\
         ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: policies, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: policies}}\n\
         subjects: [{{kind: ServiceAccount, name: {account}, namespace: {namespace}}}]\n"
    )
}

/// Returns the API server's response to this call.
async fn call(cluster: &Cluster, method: &str, path: &str, body: Value) -> Value {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() })
        .unwrap();
    cluster.client().request(request).await.unwrap()
}

/// A token of a ServiceAccount, by TokenRequest; no audience: the API server's own.
async fn token(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
    audience: Option<&str>,
) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let audiences: Vec<_> = audience.into_iter().collect();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": audiences, "expirationSeconds": 600},
    });
    let answer = call(cluster, "POST", &path, request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Waits until the workload is answered, for what has just been applied takes a moment.
async fn answered(channel: &Channel, workload: &str, token: Option<&str>) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(status) = get(channel, workload, token).await {
        assert!(Instant::now() < deadline, "never answered: {status:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn refused(channel: &Channel, workload: &str, token: Option<&str>) -> Status {
    get(channel, workload, token).await.expect_err("it is refused")
}

async fn controller(cluster: &Cluster, flags: &[String]) -> ControllerProcess {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let controller = ControllerProcess::start(cluster.kubeconfig(), &flags).await.unwrap();
    controller.wait_ready().await.unwrap();
    controller
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_watched_by_its_service_account_whatever_its_labels_say() {
    let Some(cluster) = crate::shared().await else { return };
    let (namespace, mesh) = ("access-pod", Mesh::new());
    cluster.apply(&accounts(namespace)).await.unwrap();
    cluster.apply(&pod(namespace, "web", "app: web")).await.unwrap();
    let controller = controller(cluster, &mesh.flags()).await;
    let workload = format!("{namespace}:web-0");
    let by = async |name: String| mesh.connect(controller.grpc(), Some(&name)).await;
    let own = by(identity("web", namespace)).await;
    let other = by(identity("other", namespace)).await;
    let foreign = by(identity("web", "elsewhere")).await;
    let nobody = mesh.connect(controller.grpc(), None).await;
    answered(&own, &workload, None).await;
    let mut stream = watch(&own, &workload).await.unwrap();
    for channel in [&other, &foreign] {
        let status = refused(channel, &workload, None).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    }
    assert_eq!(refused(&nobody, &workload, None).await.code(), Code::Unauthenticated);

    // Labels and annotations that claim to be another's change nothing (bypass rule 30). That the
    // controller has seen them shows in the policy, which an annotation decides.
    let claims = "app: other, linkerd.io/control-plane-ns: linkerd, linkerd.io/proxy-deployment: \
                  other, serviceAccountName: other";
    let edited = pod(namespace, "web", claims).replace(
        "labels:",
        "annotations: {config.linkerd.io/default-inbound-policy: deny, \
         linkerd.io/identity: other}, labels:",
    );
    cluster.apply(&edited).await.unwrap();
    let changed = tokio::time::timeout(PATIENCE, stream.message()).await.unwrap();
    changed.unwrap().expect("its own stream goes on");
    let status = refused(&other, &workload, None).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    answered(&own, &workload, None).await;

    // A pod of the same name that is another's ends the stream, in one event or two.
    cluster.delete(&edited).await.unwrap();
    cluster.apply(&pod(namespace, "other", "app: web")).await.unwrap();
    loop {
        match tokio::time::timeout(PATIENCE, stream.message()).await.unwrap() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(status) => {
                assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
                break;
            }
        }
    }
    answered(&other, &workload, None).await;
    let status = refused(&own, &workload, None).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_workload_is_watched_by_the_identity_it_states_until_it_states_another() {
    let Some(cluster) = crate::shared().await else { return };
    let (namespace, mesh) = ("access-external", Mesh::new());
    let machine = |identity: &str| {
        format!(
            "apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload\n\
             metadata: {{name: vm, namespace: {namespace}}}\n\
             spec: {{meshTLS: {{identity: '{identity}', serverName: vm.example}}, \
             workloadIPs: [{{ip: 192.0.2.1}}], ports: [{{port: 80}}]}}\n"
        )
    };
    cluster.apply(&accounts(namespace)).await.unwrap();
    let (first, second) = ("spiffe://mesh.example/vm/1", "spiffe://mesh.example/vm/2");
    cluster.apply(&machine(first)).await.unwrap();
    let controller = controller(cluster, &mesh.flags()).await;
    let workload = format!("{{\"ns\":\"{namespace}\",\"external_workload\":\"vm\"}}");
    let one = mesh.connect(controller.grpc(), Some(first)).await;
    let two = mesh.connect(controller.grpc(), Some(second)).await;
    answered(&one, &workload, None).await;
    let status = refused(&two, &workload, None).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let mut stream = watch(&one, &workload).await.unwrap();
    cluster.apply(&machine(second)).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, stream.message()).await.unwrap().unwrap_err();
    assert_eq!(ended.code(), Code::PermissionDenied, "{ended:?}");
    answered(&two, &workload, None).await;
    let status = refused(&one, &workload, None).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_needs_a_token_for_us_and_the_right_and_loses_both() {
    let Some(cluster) = crate::shared().await else { return };
    let (namespace, mesh) = ("access-viewer", Mesh::new());
    cluster.apply(&accounts(namespace)).await.unwrap();
    cluster.apply(&pod(namespace, "web", "app: web")).await.unwrap();
    let controller = controller(cluster, &mesh.flags()).await;
    let workload = format!("{namespace}:web-0");
    let channel = mesh.connect(controller.grpc(), None).await;
    let good = token(cluster, namespace, "viewer", Some(AUDIENCE)).await;

    let status = refused(&channel, &workload, Some(&good)).await;
    let user = format!("system:serviceaccount:{namespace}:viewer");
    assert_eq!(
        (status.code(), status.message()),
        (
            Code::PermissionDenied,
            &*format!(
                "viewer `{user}` is refused: the right to get `policies` of group \
                 `portcullis.dev` in namespace `{namespace}`"
            )
        )
    );
    cluster.apply(&grant(namespace, "viewer")).await.unwrap();
    answered(&channel, &workload, Some(&good)).await;
    // The right is of one namespace, and of one account.
    let status = refused(&channel, "kube-system:any", Some(&good)).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let other = token(cluster, namespace, "other", Some(AUDIENCE)).await;
    let status = refused(&channel, &workload, Some(&other)).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");

    let for_others = [
        token(cluster, namespace, "viewer", None).await,
        token(cluster, namespace, "viewer", Some("portcullis.dev/other")).await,
    ];
    for token in &for_others {
        let status = refused(&channel, &workload, Some(token)).await;
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
        assert!(status.message().contains("audience"), "{status:?}");
    }
    // Its claims are those of a good one, and nobody has signed them so.
    let (head, _) = good.rsplit_once('.').unwrap();
    let (_, foreign) = other.rsplit_once('.').unwrap();
    let status = refused(&channel, &workload, Some(&format!("{head}.{foreign}"))).await;
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");

    // A right taken away, and a token whose account is gone, end with what is remembered of them.
    cluster.delete(&grant(namespace, "viewer")).await.unwrap();
    until_refused(&channel, &workload, &good, Code::PermissionDenied).await;
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/viewer");
    call(cluster, "DELETE", &account, Value::Null).await;
    until_refused(&channel, &workload, &good, Code::Unauthenticated).await;
}

async fn until_refused(channel: &Channel, workload: &str, token: &str, code: Code) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = get(channel, workload, Some(token)).await;
        if answer.as_ref().is_err_and(|status| status.code() == code) {
            return;
        }
        assert!(Instant::now() < deadline, "never refused so: {answer:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_checked_by_supplied_keys_without_asking_the_api_server() {
    let Some(cluster) = crate::shared().await else { return };
    let (namespace, mesh) = ("access-keys", Mesh::new());
    cluster.apply(&accounts(namespace)).await.unwrap();
    cluster.apply(&pod(namespace, "web", "app: web")).await.unwrap();
    let keys = call(cluster, "GET", "/openid/v1/jwks", Value::Null).await;
    let issuer = call(cluster, "GET", "/.well-known/openid-configuration", Value::Null).await;
    let issuer = issuer["issuer"].as_str().unwrap().to_owned();
    let file = mesh.files.path().join("keys.json");
    std::fs::write(&file, keys.to_string()).unwrap();
    let mut flags = mesh.flags();
    flags.push(format!("--viewer-token-keys={}", file.display()));
    flags.push(format!("--viewer-token-issuer={issuer}"));
    flags.push(format!("--viewer-identities=system:serviceaccount:{namespace}:viewer"));
    let controller = controller(cluster, &flags).await;
    let workload = format!("{namespace}:web-0");
    let channel = mesh.connect(controller.grpc(), None).await;
    let good = token(cluster, namespace, "viewer", Some(AUDIENCE)).await;
    answered(&channel, &workload, Some(&good)).await;
    // Listed is who sees; a right in the cluster plays no part here.
    cluster.apply(&grant(namespace, "other")).await.unwrap();
    let other = token(cluster, namespace, "other", Some(AUDIENCE)).await;
    let status = refused(&channel, &workload, Some(&other)).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let for_others = token(cluster, namespace, "viewer", None).await;
    let status = refused(&channel, &workload, Some(&for_others)).await;
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_to_the_controller_ends_with_the_root_that_it_was_accepted_by() {
    let Some(cluster) = crate::shared().await else { return };
    let namespace = cluster.namespace("unrooted").await.unwrap();
    let mesh = Mesh::new();
    cluster.apply(&accounts(&namespace)).await.unwrap();
    cluster.apply(&pod(&namespace, "web", "app: web")).await.unwrap();
    let flags = mesh.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let controller = ControllerProcess::start(cluster.kubeconfig(), &flags).await.unwrap();
    controller.wait_ready().await.unwrap();
    let workload = format!("{namespace}:web-0");
    let channel = mesh.connect(controller.grpc(), Some(&identity("web", &namespace))).await;
    answered(&channel, &workload, None).await;
    let mut stream = watch(&channel, &workload).await.unwrap();
    // Another root beside it changes nothing.
    let other = policy_testkit::Authority::new();
    let roots = mesh.files.path().join("roots.pem");
    let own = std::fs::read_to_string(&roots).unwrap();
    std::fs::write(&roots, format!("{own}{}", other.pem())).unwrap();
    let quiet = tokio::time::timeout(Duration::from_secs(15), stream.message()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    std::fs::write(&roots, other.pem()).unwrap();
    let ended = tokio::time::timeout(PATIENCE, async {
        while stream.message().await.is_ok_and(|message| message.is_some()) {}
    });
    ended.await.expect("the connection ends with its root");
    let text = "the certificate of a connection's client is not trusted any more";
    assert!(controller.logs().contains(text), "{}", controller.logs());
}
