//! Warnings that reach the client of an admitted request.

use super::api::{Answer, apply, document, merge, until};
use super::webhook::{Installed, Webhook};
use policy_webhooks::admission::Installation;
use serde_json::{Value, json};

#[tokio::test]
async fn what_is_legal_but_surely_not_meant_is_told_to_whoever_applies_it() {
    let Some(cluster) = super::cluster().await else { return };
    let client = cluster.client();
    let (mesh, ns) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("warnings").await.unwrap());
    cluster
        .apply(&format!(
            "apiVersion: v1\nkind: Pod\n\
             metadata: {{name: web-0, namespace: {ns}, labels: {{app: web}}}}\n\
             spec: {{containers: [{{name: a, image: a, ports: [{{name: http, containerPort: 8080}}]}}]}}\n"
        ))
        .await
        .unwrap();
    let webhook = Webhook::start(cluster, &mesh).await;
    let installation = Installation {
        name: format!("warnings-{ns}"),
        namespace: mesh,
        target: webhook.target(),
        ca_bundle: Some(webhook.pair.certificate_pem.clone().into_bytes()),
    };
    let installed = Installed::new(&client, &installation, &[&ns]).await;
    installed.effective(&client, &ns).await;

    let object = |api: &str, kind: &str, name: &str, spec: &str| {
        document(&format!(
            "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {ns}}}\n\
             spec: {spec}\n"
        ))
    };
    let server = |name: &str, app: &str, port: &str| {
        let spec = format!(
            "{{podSelector: {{matchLabels: {{app: {app}}}}}, port: {port}, proxyProtocol: HTTP/1}}"
        );
        object("policy.linkerd.io/v1beta3", "Server", name, &spec)
    };
    let told = async |object: &Value| {
        let answer = apply(&client, object).await;
        assert!(answer.is_done(), "{answer:?}");
        answer.warnings
    };
    assert_eq!(told(&server("web", "web", "http")).await, [""; 0]);
    assert_eq!(
        told(&server("nobody", "wbe", "http")).await,
        [format!("spec.podSelector: selects no pod of namespace `{ns}`; is `app: web` meant?")]
    );
    assert_eq!(
        told(&server("service-port", "web", "80")).await,
        ["spec.port: no selected pod declares port 80; they have `http` (8080)"]
    );
    // The index hears of the first Server a moment after the API server does.
    let second = server("a-second", "web", "8080");
    let first = format!(
        "spec.port: takes no effect: what it selects is owned by Server {ns}/web (the older Server \
         counts, then the first by name)"
    );
    until(&client, &second, "told of the first", |answer| answer.warnings == [first.as_str()])
        .await;

    let policy = |target: &str, refs: &str| {
        let spec = format!(
            "{{targetRef: {{group: policy.linkerd.io, kind: Server, name: {target}}}, \
             requiredAuthenticationRefs: [{refs}]}}"
        );
        object("policy.linkerd.io/v1alpha1", "AuthorizationPolicy", "p", &spec)
    };
    assert_eq!(
        told(&policy("web", "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}"))
            .await,
        [format!("spec.requiredAuthenticationRefs: MeshTLSAuthentication {ns}/m does not exist")]
    );
    let opened = told(&policy("web", "")).await;
    assert!(opened[0].starts_with("spec: permits what was refused before: "), "{opened:?}");
    assert_eq!(
        opened[1..],
        ["spec.requiredAuthenticationRefs: is empty: asks for nothing, every client is admitted"]
    );
    assert_eq!(
        told(&policy("wbe", "{kind: ServiceAccount, name: caller, namespace: elsewhere}")).await,
        [format!("spec.targetRef: Server {ns}/wbe does not exist")]
    );

    let route = |kind: &str, rules: &str| {
        let parent = "{group: policy.linkerd.io, kind: Server, name: web}";
        let spec = format!("{{parentRefs: [{parent}], rules: [{rules}]}}");
        object("gateway.networking.k8s.io/v1", kind, "r", &spec)
    };
    assert_eq!(
        told(&route("GRPCRoute", "{matches: [{method: {service: a}}]}")).await,
        [format!(
            "spec.parentRefs: Server {ns}/web has the proxyProtocol `HTTP/1`, on which a GRPCRoute \
             takes no effect"
        )]
    );
    let twice = "{matches: [{path: {value: /a}}]}, {matches: [{path: {value: /a}}]}";
    assert_eq!(
        told(&route("HTTPRoute", twice)).await,
        [
            "spec.rules[1].matches[0]: never reached: an earlier rule of this route matches `* /a/…` \
             first"
        ]
    );

    assert_eq!(
        told(&route("HTTPRoute", "")).await,
        [
            "spec.rules: has no rule: the route matches nothing, and its Servers answer 404 to every \
          request that no other route matches; `- {}` matches everything"
        ]
    );

    // Pods and Namespaces are told of annotations, and never refused.
    let annotated =
        json!({"metadata": {"annotations": {"config.linkerd.io/default-inbound-policy": "denny"}}});
    let expected = [
        "metadata.annotations[\"config.linkerd.io/default-inbound-policy\"]: unknown value `denny`, \
         which denies until it is corrected; did you mean `deny`?",
    ];
    let pod = object("v1", "Pod", "web-0", "{}");
    let namespace =
        document(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {ns}}}}}"));
    for object in [&pod, &namespace] {
        let answer = merge(&client, object, "", &annotated).await;
        assert!(answer.is_done(), "{answer:?}");
        assert_eq!(answer.warnings, expected);
    }
    // So is whoever mistypes that a namespace wants sidecars, and would get none.
    let mistyped = json!({"metadata": {"annotations": {
        "config.linkerd.io/default-inbound-policy": null, "portcullis.dev/injcet": "enabled",
    }}});
    let answer = merge(&client, &namespace, "", &mistyped).await;
    assert!(answer.is_done(), "{answer:?}");
    assert_eq!(
        answer.warnings,
        [
            "metadata.annotations[\"portcullis.dev/injcet\"]: there is no such annotation; did you mean \
          `portcullis.dev/inject`?"
        ]
    );
    // And of settings for Linkerd's proxies that ours leave aside, of which policy knows nothing.
    let aside = json!({"metadata": {"annotations": {
        "portcullis.dev/injcet": null, "portcullis.dev/inject": "enabled",
        "config.linkerd.io/proxy-await": "enabled",
    }}});
    let answer = merge(&client, &namespace, "", &aside).await;
    assert!(answer.is_done(), "{answer:?}");
    let words = "has no effect on the sidecars of Portcullis";
    assert_eq!(
        without_earlier(&answer),
        [format!("metadata.annotations[\"config.linkerd.io/proxy-await\"]: {words}")]
    );
    let list = json!({"metadata": {"annotations": {
        "portcullis.dev/inject": null, "config.linkerd.io/proxy-await": null,
        "config.linkerd.io/proxy-require-identity-inbound-ports": "8o80",
    }}});
    let answer = merge(&client, &namespace, "", &list).await;
    assert!(answer.is_done(), "{answer:?}");
    let warnings = without_earlier(&answer);
    assert_eq!(warnings.len(), 1, "{answer:?}");
    let words = "every port requires an identity until it is corrected";
    assert!(warnings[0].ends_with(words), "{answer:?}");
    installed.remove().await;
}

/// The warnings about the last change. The API server applies a patch to what its cache has, which may be
/// older, reviews that, and does both again when the write conflicts: the answer has the warnings of both.
fn without_earlier(answer: &Answer) -> Vec<String> {
    let earlier = ["portcullis.dev/injcet", "`denny`"];
    let of_last = |warning: &&String| !earlier.iter().any(|word| warning.contains(word));
    answer.warnings.iter().filter(of_last).cloned().collect()
}

#[tokio::test]
async fn before_anything_has_been_listed_the_verdicts_hold_and_say_what_was_not_checked() {
    let Some(cluster) = super::cluster().await else { return };
    let client = cluster.client();
    let (mesh, ns) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("early").await.unwrap());
    let webhook = Webhook::serve(None).await;
    let installation = Installation {
        name: format!("early-{ns}"),
        namespace: mesh,
        target: webhook.target(),
        ca_bundle: Some(webhook.pair.certificate_pem.clone().into_bytes()),
    };
    let installed = Installed::new(&client, &installation, &[&ns]).await;
    installed.effective(&client, &ns).await;
    let network = |cidr: &str| {
        document(&format!(
            "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
             metadata: {{name: one, namespace: {ns}}}\nspec: {{networks: [{{cidr: {cidr}}}]}}\n"
        ))
    };
    let refused = apply(&client, &network("10.0.0.0/33")).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let created = apply(&client, &network("10.0.0.0/8")).await;
    assert!(created.is_done(), "{created:?}");
    assert_eq!(
        created.warnings,
        [
            "references and selectors were not checked: the controller is still listing objects, or busy"
        ]
    );
    installed.remove().await;
}
