//! Every rule through a real apply: what is refused, by whom, and its nearest sound neighbour.

use super::api::{Answer, apply, delete, document, try_apply};
use super::webhook::{Installed, Webhook};
use policy_tests::cluster::{Cluster, ClusterBuilder, cluster_or_skip};
use policy_webhooks::admission::Installation;
use serde_json::Value;

/// A spec that is sound, one that is not, and the field that is named.
struct Rule {
    api: &'static str,
    kind: &'static str,
    good: &'static str,
    bad: &'static str,
    field: &'static str,
}

const SERVER: &str = "policy.linkerd.io/v1beta3";
const ALPHA: &str = "policy.linkerd.io/v1alpha1";
const BETA: &str = "policy.linkerd.io/v1beta1";
const GATEWAY: &str = "gateway.networking.k8s.io/v1";

const fn rule(
    api: &'static str,
    kind: &'static str,
    good: &'static str,
    bad: &'static str,
    field: &'static str,
) -> Rule {
    Rule { api, kind, good, bad, field }
}

macro_rules! target {
    ($rest:literal) => {
        concat!("{targetRef: {group: policy.linkerd.io, kind: Server, name: web}, ", $rest, "}")
    };
}

macro_rules! route {
    ($rule:literal) => {
        concat!(
            "{parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}], rules: [",
            $rule,
            "]}"
        )
    };
}

const RULES: &[Rule] = &[
    rule(
        SERVER,
        "Server",
        "{podSelector: {}, port: 80, proxyProtocol: HTTP/1}",
        "{podSelector: {}, port: 80, proxyProtocol: HTTP/3}",
        "spec.proxyProtocol",
    ),
    rule(
        SERVER,
        "Server",
        "{podSelector: {}, port: 65535}",
        "{podSelector: {}, port: 65536}",
        "spec.port",
    ),
    rule(
        SERVER,
        "Server",
        "{podSelector: {}, port: 80, accessPolicy: audit}",
        "{podSelector: {}, port: 80, accessPolicy: open}",
        "spec.accessPolicy",
    ),
    rule(
        BETA,
        "ServerAuthorization",
        "{server: {name: web}, client: {meshTLS: {identities: ['*']}}}",
        "{server: {name: web}, client: {unauthenticated: true, meshTLS: {identities: ['*']}}}",
        "spec.client.meshTLS",
    ),
    rule(
        BETA,
        "ServerAuthorization",
        "{server: {name: web}, client: {meshTLS: {unauthenticatedTLS: true}}}",
        "{server: {name: web}, client: {meshTLS: {unauthenticatedTLS: true, identities: ['*']}}}",
        "spec.client.meshTLS.identities",
    ),
    rule(
        BETA,
        "ServerAuthorization",
        "{server: {name: web}, client: {unauthenticated: true, networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]}}",
        "{server: {name: web}, client: {unauthenticated: true, networks: [{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]}}",
        "spec.client.networks[0].except[0]",
    ),
    rule(
        BETA,
        "ServerAuthorization",
        "{server: {name: web}, client: {unauthenticated: true}}",
        "{server: {name: web}, client: {unauthenticated: false}}",
        "spec.client",
    ),
    rule(
        ALPHA,
        "AuthorizationPolicy",
        target!("requiredAuthenticationRefs: []"),
        "{targetRef: {kind: Namespace, name: other}, requiredAuthenticationRefs: []}",
        "spec.targetRef.name",
    ),
    rule(
        ALPHA,
        "AuthorizationPolicy",
        target!("requiredAuthenticationRefs: [{kind: ServiceAccount, name: a}]"),
        target!(
            "requiredAuthenticationRefs: [{kind: ServiceAccount, name: a}, {kind: ServiceAccount, name: b}]"
        ),
        "spec.requiredAuthenticationRefs[1]",
    ),
    rule(
        ALPHA,
        "AuthorizationPolicy",
        target!(
            "requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: a}]"
        ),
        target!(
            "requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: a}, {group: policy.linkerd.io, kind: NetworkAuthentication, name: b}]"
        ),
        "spec.requiredAuthenticationRefs[1]",
    ),
    rule(
        ALPHA,
        "AuthorizationPolicy",
        target!("requiredAuthenticationRefs: []"),
        target!("requiredAuthenticationRefs: [{kind: Pod, name: a}]"),
        "spec.requiredAuthenticationRefs[0].kind",
    ),
    rule(
        ALPHA,
        "AuthorizationPolicy",
        target!("requiredAuthenticationRefs: []"),
        "{targetRef: {kind: Service, name: web}, requiredAuthenticationRefs: []}",
        "spec.targetRef.kind",
    ),
    rule(
        ALPHA,
        "MeshTLSAuthentication",
        "{identities: ['*.a', 'spiffe://td/a']}",
        "{identities: ['a.*.b']}",
        "spec.identities[0]",
    ),
    rule(
        ALPHA,
        "MeshTLSAuthentication",
        "{identityRefs: [{kind: Namespace, name: a}]}",
        "{identityRefs: [{kind: Namespace, name: a, namespace: b}]}",
        "spec.identityRefs[0].namespace",
    ),
    rule(
        ALPHA,
        "NetworkAuthentication",
        "{networks: [{cidr: 10.0.0.0/8}]}",
        "{networks: [{cidr: 10.0.0.0/33}]}",
        "spec.networks[0].cidr",
    ),
    rule(
        ALPHA,
        "NetworkAuthentication",
        "{networks: [{cidr: 10.0.0.0/8}]}",
        "{networks: []}",
        "spec.networks",
    ),
    rule(
        ALPHA,
        "HTTPLocalRateLimitPolicy",
        target!("total: {requestsPerSecond: 9}, identity: {requestsPerSecond: 9}"),
        target!("total: {requestsPerSecond: 9}, identity: {requestsPerSecond: 10}"),
        "spec.identity.requestsPerSecond",
    ),
    rule(
        ALPHA,
        "HTTPLocalRateLimitPolicy",
        target!("total: {requestsPerSecond: 1}"),
        target!("total: {requestsPerSecond: 0}"),
        "spec.total.requestsPerSecond",
    ),
    rule(
        ALPHA,
        "HTTPLocalRateLimitPolicy",
        target!("total: {requestsPerSecond: 1}"),
        "{targetRef: {kind: Namespace, name: a}, total: {requestsPerSecond: 1}}",
        "spec.targetRef.kind",
    ),
    rule(
        SERVER,
        "HTTPRoute",
        route!("{matches: [{path: {value: /a}}]}"),
        route!("{matches: [{path: {value: a}}]}"),
        "spec.rules[0].matches[0].path.value",
    ),
    rule(
        SERVER,
        "HTTPRoute",
        route!("{timeouts: {request: 2s, backendRequest: 1s}}"),
        route!("{timeouts: {request: 1s, backendRequest: 2s}}"),
        "spec.rules[0].timeouts.backendRequest",
    ),
    rule(
        GATEWAY,
        "HTTPRoute",
        route!("{matches: [{path: {type: RegularExpression, value: '/a+'}}]}"),
        route!("{matches: [{path: {type: RegularExpression, value: '/a('}}]}"),
        "spec.rules[0].matches[0].path.value",
    ),
    rule(
        GATEWAY,
        "HTTPRoute",
        route!("{backendRefs: [{name: b, port: 80}]}"),
        route!("{backendRefs: [{name: b}]}"),
        "spec.rules[0].backendRefs[0].port",
    ),
    rule(
        GATEWAY,
        "GRPCRoute",
        route!("{matches: [{method: {service: a.B}}]}"),
        route!("{matches: [{method: {type: RegularExpression, service: a.B}}]}"),
        "spec.rules[0].matches[0].method.type",
    ),
    rule(
        "gateway.networking.k8s.io/v1beta1",
        "ReferenceGrant",
        "{from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: a}], to: [{group: policy.linkerd.io, kind: MeshTLSAuthentication}]}",
        "{from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: a}], to: [{group: policy.linkerd.io, kind: MeshTLSAuthentication}, {group: policy.linkerd.io, kind: '9'}]}",
        "spec.to[1].kind",
    ),
    rule(
        "workload.linkerd.io/v1beta1",
        "ExternalWorkload",
        "{meshTLS: {identity: a.b, serverName: a.b}, workloadIPs: [{ip: 192.0.2.1}]}",
        "{meshTLS: {identity: a.b, serverName: a.b}, workloadIPs: [{ip: everywhere}]}",
        "spec.workloadIPs[0].ip",
    ),
];

impl Rule {
    fn object(&self, namespace: &str, spec: &str) -> Value {
        document(&format!(
            "apiVersion: {}\nkind: {}\nmetadata: {{name: one, namespace: {namespace}}}\n\
             spec: {spec}\n",
            self.api, self.kind
        ))
    }
}

/// True if the webhook refused it, and not a schema.
fn by_webhook(answer: &Answer) -> bool {
    answer.status == 422 && answer.message().contains(".admission.portcullis.dev")
}

#[tokio::test]
async fn every_rule_is_kept_with_our_definitions_and_with_linkerds() {
    let Some(ours) = super::cluster().await else { return };
    let schemas = every_rule_is_kept(ours).await;
    let Some(theirs) = cluster_or_skip(ClusterBuilder::default()).await else { return };
    theirs.install_linkerd_crds().await.unwrap();
    let without = every_rule_is_kept(&theirs).await;
    assert!(without <= schemas, "Linkerd's definitions are stricter than ours");
    assert!(without * 4 < RULES.len(), "hardly anything reaches the webhook");
}

/// Returns how many objects a definition refused before the webhook was asked.
async fn every_rule_is_kept(cluster: &Cluster) -> usize {
    let client = cluster.client();
    let (mesh, namespace) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("rules").await.unwrap());
    let webhook = Webhook::start(cluster, &mesh).await;
    let installation = Installation {
        name: format!("rules-{namespace}"),
        namespace: mesh,
        target: webhook.target(),
        ca_bundle: Some(webhook.pair.certificate_pem.clone().into_bytes()),
    };
    let installed = Installed::new(&client, &installation, &[&namespace]).await;
    installed.effective(&client, &namespace).await;
    let mut by_schema = 0;
    for rule in RULES {
        let (good, bad) = (rule.object(&namespace, rule.good), rule.object(&namespace, rule.bad));
        let refused = apply(&client, &bad).await;
        assert!(!refused.is_done(), "{bad}");
        if by_webhook(&refused) {
            assert_named(rule, &refused);
        } else {
            assert_eq!(refused.status, 422, "{refused:?}");
            by_schema += 1;
        }
        let created = apply(&client, &good).await;
        assert!(created.is_done(), "{good}: {created:?}");
        // What exists is not made invalid either, and stays as it is.
        let changed = try_apply(&client, &bad).await;
        assert_eq!(changed.status, 422, "{bad}: {changed:?}");
        assert!(delete(&client, &good).await.is_done());
    }
    installed.remove().await;
    by_schema
}

/// The message names the field, and programs find it too.
fn assert_named(rule: &Rule, refused: &Answer) {
    let message = refused.message();
    assert!(message.contains(&format!("{}: ", rule.field)), "{}: {message}", rule.field);
    let details = &refused.body["details"];
    assert_eq!(details["kind"], rule.kind, "{refused:?}");
    assert_eq!(details["name"], "one", "{refused:?}");
    let fields: Vec<&str> = details["causes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    assert!(fields.contains(&rule.field), "{refused:?}");
}
