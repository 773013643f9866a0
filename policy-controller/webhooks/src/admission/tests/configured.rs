//! The ValidatingWebhookConfiguration.

use super::value;
use crate::admission::{Installation, Target, configuration, outbound_webhook};
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
    serde_json::to_value(configuration(&at(target))).unwrap()
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
    let mut made = configuration(&at(service()));
    made.webhooks.as_mut().unwrap().push(outbound_webhook(&at(service())));
    let made = serde_json::to_value(made).unwrap();
    let documented =
        value(include_str!("../../../../../docs/admission-webhook-linkerd-compatible.yaml"));
    assert_eq!(made, documented, "{}", serde_json::to_string_pretty(&made["webhooks"][5]).unwrap());
    assert_eq!(made["webhooks"][5]["failurePolicy"], "Ignore");
}

#[test]
fn what_is_refused_when_nobody_answers_is_policy_and_nothing_else() {
    let made = installation(service());
    let policies: Vec<(&str, &str, Vec<&str>)> = made["webhooks"]
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
        .collect();
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
                    "routeadmissionpolicies",
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
                vec!["httproutes", "httproutes", "grpcroutes"],
            ),
            ("workloads.admission.portcullis.dev", "Ignore", vec!["pods", "namespaces"]),
        ]
    );
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
