//! Requests to the API server whose answers are looked at whole: status, message and warnings.

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use policy_crds::Kind;
use policy_tests::cluster::documents;
use serde_json::Value;
use std::time::Duration;

/// Most that anything may take that is waited for here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Response of the API server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Message of a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// The one document of a text.
pub(crate) fn document(yaml: &str) -> Value {
    let mut all = documents(yaml).unwrap();
    assert_eq!(all.len(), 1, "{yaml}");
    all.remove(0)
}

/// The address of an object.
pub(crate) fn path(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let kind = Kind::find(group, kind).unwrap();
    let root = if group.is_empty() { "/api/v1".into() } else { format!("/apis/{group}/{version}") };
    let name = object["metadata"]["name"].as_str().unwrap();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}/{name}", kind.plural()),
        None => format!("{root}/{}/{name}", kind.plural()),
    }
}

pub(crate) async fn send(
    client: &Client,
    method: Method,
    uri: &str,
    content: &str,
    body: Vec<u8>,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", content)
        .body(Body::from(body))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let status = response.status().as_u16();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| {
            // `299 - "text"`.
            let text = std::str::from_utf8(value.as_bytes()).unwrap();
            let quoted = text.split_once('"').unwrap().1.strip_suffix('"').unwrap();
            quoted.replace("\\\"", "\"")
        })
        .collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, body: serde_json::from_slice(&body).unwrap_or_default(), warnings }
}

/// Creates an object, or updates it.
pub(crate) async fn apply(client: &Client, object: &Value) -> Answer {
    apply_with(client, object, "").await
}

/// Says what applying it would do.
pub(crate) async fn try_apply(client: &Client, object: &Value) -> Answer {
    apply_with(client, object, "&dryRun=All").await
}

async fn apply_with(client: &Client, object: &Value, query: &str) -> Answer {
    let uri = format!("{}?fieldManager=test&force=true{query}", path(object));
    let body = serde_json::to_vec(object).unwrap();
    send(client, Method::PATCH, &uri, "application/apply-patch+yaml", body).await
}

/// Changes what a merge patch says.
pub(crate) async fn merge(client: &Client, object: &Value, suffix: &str, patch: &Value) -> Answer {
    let uri = format!("{}{suffix}", path(object));
    let body = serde_json::to_vec(patch).unwrap();
    send(client, Method::PATCH, &uri, "application/merge-patch+json", body).await
}

pub(crate) async fn delete(client: &Client, object: &Value) -> Answer {
    send(client, Method::DELETE, &path(object), "application/json", Vec::new()).await
}

/// Tries to apply it until the API server answers as `is` says.
pub(crate) async fn until(
    client: &Client,
    object: &Value,
    what: &str,
    is: impl Fn(&Answer) -> bool,
) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = try_apply(client, object).await;
        if is(&answer) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "never {what}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
