//! Writes while the webhook is away: those that succeed and those that do not.

use super::api::{Answer, apply, delete, document, merge, path, send, try_apply, until};
use super::webhook::Installed;
use http::Method;
use policy_webhooks::admission::{Installation, Target};
use serde_json::{Value, json};

const SERVER_PARENT: &str = "{group: policy.linkerd.io, kind: Server, name: web}";

fn object(api: &str, kind: &str, name: &str, namespace: &str, spec: &str) -> Value {
    document(&format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {spec}\n"
    ))
}

fn server(name: &str, namespace: &str, port: &str) -> Value {
    let spec = format!("{{podSelector: {{}}, port: {port}}}");
    object("policy.linkerd.io/v1beta3", "Server", name, namespace, &spec)
}

fn route(kind: &str, name: &str, namespace: &str, parents: &str) -> Value {
    let spec = format!("{{parentRefs: [{parents}], rules: [{{}}]}}");
    object("gateway.networking.k8s.io/v1", kind, name, namespace, &spec)
}

fn is_unanswered(answer: &Answer) -> bool {
    answer.message().contains("failed calling webhook")
}

#[track_caller]
fn assert_done(answer: &Answer) {
    assert!(answer.is_done(), "{answer:?}");
}

#[track_caller]
fn assert_unanswered(answer: &Answer) {
    assert!(is_unanswered(answer), "{answer:?}");
}

/// True if an object no longer exists.
async fn gone(client: &kube::Client, object: &Value) -> bool {
    let answer = send(client, Method::GET, &path(object), "application/json", Vec::new()).await;
    answer.status == 404
}

#[tokio::test]
async fn an_outage_touches_policy_and_nothing_else() {
    let Some(cluster) = super::cluster().await else { return };
    let client = cluster.client();
    let mesh = cluster.namespace("mesh").await.unwrap();
    let namespace = cluster.namespace("away").await.unwrap();
    let exempt = cluster.namespace("exempt").await.unwrap();
    let exempted =
        json!({"metadata": {"labels": {"config.linkerd.io/admission-webhooks": "disabled"}}});
    let exempt_namespace =
        document(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {exempt}}}}}"));
    assert_done(&merge(&client, &exempt_namespace, "", &exempted).await);

    // What was stored before anybody judged.
    let ending = server("ending", &namespace, "80");
    let broken = object(
        "policy.linkerd.io/v1alpha1",
        "NetworkAuthentication",
        "broken",
        &namespace,
        "{networks: [{cidr: nowhere}]}",
    );
    let bound = route("HTTPRoute", "bound", &namespace, SERVER_PARENT);
    for stored in [&ending, &broken, &bound] {
        assert_done(&apply(&client, stored).await);
    }
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    assert_done(&merge(&client, &ending, "", &finalizers(json!(["example.com/wait"]))).await);
    assert_done(&delete(&client, &ending).await);

    // A port where nobody listens.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let installation = Installation {
        name: format!("away-{namespace}"),
        namespace: mesh.clone(),
        target: Target::Url(format!("https://{nobody}/")),
        ca_bundle: Some(policy_testkit::self_signed("127.0.0.1").certificate_pem.into_bytes()),
    };
    let installed = Installed::new(&client, &installation, &[&namespace, &exempt, &mesh]).await;
    let wanted = server("wanted", &namespace, "81");
    until(&client, &wanted, "refused", is_unanswered).await;

    // Policy is not written.
    assert_unanswered(&apply(&client, &wanted).await);
    for kind in ["HTTPRoute", "GRPCRoute"] {
        assert_unanswered(&apply(&client, &route(kind, "r", &namespace, SERVER_PARENT)).await);
        let lower = "{group: policy.linkerd.io, kind: server, name: web}";
        assert_unanswered(&try_apply(&client, &route(kind, "r", &namespace, lower)).await);
        let both = format!("{{name: gateway}}, {SERVER_PARENT}");
        assert_unanswered(&try_apply(&client, &route(kind, "r", &namespace, &both)).await);
    }
    let grant = |to: &str| {
        let from = "{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: a}";
        let spec = format!("{{from: [{from}], to: [{to}]}}");
        object("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", "g", &namespace, &spec)
    };
    let ours = grant("{group: policy.linkerd.io, kind: MeshTLSAuthentication}");
    assert_unanswered(&apply(&client, &ours).await);
    // Neither is a route taken away from its Server.
    let moved = route("HTTPRoute", "bound", &namespace, "{name: gateway}");
    assert_unanswered(&try_apply(&client, &moved).await);

    // Everything else is.
    for kind in ["HTTPRoute", "GRPCRoute"] {
        for parents in ["{name: gateway}", "{group: example.com, kind: Server, name: web}", ""] {
            assert_done(&apply(&client, &route(kind, "r", &namespace, parents)).await);
        }
    }
    assert_done(&apply(&client, &grant("{group: '', kind: Service}")).await);
    let egress = object(
        "policy.linkerd.io/v1alpha1",
        "EgressNetwork",
        "e",
        &namespace,
        "{trafficPolicy: Allow}",
    );
    assert_done(&apply(&client, &egress).await);
    let mut pod = object("v1", "Pod", "p", &namespace, "{containers: [{name: a, image: a}]}");
    pod["metadata"]["annotations"] = json!({"config.linkerd.io/default-inbound-policy": "denny"});
    assert_done(&apply(&client, &pod).await);

    // So is what changes nothing that is judged, and what ends.
    let labels = json!({"metadata": {"labels": {"team": "a"}}});
    assert_done(&merge(&client, &broken, "", &labels).await);
    assert_done(&merge(&client, &broken, "", &finalizers(json!(["example.com/wait"]))).await);
    assert_done(&merge(&client, &broken, "", &finalizers(json!(null))).await);
    let parents = json!({"status": {"parents": []}});
    assert_done(&merge(&client, &bound, "/status", &parents).await);
    assert_done(&merge(&client, &ending, "", &finalizers(json!(null))).await);
    for stored in [&broken, &bound] {
        assert_done(&delete(&client, stored).await);
    }
    // What waits for a second at most is the deletion of a route that has a Server; of one that nobody
    // answers for it is done all the same.
    assert!(gone(&client, &bound).await, "a deletion depends on nobody");

    // Nothing is asked about namespaces that do not want it, and about our own.
    assert_done(&apply(&client, &server("a", &exempt, "80")).await);
    assert_done(&apply(&client, &server("a", &mesh, "80")).await);
    installed.remove().await;
}
