//! Warnings about legal objects that mean something else than their author thinks.

use super::api::{Answer, PATIENCE, apply, delete, document, path, send, until};
use super::webhook::{Installed, Webhook};
use http::Method;
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

    /// Warnings that the API server returns for an object that is applied.
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

#[tokio::test]
async fn a_server_on_which_nothing_is_granted_is_told_to_refuse_everybody() {
    let Some(cluster) = super::cluster().await else { return };
    let asked = Asked::new(cluster, "nobody").await;
    let pod = asked.object(
        "v1",
        "Pod",
        "web",
        "{containers: [{name: a, image: a, ports: [{containerPort: 8080}]}]}",
    );
    asked.told(&pod).await;
    let server = |policy: &str| {
        let spec = format!("{{podSelector: {{}}, port: 8080, accessPolicy: {policy}}}");
        asked.object("policy.linkerd.io/v1beta3", "Server", "web", &spec)
    };
    let nobody = "spec.accessPolicy: grants nobody: every connection and request to its port is refused \
                  until a policy grants it";
    let every = "spec.podSelector: is empty: selects every pod of the namespace";
    // The index hears of the pod a moment after the API server does.
    let knows_the_pod = |answer: &Answer| answer.warnings == [every];
    until(&asked.client, &server("deny"), "told of nothing but its selector", knows_the_pod).await;
    // Its policies may come after it.
    assert_eq!(asked.told(&server("deny")).await, [every]);
    let wider = asked.object(
        "policy.linkerd.io/v1beta3",
        "Server",
        "web",
        "{podSelector: {}, port: 8080, accessPolicy: deny, proxyProtocol: HTTP/1}",
    );
    let is_told = |answer: &Answer| answer.warnings == [nobody, every];
    until(&asked.client, &wider, "told that it grants nobody", is_told).await;
    let audit = asked.told(&server("audit")).await;
    assert!(audit[0].starts_with("spec: permits what was refused before: "), "{audit:?}");
    assert_eq!(audit[1..], [every]);
    assert_eq!(asked.told(&server("deny")).await, [nobody, every]);
    let policy = asked.object(
        "policy.linkerd.io/v1alpha1",
        "AuthorizationPolicy",
        "p",
        "{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, \
         requiredAuthenticationRefs: [{kind: ServiceAccount, name: c, namespace: elsewhere}]}",
    );
    assert_eq!(asked.told(&policy).await, [""; 0]);
    until(&asked.client, &wider, "granted", |answer| answer.warnings == [every]).await;
    asked.installed.remove().await;
}

#[tokio::test]
async fn whoever_deletes_the_last_inbound_route_of_a_server_is_told_what_it_opens() {
    let Some(cluster) = super::cluster().await else { return };
    let asked = Asked::new(cluster, "trees").await;
    let namespace = &asked.namespace;
    let root = asked.object(
        "portcullis.dev/v1alpha1",
        "InboundRoute",
        "root",
        &format!(
            "{{virtualhost: {{fqdn: {namespace}.example, \
             targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}}}, \
             routes: [{{match: /api, serve: {{}}}}]}}"
        ),
    );
    let server = asked.object(
        "policy.linkerd.io/v1beta3",
        "Server",
        "web",
        "{podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: HTTP/1, \
         accessPolicy: all-authenticated}",
    );
    for object in [&server, &root] {
        asked.told(object).await;
    }
    let opens = format!(
        "spec: without it Server {namespace}/web is in no tree: what is granted on the Server holds \
         for every request then, not only for the paths that were handed out"
    );
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let uri = format!("{}?dryRun=All", path(&root));
        let tried = send(&asked.client, Method::DELETE, &uri, "application/json", Vec::new()).await;
        assert!(tried.is_done(), "it is never refused: {tried:?}");
        if tried.warnings == [opens.as_str()] {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "never told: {tried:?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let last = delete(&asked.client, &root).await;
    assert!(last.is_done() && last.warnings == [opens.as_str()], "{last:?}");
    asked.installed.remove().await;
}

#[tokio::test]
async fn whoever_deletes_the_last_route_of_a_server_is_told_what_it_opens() {
    let Some(cluster) = super::cluster().await else { return };
    let asked = Asked::new(cluster, "last").await;
    let gateway = "gateway.networking.k8s.io/v1";
    let route = |name: &str| {
        let spec = "{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], \
                    rules: [{matches: [{path: {value: /api}}]}]}";
        asked.object(gateway, "HTTPRoute", name, spec)
    };
    let policy = asked.object(
        "policy.linkerd.io/v1alpha1",
        "AuthorizationPolicy",
        "p",
        "{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, \
         requiredAuthenticationRefs: [{kind: ServiceAccount, name: c, namespace: elsewhere}]}",
    );
    let server = asked.object(
        "policy.linkerd.io/v1beta3",
        "Server",
        "web",
        "{podSelector: {matchLabels: {app: web}}, port: 8080, proxyProtocol: HTTP/1}",
    );
    for object in [&server, &policy, &route("api"), &route("more")] {
        asked.told(object).await;
    }
    let namespace = &asked.namespace;
    let opens = format!(
        "spec.parentRefs: is the only route of Server {namespace}/web: without it, what is granted on \
         the Server holds for every request, not only for what it matches"
    );
    // A dry run is a review like any other, and the index hears a moment later of what is applied.
    let tried = |object: &Value| {
        let uri = format!("{}?dryRun=All", path(object));
        let client = asked.client.clone();
        async move { send(&client, Method::DELETE, &uri, "application/json", Vec::new()).await }
    };
    let both = tried(&route("api")).await;
    assert!(both.is_done() && both.warnings.is_empty(), "another one is left: {both:?}");
    assert!(delete(&asked.client, &route("more")).await.is_done());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let last = tried(&route("api")).await;
        assert!(last.is_done(), "it is never refused: {last:?}");
        if last.warnings == [opens.as_str()] {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "never told: {last:?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let last = delete(&asked.client, &route("api")).await;
    assert!(last.is_done() && last.warnings == [opens.as_str()], "{last:?}");
    asked.installed.remove().await;
}
