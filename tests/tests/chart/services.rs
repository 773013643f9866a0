//! Replicas that each Service names; a control plane can be created while none answers.

use crate::helm;
use policy_tests::chart::examples;
use serde_json::Value;

/// The objects of a kind.
fn of<'a>(rendered: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    rendered.iter().filter(move |object| object["kind"] == kind)
}

#[test]
fn webhooks_are_asked_of_ready_replicas_alone_and_policies_of_every_replica() {
    let Some(helm) = helm() else { return };
    let mut asked = 0;
    for (example, values) in examples().unwrap() {
        let rendered = helm.objects(&values).unwrap();
        let service = |name: &str| {
            of(&rendered, "Service").find(|service| service["metadata"]["name"] == *name)
        };
        let every = |service: &Value| service["spec"]["publishNotReadyAddresses"] == true;
        let policies = service("portcullis-policy").unwrap();
        assert!(every(policies) && policies["spec"]["clusterIP"] == "None", "{example}");
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            for configuration in of(&rendered, kind) {
                for webhook in configuration["webhooks"].as_array().unwrap() {
                    let name = webhook["clientConfig"]["service"]["name"].as_str().unwrap();
                    assert!(!every(service(name).unwrap()), "{example}: {}", webhook["name"]);
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 0);
}

#[test]
fn the_control_plane_is_created_without_a_webhook_that_answers() {
    let Some(helm) = helm() else { return };
    for (example, values) in examples().unwrap() {
        let rendered = helm.objects(&values).unwrap();
        for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
            for webhook in of(&rendered, kind).flat_map(|one| one["webhooks"].as_array().unwrap()) {
                let rules = webhook["rules"].as_array().unwrap();
                if rules.iter().all(|rule| rule["scope"] == "Cluster") {
                    // No selector of namespaces counts there; the control plane has no such object.
                    let asked = rules.iter().flat_map(|rule| rule["resources"].as_array().unwrap());
                    assert_eq!(asked.collect::<Vec<_>>(), ["routeadmissionpolicies"], "{example}");
                    assert_eq!(of(&rendered, "RouteAdmissionPolicy").count(), 0, "{example}");
                    continue;
                }
                let selector = webhook["namespaceSelector"]["matchExpressions"].as_array();
                let leaves_out = selector.unwrap().iter().any(|part| {
                    let values = part["values"].as_array();
                    part["key"] == "kubernetes.io/metadata.name"
                        && part["operator"] == "NotIn"
                        && values.is_some_and(|values| values.iter().any(|v| v == "portcullis"))
                });
                assert!(leaves_out, "{example}: {}", webhook["name"]);
            }
        }
    }
}
