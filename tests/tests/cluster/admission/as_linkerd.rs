//! The promises of the admission tests of Linkerd's policy-test (`admit_*.rs`), by their names, kept
//! by the binary with `--linkerd-compatible` and the configuration that is documented for it; and
//! routes with filters that only another controller applies.

use super::api::{Answer, PATIENCE, apply, document, path, send, try_apply, until};
use super::binary::{broken, install};
use super::webhook::Installed;
use http::Method;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, Client};
use policy_kube::rbac;
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use policy_webhooks::admission::{Installation, Target, outbound_webhook};
use serde_json::Value;
use std::time::Instant;

const ACCOUNT: &str = "policy-controller";
const CONFIGURATION: &str =
    include_str!("../../../../docs/admission-webhook-linkerd-compatible.yaml");

/// The kinds, as the table names them.
const KINDS: [(&str, &str, &str); 10] = [
    ("policy", "policy.linkerd.io/v1alpha1", "AuthorizationPolicy"),
    ("server", "policy.linkerd.io/v1beta3", "Server"),
    ("saz", "policy.linkerd.io/v1beta1", "ServerAuthorization"),
    ("meshtls", "policy.linkerd.io/v1alpha1", "MeshTLSAuthentication"),
    ("network", "policy.linkerd.io/v1alpha1", "NetworkAuthentication"),
    ("ratelimit", "policy.linkerd.io/v1alpha1", "HTTPLocalRateLimitPolicy"),
    ("httproute", "policy.linkerd.io/v1beta3", "HTTPRoute"),
    ("gateway", "gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("grpc", "gateway.networking.k8s.io/v1", "GRPCRoute"),
    ("egress", "policy.linkerd.io/v1alpha1", "EgressNetwork"),
];

/// Kind, name of the test, and the spec; `$` with a letter stands for what `expanded` says. A name
/// begins with the verdict.
const PROMISES: &[(&str, &str, &str)] = &[
    ("policy", "accepts_valid", "{targetRef: $S, requiredAuthenticationRefs: [$M, $N]}"),
    (
        "policy",
        "accepts_targets_namespace",
        "{targetRef: {kind: Namespace, name: $n}, requiredAuthenticationRefs: [$M, $N]}",
    ),
    (
        "policy",
        "rejects_targets_other_namespace",
        "{targetRef: {kind: Namespace, name: foobar}, requiredAuthenticationRefs: [$M, $N]}",
    ),
    (
        "policy",
        "accepts_targets_route",
        "{targetRef: {group: policy.linkerd.io, kind: HttpRoute, name: foo}, requiredAuthenticationRefs: [$M, $N]}",
    ),
    (
        "policy",
        "accepts_valid_with_only_meshtls",
        "{targetRef: $S, requiredAuthenticationRefs: [$M]}",
    ),
    (
        "policy",
        "accepts_valid_with_only_network",
        "{targetRef: $S, requiredAuthenticationRefs: [$N]}",
    ),
    (
        "policy",
        "accepts_empty_required_authentications",
        "{targetRef: $S, requiredAuthenticationRefs: []}",
    ),
    ("policy", "rejects_missing_required_authentications", "{targetRef: $S}"),
    (
        "policy",
        "rejects_target_ref_deployment",
        "{targetRef: {group: apps, kind: Deployment, name: a}, requiredAuthenticationRefs: [$N]}",
    ),
    (
        "policy",
        "rejects_duplicate_mtls_authns",
        "{targetRef: $S, requiredAuthenticationRefs: [$M, $M]}",
    ),
    (
        "policy",
        "rejects_duplicate_network_authns",
        "{targetRef: $S, requiredAuthenticationRefs: [$N, $N]}",
    ),
    ("server", "accepts_valid", "{podSelector: {}, port: 80}"),
    (
        "server",
        "rejects_invalid_proxy_protocol",
        "{podSelector: {}, port: 80, proxyProtocol: garbanzo}",
    ),
    (
        "server",
        "rejects_invalid_access_policy",
        "{podSelector: {}, port: 80, accessPolicy: foobar}",
    ),
    ("saz", "accepts_valid", "{server: {name: a}, client: {unauthenticated: true, networks: $G}}"),
    (
        "saz",
        "rejects_except_whole_cidr",
        "{server: {name: a}, client: {unauthenticated: true, networks: $W}}",
    ),
    (
        "saz",
        "rejects_except_not_in_cidr",
        "{server: {name: a}, client: {unauthenticated: true, networks: $O}}",
    ),
    (
        "saz",
        "rejects_invalid_cidr",
        "{server: {name: a}, client: {unauthenticated: true, networks: [{cidr: bogus}]}}",
    ),
    ("meshtls", "accepts_valid_ref", "{identityRefs: [{kind: ServiceAccount, name: default}]}"),
    ("meshtls", "accepts_strings", "{identities: [example.id]}"),
    ("meshtls", "rejects_empty", "{}"),
    (
        "meshtls",
        "rejects_both_refs_and_strings",
        "{identities: [example.id], identityRefs: [{kind: ServiceAccount, name: default}]}",
    ),
    ("network", "accepts_valid", "{networks: $G}"),
    ("network", "accepts_ip_except", "{networks: [{cidr: 10.1.0.0/16, except: [10.1.1.1]}]}"),
    ("network", "rejects_except_whole_cidr", "{networks: $W}"),
    ("network", "rejects_except_not_in_cidr", "{networks: $O}"),
    ("network", "rejects_invalid_cidr", "{networks: [{cidr: 10.1.0.0/16, except: [bogus]}]}"),
    (
        "ratelimit",
        "accepts_valid",
        "{targetRef: $S, total: {requestsPerSecond: 1000}, identity: {requestsPerSecond: 100}, overrides: [{requestsPerSecond: 200, $C}]}",
    ),
    (
        "ratelimit",
        "rejects_target_ref_deployment",
        "{targetRef: {group: apps, kind: Deployment, name: a}, total: {requestsPerSecond: 1000}}",
    ),
    (
        "ratelimit",
        "rejects_identity_rps_higher_than_total",
        "{targetRef: $S, total: {requestsPerSecond: 1000}, identity: {requestsPerSecond: 2000}}",
    ),
    (
        "ratelimit",
        "rejects_overrides_rps_higher_than_total",
        "{targetRef: $S, total: {requestsPerSecond: 1000}, overrides: [{requestsPerSecond: 2000, $C}]}",
    ),
    ("httproute", "accepts_valid", "{parentRefs: [$P], rules: [{$m}]}"),
    ("httproute", "accepts_valid_egress_network", "{parentRefs: [{$E, port: 555}], rules: [{$m}]}"),
    (
        "httproute",
        "rejects_egress_network_parent_with_no_port",
        "{parentRefs: [{$E}], rules: [{$m}]}",
    ),
    (
        "httproute",
        "rejects_relative_path_match",
        "{parentRefs: [$P], rules: [{matches: [{path: {type: Exact, value: foo/bar}}]}]}",
    ),
    (
        "httproute",
        "rejects_relative_redirect_path",
        "{parentRefs: [$P], rules: [{$m, filters: [$R]}]}",
    ),
    ("gateway", "accepts_valid", "{parentRefs: [$P], rules: [{$m}]}"),
    (
        "gateway",
        "accepts_not_implemented_requestmirror",
        "{parentRefs: [$P], rules: [{$m, filters: [{type: RequestMirror, requestMirror: {backendRef: {name: foo, namespace: foo, port: 80}}}]}]}",
    ),
    (
        "gateway",
        "accepts_not_implemented_urlrewrite",
        "{parentRefs: [$P], rules: [{$m, filters: [{type: URLRewrite, urlRewrite: {hostname: foo, path: {type: ReplaceFullPath, replaceFullPath: baz}}}]}]}",
    ),
    (
        "gateway",
        "accepts_not_implemented_extensionref",
        "{parentRefs: [$P], rules: [{$m, filters: [{type: ExtensionRef, extensionRef: {group: '', kind: Service, name: foo}}]}]}",
    ),
    (
        "gateway",
        "accepts_backend_unknown_kind",
        "{parentRefs: [$P], rules: [{$m, backendRefs: [{group: alien.example.com, kind: ExoService, name: foo, namespace: foo}]}]}",
    ),
    (
        "gateway",
        "accepts_backend_service_with_port",
        "{parentRefs: [$P], rules: [{$m, backendRefs: [{group: core, kind: Service, name: foo, namespace: foo, port: 8080}]}]}",
    ),
    (
        "gateway",
        "accepts_backend_service_implicit_with_port",
        "{parentRefs: [$P], rules: [{$m, backendRefs: [{name: foo, namespace: foo, port: 8080}]}]}",
    ),
    (
        "gateway",
        "rejects_relative_path_match",
        "{parentRefs: [$P], rules: [{matches: [{path: {type: Exact, value: foo}}]}]}",
    ),
    (
        "gateway",
        "rejects_relative_redirect_path",
        "{parentRefs: [$P], rules: [{$m, filters: [$R]}]}",
    ),
    (
        "gateway",
        "rejects_backend_service_without_port",
        "{parentRefs: [$P], rules: [{$m, backendRefs: [{group: core, kind: Service, name: foo, namespace: foo}]}]}",
    ),
    (
        "gateway",
        "rejects_backend_service_implicit_without_port",
        "{parentRefs: [$P], rules: [{$m, backendRefs: [{name: foo, namespace: foo}]}]}",
    ),
    ("gateway", "accepts_valid_egress_network", "{parentRefs: [{$E, port: 555}], rules: [{$m}]}"),
    (
        "gateway",
        "rejects_egress_network_parent_with_no_port",
        "{parentRefs: [{$E}], rules: [{$m}]}",
    ),
    (
        "grpc",
        "accepts_valid_egress_network",
        "{parentRefs: [{$E, port: 555}], rules: [{matches: [{method: {type: Exact, service: boo, method: foo}}]}]}",
    ),
    (
        "grpc",
        "rejects_egress_network_parent_with_no_port",
        "{parentRefs: [{$E}], rules: [{matches: [{method: {type: Exact, service: boo, method: foo}}]}]}",
    ),
    ("egress", "accepts_valid", "{trafficPolicy: Allow, networks: $G}"),
    ("egress", "rejects_empty_networks", "{trafficPolicy: Allow, networks: []}"),
];

fn expanded(spec: &str, namespace: &str) -> String {
    let words = [
        ("$S", "{group: policy.linkerd.io, kind: Server, name: api}"),
        ("$M", "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: a}"),
        (
            "$N",
            "{group: policy.linkerd.io, kind: NetworkAuthentication, name: a, namespace: linkerd}",
        ),
        ("$G", "[{cidr: 10.1.0.0/24}, {cidr: 10.1.1.0/24, except: [10.1.1.0/28]}]"),
        ("$W", "[{cidr: 10.1.1.0/24, except: [10.1.0.0/16]}]"),
        ("$O", "[{cidr: 10.1.1.0/24, except: [10.1.2.0/24]}]"),
        ("$C", "clientRefs: [{kind: ServiceAccount, name: sa-1, namespace: linkerd}]"),
        ("$P", "{group: policy.linkerd.io, kind: Server, name: my-server, namespace: $n}"),
        ("$E", "group: policy.linkerd.io, kind: EgressNetwork, name: out, namespace: $n"),
        (
            "$R",
            "{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: foo/bar}}}",
        ),
        ("$m", "matches: [{path: {type: Exact, value: /foo}}]"),
        ("$n", namespace),
    ];
    words.iter().fold(spec.to_owned(), |text, (word, meaning)| text.replace(word, meaning))
}

fn object(api: &str, kind: &str, (namespace, name): (&str, &str), spec: &str) -> Value {
    document(&format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {spec}\n"
    ))
}

/// A controller with the flag, whose webhook is asked about one namespace.
struct Compatible {
    client: Client,
    namespace: String,
    controller: ControllerProcess,
    installed: Installed,
}

impl Compatible {
    async fn start(cluster: &Cluster) -> Self {
        cluster.install_crds().await.unwrap();
        let client = cluster.client();
        let mesh = cluster.namespace("mesh").await.unwrap();
        let namespace = cluster.namespace("as-linkerd").await.unwrap();
        cluster
            .apply(&rbac::manifests(&mesh, ACCOUNT, "portcullis-issuer").unwrap())
            .await
            .unwrap();
        let user = format!("system:serviceaccount:{mesh}:{ACCOUNT}");
        let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
        let flags = [
            "--control-plane-namespace",
            mesh.as_str(),
            "--webhook-names",
            "127.0.0.1",
            "--linkerd-compatible",
        ];
        let controller = ControllerProcess::start(&kubeconfig, &flags).await.unwrap();
        controller.wait_ready().await.unwrap();
        let url = format!("https://{}/", controller.admission().unwrap());
        let installed = install(&client, CONFIGURATION, (&mesh, &namespace), &url).await;
        let refused = |answer: &Answer| {
            answer.status == 422 && answer.message().contains("spec.networks[0].except[0]: ")
        };
        until(&client, &broken(&namespace), "refused by the webhook", refused).await;
        Self { client, namespace, controller, installed }
    }

    fn object(&self, api: &str, kind: &str, name: &str, spec: &str) -> Value {
        object(api, kind, (&self.namespace, name), &expanded(spec, &self.namespace))
    }
}

#[tokio::test]
async fn the_promises_of_linkerds_admission_tests_hold_where_the_controller_is_linkerd_compatible()
{
    // The controller leads.
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    let compatible = Compatible::start(&cluster).await;
    let mut wrong = Vec::new();
    for (kind, test, spec) in PROMISES {
        let (_, api, name) = KINDS.iter().find(|(short, ..)| short == kind).unwrap();
        let answer =
            try_apply(&compatible.client, &compatible.object(api, name, "test", spec)).await;
        let refused = matches!(answer.status, 400 | 403 | 422);
        let held = if test.starts_with("accepts") { answer.is_done() } else { refused };
        if !held {
            wrong.push(format!("{kind} {test}: {} {}", answer.status, answer.message()));
        }
        // What is refused for its outbound part is refused by the webhook, with its field.
        let field = match *test {
            "rejects_empty_networks" => "spec.networks: ",
            "rejects_egress_network_parent_with_no_port" => "spec.parentRefs[0].port: ",
            _ => continue,
        };
        let message = answer.message();
        assert!(message.contains("admission webhook \"outbound.admission"), "{kind}: {answer:?}");
        assert!(message.contains(field), "{kind}: {answer:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // `accepts_server_updates`.
    let server = compatible.object(KINDS[1].1, "Server", "test0", "{podSelector: {}, port: 80}");
    for _ in 0..2 {
        assert!(apply(&compatible.client, &server).await.is_done());
    }
    an_unsupported_filter_has_a_warning_and_a_condition(&compatible).await;
    an_outage_lets_outbound_policy_pass(&compatible).await;
    compatible.installed.remove().await;
}

/// Each is stored with a warning, and its status has the Gateway API's reason.
async fn an_unsupported_filter_has_a_warning_and_a_condition(compatible: &Compatible) {
    let server =
        compatible.object(KINDS[1].1, "Server", "my-server", "{podSelector: {}, port: 81}");
    assert!(apply(&compatible.client, &server).await.is_done());
    let mirror = "RequestMirror, requestMirror: {backendRef: {name: foo, port: 80}}";
    let extension = "ExtensionRef, extensionRef: {group: a.example, kind: Cache, name: foo}";
    let rewrite = "URLRewrite, urlRewrite: {hostname: foo}";
    let rows = [
        ("HTTPRoute", "mirror", mirror),
        ("HTTPRoute", "extension", extension),
        ("HTTPRoute", "rewrite", rewrite),
        ("GRPCRoute", "mirror", mirror),
        ("GRPCRoute", "extension", extension),
    ];
    for (kind, name, filter) in rows {
        let spec = format!("{{parentRefs: [$P], rules: [{{filters: [{{type: {filter}}}]}}]}}");
        let route = compatible.object("gateway.networking.k8s.io/v1", kind, name, &spec);
        let answer = apply(&compatible.client, &route).await;
        assert!(answer.is_done(), "{answer:?}");
        let (filter, _) = filter.split_once(',').unwrap();
        let expected = format!(
            "spec.rules[0].filters[0].type: `{filter}` is not supported here: the rule permits \
             nothing"
        );
        assert!(answer.warnings.contains(&expected), "{kind} {name}: {answer:?}");
        let said = accepted(compatible, &route).await;
        assert_eq!(said["status"], "False", "{kind} {name}: {said}");
        assert_eq!(said["reason"], "UnsupportedValue", "{kind} {name}: {said}");
        let message = said["message"].as_str().unwrap();
        assert!(message.starts_with(&expected), "{kind} {name}: {message}");
    }
    // Its content is another controller's; a filter that cannot be read is refused with its field.
    for (filter, field) in [
        ("{type: URLRewrite}", "spec.rules[0].filters[0]"),
        ("{type: Unknown}", "spec.rules[0].filters[0].type"),
        ("{type: ExtensionRef, extensionRef: 7}", "spec.rules[0].filters[0].extensionRef"),
    ] {
        let spec = format!("{{parentRefs: [$P], rules: [{{filters: [{filter}]}}]}}");
        let route = compatible.object("gateway.networking.k8s.io/v1", "HTTPRoute", "bad", &spec);
        let answer = try_apply(&compatible.client, &route).await;
        assert!(!answer.is_done() && answer.message().contains(field), "{filter}: {answer:?}");
    }
}

/// The condition `Accepted` that a route gets from a controller about its only parent.
async fn accepted(compatible: &Compatible, route: &Value) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let uri = path(route);
        let answer =
            send(&compatible.client, Method::GET, &uri, "application/json", Vec::new()).await;
        let conditions = &answer.body["status"]["parents"][0]["conditions"];
        let mut all = conditions.as_array().into_iter().flatten();
        match all.find(|condition| condition["type"] == "Accepted") {
            // The index may hear of the Server after the route.
            Some(said) if said["reason"] != "NoMatchingParent" => return said.clone(),
            Some(_) | None => {}
        }
        let logs = || compatible.controller.logs();
        assert!(Instant::now() < deadline, "no status: {:?}\n{}", answer.body, logs());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Nothing of outbound policy takes effect here, so that an outage must not stop it.
async fn an_outage_lets_outbound_policy_pass(compatible: &Compatible) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(compatible.client.clone());
    let mut installed = api.get(&compatible.installed.name).await.unwrap();
    let away = outbound_webhook(&Installation {
        name: String::new(),
        namespace: String::new(),
        target: Target::Url("https://127.0.0.1:1/".to_owned()),
        ca_bundle: None,
    });
    let webhooks = installed.webhooks.as_mut().unwrap();
    let outbound = webhooks.iter_mut().find(|webhook| webhook.name == away.name).unwrap();
    outbound.client_config = away.client_config;
    api.replace(&compatible.installed.name, &Default::default(), &installed).await.unwrap();
    let empty = "{trafficPolicy: Allow, networks: []}";
    let network = compatible.object("policy.linkerd.io/v1alpha1", "EgressNetwork", "e", empty);
    until(&compatible.client, &network, "let pass", Answer::is_done).await;
    // Policy still waits for its own webhook, which answers.
    let refused = try_apply(&compatible.client, &broken(&compatible.namespace)).await;
    assert_eq!(refused.status, 422, "{refused:?}");
}
