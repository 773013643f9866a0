//! The ValidatingWebhookConfiguration.

use super::value;
use crate::admission::{Installation, Target, cluster_webhook, configuration, outbound_webhook};
use serde_json::{Value, json};

fn at(target: Target) -> Installation {
    Installation {
        name: "portcullis-policy".to_owned(),
        namespace: "linkerd".to_owned(),
        target,
        ca_bundle: None,
    }
}

fn installation(target: Target) -> Value {
    let mut made = configuration(&at(target.clone()));
    made.webhooks.as_mut().unwrap().push(cluster_webhook(&at(target)));
    serde_json::to_value(made).unwrap()
}

fn service() -> Target {
    Target::Service { name: "policy-admission".to_owned(), port: 443 }
}

#[test]
fn the_documented_configuration_is_the_one_that_is_made() {
    let made = installation(service());
    let documented = value(include_str!("../../../../../docs/admission-webhook.yaml"));
    assert_eq!(made, documented, "{}", serde_json::to_string_pretty(&made).unwrap());
}

#[test]
fn the_documented_configuration_of_linkerd_compatible_has_the_outbound_webhook_besides() {
    let mut made = installation(service());
    let outbound = serde_json::to_value(outbound_webhook(&at(service()))).unwrap();
    made["webhooks"].as_array_mut().unwrap().push(outbound);
    let documented =
        value(include_str!("../../../../../docs/admission-webhook-linkerd-compatible.yaml"));
    assert_eq!(made, documented, "{}", serde_json::to_string_pretty(&made["webhooks"][6]).unwrap());
    assert_eq!(made["webhooks"][6]["failurePolicy"], "Ignore");
}

/// The name of each webhook, what happens when it does not answer, and the resources that it reviews.
fn reviewed(made: &Value) -> Vec<(&str, &str, Vec<&str>)> {
    made["webhooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|webhook| {
            let text = |field: &str| webhook[field].as_str().unwrap();
            let resources = webhook["rules"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|rule| rule["resources"].as_array().unwrap())
                .map(|resource| resource.as_str().unwrap());
            (text("name"), text("failurePolicy"), resources.collect())
        })
        .collect()
}

#[test]
fn what_is_refused_when_nobody_answers_is_policy_and_nothing_else() {
    let made = installation(service());
    let policies = reviewed(&made);
    assert_eq!(
        policies,
        [
            (
                "policy.admission.portcullis.dev",
                "Fail",
                vec![
                    "servers",
                    "serverauthorizations",
                    "authorizationpolicies",
                    "meshtlsauthentications",
                    "networkauthentications",
                    "httplocalratelimitpolicies",
                    "inboundroutes",
                    "httproutegroups",
                    "httproutebindings",
                    "httprouteclasses",
                    "grpcservices",
                    "grpcservicebindings",
                    "grpcserviceclasses",
                    "timeoutpolicies",
                    "headerrewritepolicies",
                    "externalworkloads",
                ],
            ),
            (
                "routes.admission.portcullis.dev",
                "Fail",
                vec!["httproutes", "httproutes", "grpcroutes"],
            ),
            ("grants.admission.portcullis.dev", "Fail", vec!["referencegrants"]),
            (
                "deletions.admission.portcullis.dev",
                "Ignore",
                vec![
                    "httproutes",
                    "httproutes",
                    "grpcroutes",
                    "httproutebindings",
                    "grpcservicebindings",
                    "inboundroutes",
                ],
            ),
            ("workloads.admission.portcullis.dev", "Ignore", vec!["pods", "namespaces"]),
            ("cluster.admission.portcullis.dev", "Fail", vec!["routeadmissionpolicies"]),
        ]
    );
}

#[test]
fn objects_of_the_cluster_have_a_webhook_of_their_own() {
    let made = installation(service());
    for webhook in made["webhooks"].as_array().unwrap() {
        let cluster = webhook["name"] == "cluster.admission.portcullis.dev";
        for rule in webhook["rules"].as_array().unwrap() {
            let of_cluster = rule["scope"] == "Cluster";
            let pods = webhook["name"] == "workloads.admission.portcullis.dev";
            assert_eq!(of_cluster, cluster, "{webhook}");
            assert_eq!(rule["scope"] == "*", pods, "Namespaces are selected by their labels");
        }
        assert_eq!(webhook["namespaceSelector"].is_null(), cluster, "it would select nothing");
    }
}

#[test]
fn a_webhook_is_reached_by_its_service_or_by_its_address() {
    let of = |target| installation(target)["webhooks"][0]["clientConfig"].clone();
    assert_eq!(
        of(service()),
        json!({"service": {"name": "policy-admission", "namespace": "linkerd", "path": "/", "port": 443}})
    );
    assert_eq!(of(Target::Url("https://a/".to_owned())), json!({"url": "https://a/"}));
}
