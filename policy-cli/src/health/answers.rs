//! Whether the API server gets an answer of the webhook: by an object that only the webhook refuses,
//! and that nobody keeps (`dryRun=All`).

use super::facts::Tried;
use crate::checkup::check::Check;
use crate::checkup::finding::Finding;
use crate::checkup::read::Unread;
use crate::cluster::Cluster;
use http::{Method, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

/// The kind that is sent.
const RESOURCE: &str = "networkauthentications";

/// Sends an object that only the webhook refuses: an exception that is outside of its network.
pub(super) async fn ask(cluster: &Cluster, namespace: &str) -> Tried {
    let object = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthentication",
        "metadata": {"name": "portcullis-health-asks", "namespace": namespace},
        "spec": {"networks": [{"cidr": "10.0.0.0/8", "except": ["192.0.2.0/24"]}]},
    });
    let tried = |status, message| Tried { namespace: namespace.to_owned(), status, message };
    match send(cluster, namespace, &object).await {
        Ok((status, message)) => tried(status, message),
        Err(words) => tried(0, words),
    }
}

async fn send(cluster: &Cluster, namespace: &str, object: &Value) -> Result<(u16, String), String> {
    let words = |error: &dyn std::error::Error| crate::cluster::chain(error);
    let path =
        format!("/apis/policy.linkerd.io/v1alpha1/namespaces/{namespace}/{RESOURCE}?dryRun=All");
    let body = serde_json::to_vec(object).map_err(|error| words(&error))?;
    let request = http::Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(|error| words(&error))?;
    let response = cluster.client.send(request).await.map_err(|error| words(&error))?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| words(&error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
    Ok((status, message.to_owned()))
}

/// What the answer says of the webhook.
pub(super) fn answers(tried: &Tried) -> Finding {
    let check = Check::WebhookAnswers;
    let Tried { namespace, status, message } = tried;
    let denied = message.contains("admission webhook") && message.contains("denied the request");
    match (*status, denied) {
        (_, true) => Finding::pass(check, "the API server asks the webhook and gets its answer"),
        (200..300, _) => Finding::fail(
            check,
            format!(
                "the API server takes a broken policy in namespace {namespace}: it does not ask"
            ),
            format!(
                "see the ValidatingWebhookConfiguration, and whether namespace {namespace} has the \
                 label config.linkerd.io/admission-webhooks=disabled"
            ),
        ),
        (_, _) if message.contains("failed calling webhook") => Finding::fail(
            check,
            format!("the API server gets no answer of the webhook: {message}"),
            "certificates: the lines above and below; no connection: NetworkPolicies and firewalls \
             between the API server and the controller's pods (networkPolicy.admissionFrom)",
        ),
        (403, _) => {
            let right = format!(
                "{{apiGroups: [policy.linkerd.io], resources: [{RESOURCE}], verbs: [create]}} in \
                 namespace {namespace} (nothing is created: dryRun)"
            );
            Finding::unknown(check, &Unread::Forbidden { right, words: message.clone() })
        }
        (_, _) => {
            let words = format!("the API server answers {status}: {message}");
            Finding::unknown(check, &Unread::Failed(words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::finding::Outcome;

    #[test]
    fn a_refusal_of_the_webhook_is_the_answer_that_is_hoped_for() {
        let of = |status, message: &str| {
            let (namespace, message) = ("shop".to_owned(), message.to_owned());
            answers(&Tried { namespace, status, message }).outcome
        };
        let refused = "admission webhook \"policy.admission.portcullis.dev\" denied the request: …";
        assert_eq!(of(422, refused), Outcome::Pass);
        assert_eq!(of(201, ""), Outcome::Fail);
        let away = "Internal error occurred: failed calling webhook \"policy…\": x509: unknown";
        assert_eq!(of(500, away), Outcome::Fail);
        assert_eq!(of(403, "networkauthentications is forbidden"), Outcome::Unknown);
        assert_eq!(of(404, "the server could not find the requested resource"), Outcome::Unknown);
        assert_eq!(of(0, "connection refused"), Outcome::Unknown);
    }
}
