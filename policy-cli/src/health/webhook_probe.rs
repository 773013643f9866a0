//! Checks that the API server gets responses of the webhook, with an object that only the webhook
//! rejects and that is not persisted (`dryRun=All`).

use super::snapshot::ProbeResponse;
use crate::cluster::Cluster;
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchError;
use crate::diagnostics::result::CheckResult;
use http::{Method, header};
use http_body_util::BodyExt;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhook;
use kube::client::Body;
use policy_webhooks::admission::{Installation, Target, configuration};
use serde_json::{Value, json};

/// Resource of the probe object.
const RESOURCE: &str = "networkauthentications";

/// Sends an object that only the webhook rejects: an exception outside of its network.
pub(super) async fn send(cluster: &Cluster, namespace: &str) -> ProbeResponse {
    let object = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthentication",
        "metadata": {"name": "portcullis-health-asks", "namespace": namespace},
        "spec": {"networks": [{"cidr": "10.0.0.0/8", "except": ["192.0.2.0/24"]}]},
    });
    let response =
        |status, message| ProbeResponse { namespace: namespace.to_owned(), status, message };
    match post(cluster, namespace, &object).await {
        Ok((status, message)) => response(status, message),
        Err(message) => response(0, message),
    }
}

async fn post(cluster: &Cluster, namespace: &str, object: &Value) -> Result<(u16, String), String> {
    let message = |error: &dyn std::error::Error| crate::cluster::error_chain(error);
    let path =
        format!("/apis/policy.linkerd.io/v1alpha1/namespaces/{namespace}/{RESOURCE}?dryRun=All");
    let body = serde_json::to_vec(object).map_err(|error| message(&error))?;
    let request = http::Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(|error| message(&error))?;
    let response = cluster.client.send(request).await.map_err(|error| message(&error))?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| message(&error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
    Ok((status, message.to_owned()))
}

/// The webhook that is called for such an object.
fn webhook() -> String {
    let installation = Installation {
        name: String::new(),
        namespace: String::new(),
        target: Target::Url(String::new()),
        ca_bundle: None,
    };
    let matches_resource = |webhook: &ValidatingWebhook| {
        let rules = webhook.rules.iter().flatten();
        let mut resources = rules.flat_map(|rule| rule.resources.iter().flatten());
        resources.any(|resource| resource == RESOURCE)
    };
    let mut all = configuration(&installation).webhooks.into_iter().flatten();
    all.find(matches_resource).map(|webhook| webhook.name).unwrap_or_default()
}

/// Evaluates the response. Other webhooks are called for the same object, so only messages with
/// this webhook's name count.
pub(super) fn evaluate(response: &ProbeResponse) -> CheckResult {
    let check = Check::WebhookAnswers;
    let ProbeResponse { namespace, status, message } = response;
    let name = webhook();
    let denied = message.contains(&format!("admission webhook \"{name}\" denied the request"));
    let silent = message.contains(&format!("failed calling webhook \"{name}\""));
    match *status {
        _ if denied => {
            CheckResult::pass(check, "the API server calls the webhook and gets its response")
        }
        200..300 => CheckResult::fail(
            check,
            format!(
                "the API server accepts an invalid policy in namespace {namespace}: no webhook call"
            ),
            format!(
                "see the ValidatingWebhookConfiguration, and whether namespace {namespace} has the \
                 label config.linkerd.io/admission-webhooks=disabled"
            ),
        ),
        _ if silent => CheckResult::fail(
            check,
            format!("the API server gets no response from the webhook: {message}"),
            "certificates: the lines above and below; no connection: NetworkPolicies and firewalls \
             between the API server and the controller's pods (networkPolicy.admissionFrom)",
        ),
        403 if message.contains("cannot create resource") => {
            let right = format!(
                "{{apiGroups: [policy.linkerd.io], resources: [{RESOURCE}], verbs: [create]}} in \
                 namespace {namespace} (nothing is created: dryRun)"
            );
            CheckResult::unknown(
                check,
                &FetchError::Forbidden { permission: right, message: message.clone() },
            )
        }
        0 => CheckResult::unknown(check, &FetchError::Failed(message.clone())),
        _ => {
            let message = format!(
                "whether {name} responds: the API server returns {status} for another reason: \
                 {message}"
            );
            CheckResult::unknown(check, &FetchError::Failed(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::CheckOutcome;

    #[test]
    fn a_refusal_of_the_webhook_is_the_answer_that_is_hoped_for() {
        let of = |status, message: &str| {
            let (namespace, message) = ("shop".to_owned(), message.to_owned());
            evaluate(&ProbeResponse { namespace, status, message })
        };
        let ours = "\"policy.admission.portcullis.dev\"";
        let refused = format!("admission webhook {ours} denied the request: …");
        assert_eq!(of(422, &refused).outcome, CheckOutcome::Pass);
        assert_eq!(of(201, "").outcome, CheckOutcome::Fail);
        let away = format!("Internal error occurred: failed calling webhook {ours}: x509: unknown");
        assert_eq!(of(500, &away).outcome, CheckOutcome::Fail);
        let forbidden = of(
            403,
            "networkauthentications.policy.linkerd.io is forbidden: User \"jane\" cannot create \
             resource \"networkauthentications\"",
        );
        assert_eq!(forbidden.outcome, CheckOutcome::Unknown);
        assert!(forbidden.hint.unwrap().contains("verbs: [create]"));
        let gone = of(404, "the server could not find the requested resource");
        assert_eq!((gone.outcome, gone.hint), (CheckOutcome::Unknown, None));
        let away = of(0, "connection refused");
        assert_eq!((away.outcome, away.hint), (CheckOutcome::Unknown, None));
    }

    #[test]
    fn what_others_answer_says_nothing_of_the_webhook() {
        for (status, message) in [
            (400, "admission webhook \"validate.kyverno.svc\" denied the request: no label"),
            (403, "admission webhook \"validate.kyverno.svc\" denied the request: no label"),
            (403, "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request"),
            (500, "Internal error occurred: failed calling webhook \"mutate.kyverno.svc\": EOF"),
        ] {
            let (namespace, message) = ("shop".to_owned(), message.to_owned());
            let said = evaluate(&ProbeResponse { namespace, status, message: message.clone() });
            assert_eq!((said.outcome, said.hint), (CheckOutcome::Unknown, None), "{message}");
            assert!(said.message.ends_with(&message), "{}", said.message);
        }
    }
}
