//! Requests of the status writer to the API server, and their errors.

use super::degradations::{Degradation, degradations};
use super::item::Item;
use http::{Method, Request};
use kube::Client;
use policy_crds::spec::StatusStyle;
use policy_crds::{Kind, ObjectKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The field manager of our status fields.
pub(crate) const FIELD_MANAGER: &str = "portcullis-policy-controller";

/// Page size of lists.
const PAGE_SIZE: u32 = 250;

/// Error of a request to the API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StatusApiError {
    /// No response in time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The API server responded with an error status.
    #[error("{code}: {message}")]
    Refused {
        /// Status code.
        code: u16,
        /// The message of the `Status`.
        message: String,
        /// The delay that the API server requests before a retry.
        retry_after: Option<Duration>,
    },
    /// No connection, or no response that could be read.
    #[error("{0}")]
    Unreachable(String),
}

impl StatusApiError {
    /// The status code; 0 without one.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Timeout(_) | Self::Unreachable(_) => 0,
        }
    }

    /// True if the API server is overloaded or unreachable, whatever the object.
    pub(crate) fn is_overload(&self) -> bool {
        matches!(self.code(), 0 | 429 | 500..) && !self.is_too_large()
    }

    /// True if the object would be too large with the status. etcd refuses more than 1.5 MiB, which
    /// API servers report as an error of their own, and their client of etcd more than 2 MiB.
    pub(crate) fn is_too_large(&self) -> bool {
        match self {
            Self::Refused { code: 413, .. } => true,
            Self::Refused { code: 500.., message, .. } => {
                message.contains("request is too large") || message.contains("larger than max")
            }
            Self::Refused { .. } | Self::Timeout(_) | Self::Unreachable(_) => false,
        }
    }
}

impl From<kube::Error> for StatusApiError {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            let seconds = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
            let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
            Self::Refused { code: status.code, message: status.message, retry_after }
        } else {
            Self::Unreachable(error.to_string())
        }
    }
}

/// Support of a kind by the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusSupport {
    /// A status subresource, in this version.
    Status(&'static str),
    /// No status subresource; the kind is served in this version.
    NoStatus(&'static str),
    /// The kind is not served.
    Absent,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct ObjectPage {
    /// Metadata of the list.
    #[serde(default)]
    pub(crate) metadata: ObjectPageMeta,
    /// The objects.
    #[serde(default = "Vec::new")]
    pub(crate) items: Vec<Item>,
}

/// Metadata of a list.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ObjectPageMeta {
    /// The continue token; empty or absent on the last page.
    #[serde(default, rename = "continue")]
    pub(crate) token: Option<String>,
}

#[derive(Deserialize)]
struct ApiResourceList {
    #[serde(default = "Vec::new")]
    resources: Vec<ApiResourceName>,
}

#[derive(Deserialize)]
struct ApiResourceName {
    name: String,
}

/// The client of the status writer; each request has a time limit.
#[derive(Clone)]
pub(crate) struct StatusApi {
    client: Client,
    timeout: Duration,
}

impl StatusApi {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// Discovers the version of a kind, and whether it has a status subresource.
    pub(crate) async fn discover(&self, kind: Kind) -> Result<StatusSupport, StatusApiError> {
        if kind.group().is_empty() {
            // The status of core kinds belongs to other controllers.
            return Ok(StatusSupport::NoStatus("v1"));
        }
        for version in kind.versions() {
            let path = format!("/apis/{}/{version}", kind.group());
            let list: ApiResourceList = match self.get_json(&path).await {
                Ok(list) => list,
                Err(failure) if failure.code() == 404 => continue,
                // Without the right to discovery, the version is tried.
                Err(failure) if failure.code() == 403 => return Ok(StatusSupport::Status(version)),
                Err(failure) => return Err(failure),
            };
            let has = |name: &str| list.resources.iter().any(|resource| resource.name == name);
            if has(&format!("{}/status", kind.plural())) {
                return Ok(StatusSupport::Status(version));
            }
            if has(kind.plural()) {
                return Ok(StatusSupport::NoStatus(version));
            }
        }
        Ok(StatusSupport::Absent)
    }

    /// One page of the objects of a kind, in one namespace or in all.
    pub(crate) async fn page(
        &self,
        (kind, version): (Kind, &str),
        namespace: Option<&str>,
        token: Option<&str>,
    ) -> Result<ObjectPage, StatusApiError> {
        let within = namespace.map(|name| format!("namespaces/{name}/")).unwrap_or_default();
        let more = token.map(|token| format!("&continue={}", escaped(token))).unwrap_or_default();
        let (group, plural) = (kind.group(), kind.plural());
        let path = format!("/apis/{group}/{version}/{within}{plural}?limit={PAGE_SIZE}{more}");
        self.get_json(&path).await
    }

    /// Reads an object.
    pub(crate) async fn get(&self, key: &ObjectKey, version: &str) -> Result<Item, StatusApiError> {
        self.get_json(&path(key, version)).await
    }

    /// Writes a status, guarded by the version of the object that was read.
    pub(crate) async fn write(
        &self,
        key: &ObjectKey,
        version: &str,
        read: &Item,
        status: Value,
    ) -> Result<(), StatusApiError> {
        let mut metadata = json!({
            "name": &*key.name,
            "resourceVersion": read.metadata.resource_version,
        });
        if let Some(fields) = metadata.as_object_mut().filter(|_| key.kind.is_namespaced()) {
            fields.insert("namespace".to_owned(), json!(&*key.namespace));
        }
        let body = json!({
            "apiVersion": format!("{}/{version}", key.kind.group()),
            "kind": key.kind.as_str(),
            "metadata": metadata,
            "status": status,
        });
        let (kind, force) = match key.kind.spec().status {
            // YAML is a superset of JSON; this is the type that every API server knows.
            Some(StatusStyle::Apply | StatusStyle::ApplyWithTarget) => {
                ("application/apply-patch+yaml", "&force=true")
            }
            Some(StatusStyle::Replace | StatusStyle::Parents) | None => {
                ("application/merge-patch+json", "")
            }
        };
        let path = path(key, version);
        let target = format!("{path}/status?fieldManager={FIELD_MANAGER}{force}");
        let request = request(Method::PATCH, &target, Some((kind, &body)))?;
        self.bounded(self.client.request::<Value>(request)).await.map(drop)
    }

    /// Creates an object.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Result<(), StatusApiError> {
        let target = format!("{path}?fieldManager={FIELD_MANAGER}");
        let request = request(Method::POST, &target, Some(("application/json", body)))?;
        self.bounded(self.client.request::<Value>(request)).await.map(drop)
    }

    async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, StatusApiError> {
        let request = request(Method::GET, path, None)?;
        self.bounded(self.client.request(request)).await
    }

    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, StatusApiError> {
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer.map_err(StatusApiError::from),
            Err(_) => Err(StatusApiError::Timeout(self.timeout)),
        }
    }
}

fn request(
    method: Method,
    target: &str,
    body: Option<(&str, &Value)>,
) -> Result<Request<Vec<u8>>, StatusApiError> {
    let request = Request::builder().method(method).uri(target);
    let made = match body {
        Some((kind, body)) => {
            request.header("content-type", kind).body(body.to_string().into_bytes())
        }
        None => request.body(Vec::new()),
    };
    made.map_err(|error| StatusApiError::Unreachable(format!("{target}: {error}")))
}

fn path(key: &ObjectKey, version: &str) -> String {
    let (group, plural) = (key.kind.group(), key.kind.plural());
    if !key.kind.is_namespaced() {
        return format!("/apis/{group}/{version}/{plural}/{}", key.name);
    }
    format!("/apis/{group}/{version}/namespaces/{}/{plural}/{}", key.namespace, key.name)
}

/// Percent-encodes a continue token for a query.
fn escaped(token: &str) -> String {
    let mut escaped = String::with_capacity(token.len());
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Outcome of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The status was written.
    Written,
    /// The status was as desired.
    Unchanged,
    /// The object has changed or is gone.
    Superseded,
    /// This replica does not lead at this moment, by its clock.
    NotLeading,
    /// The kind has no status subresource after all.
    NoStatus,
    /// The job has to be retried.
    Failed(StatusApiError),
}

/// Number of attempts at a write that conflicts.
const MAX_CONFLICTS: usize = 3;

/// Brings the status of one object up to date. Returns the degradations of what was written, too.
pub(crate) async fn update(
    api: &StatusApi,
    (key, version): (&ObjectKey, &str),
    desired: &super::desired::DesiredStatus,
    controller: &Arc<str>,
    may_write: impl Fn() -> bool,
) -> (Outcome, Vec<Degradation>) {
    let alone = |outcome| (outcome, Vec::new());
    let mut conflict = None;
    for _ in 0..MAX_CONFLICTS {
        let item = match api.get(key, version).await {
            Ok(item) => item,
            Err(failure) if failure.code() == 404 => return alone(Outcome::Superseded),
            Err(failure) => return alone(Outcome::Failed(failure)),
        };
        if !is_current(&item, desired) {
            return alone(Outcome::Superseded);
        }
        let now = jiff::Timestamp::now();
        let status = super::merge::status(key.kind, &item, desired, controller, now);
        let Some(status) = status else { return alone(Outcome::Unchanged) };
        if !may_write() {
            return alone(Outcome::NotLeading);
        }
        let degraded = degradations(&item.status, &status, controller);
        match api.write(key, version, &item, status).await {
            Ok(()) => return (Outcome::Written, degraded),
            // Either the object has gone meanwhile, or the subresource is missing.
            Err(failure) if matches!(failure.code(), 404 | 405) => {
                return alone(match api.get(key, version).await {
                    Ok(_) => Outcome::NoStatus,
                    Err(failure) if failure.code() == 404 => Outcome::Superseded,
                    Err(failure) => Outcome::Failed(failure),
                });
            }
            Err(failure) if failure.code() == 409 => conflict = Some(failure),
            Err(failure) => return alone(Outcome::Failed(failure)),
        }
    }
    alone(conflict.map_or(Outcome::Superseded, Outcome::Failed))
}

/// True if the desired status is about this version of the object.
pub(crate) fn is_current(item: &Item, desired: &super::desired::DesiredStatus) -> bool {
    let differ = |a: &Option<i64>, b: &Option<i64>| a.is_some() && b.is_some() && a != b;
    let other = desired.uid.is_some() && item.metadata.uid.as_deref() != desired.uid.as_deref();
    !other && !differ(&item.metadata.generation, &desired.generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::desired::DesiredStatus;
    use crate::testing::{answer, client, refused};
    use policy_engine::conditions::{ConditionKind, ObjectCondition, Reason};
    use policy_engine::desired_conditions::DesiredConditions;
    use policy_engine::testing::key;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The outcome for a Server that exists when it is read, whose write is answered by `write`, and
    /// that exists or not afterwards.
    async fn became(write: u16, stays: bool, leads: bool) -> (Outcome, usize) {
        let (reads, writes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = writes.clone();
        let client = client(move |request| {
            let item = json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u",
                "generation": 1, "resourceVersion": "7"}});
            if request.method() == Method::PATCH {
                writes.fetch_add(1, Ordering::Relaxed);
                if write == 200 { answer(200, &item) } else { refused(write) }
            } else if reads.fetch_add(1, Ordering::Relaxed) == 0 || stays {
                answer(200, &item)
            } else {
                refused(404)
            }
        });
        let server = key(Kind::Server, "ns", "s");
        let condition = ObjectCondition {
            object: server.clone(),
            parent: None,
            section: None,
            port: None,
            kind: ConditionKind::Accepted,
            status: true,
            reason: Reason::Accepted,
            message: "".into(),
            hostnames: Vec::new(),
        };
        let conditions = Arc::from([condition]);
        let (generation, uid) = (Some(1), Some("u".into()));
        let stated = DesiredConditions { conditions, generation, uid, fields: None };
        let desired = DesiredStatus::new(&server, &stated, None);
        let api = StatusApi::new(client, Duration::from_secs(5));
        let target = (&server, "v1beta3");
        let (outcome, _) = update(&api, target, &desired, &"a.dev/c".into(), || leads).await;
        (outcome, counted.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn an_object_that_goes_while_it_is_written_does_not_take_the_status_of_its_kind_along() {
        assert_eq!(became(200, true, true).await, (Outcome::Written, 1));
        assert_eq!(became(404, false, true).await, (Outcome::Superseded, 1));
        assert_eq!(became(404, true, true).await, (Outcome::NoStatus, 1));
    }

    #[tokio::test]
    async fn who_does_not_lead_writes_nothing() {
        assert_eq!(became(200, true, false).await, (Outcome::NotLeading, 0));
    }

    #[test]
    fn what_is_too_large_is_the_fault_of_its_object_alone() {
        let refused = |code, message: &str| StatusApiError::Refused {
            code,
            message: message.to_owned(),
            retry_after: None,
        };
        let of_grpc = "rpc error: code = ResourceExhausted desc = trying to send message larger than \
                       max (2097279 vs. 2097152)";
        for too_large in [
            refused(413, "Request entity too large: limit is 3145728"),
            refused(500, "etcdserver: request is too large"),
            refused(500, of_grpc),
        ] {
            assert!(too_large.is_too_large() && !too_large.is_overload(), "{too_large}");
        }
        for other in [
            refused(500, "etcdserver: leader changed"),
            refused(503, "apiserver is shutting down"),
            StatusApiError::Timeout(Duration::from_secs(1)),
            StatusApiError::Unreachable("message larger than max".to_owned()),
        ] {
            assert!(!other.is_too_large() && other.is_overload(), "{other}");
        }
        assert!(!refused(422, "request is too large").is_too_large());
    }

    #[test]
    fn an_object_of_the_cluster_is_in_no_namespace() {
        let policy = key(Kind::RouteAdmissionPolicy, "", "default");
        let expected = "/apis/portcullis.dev/v1alpha1/routeadmissionpolicies/default";
        assert_eq!(path(&policy, "v1alpha1"), expected);
        let server = key(Kind::Server, "ns", "s");
        let expected = "/apis/policy.linkerd.io/v1beta3/namespaces/ns/servers/s";
        assert_eq!(path(&server, "v1beta3"), expected);
    }
}
