//! What is asked of the API server, and why it fails.

use super::merge::Item;
use super::worse::{Worse, worse};
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

/// Who the fields of a status belong to.
pub(crate) const FIELD_MANAGER: &str = "portcullis-policy-controller";

/// How many objects are listed at once.
const PAGE: u32 = 250;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The API server refuses.
    #[error("{code}: {message}")]
    Refused {
        /// Status code.
        code: u16,
        /// In its words.
        message: String,
        /// After how long it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// No connection, or no answer that could be read.
    #[error("{0}")]
    Unreachable(String),
}

impl Failure {
    /// The status code; 0 without one.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Timeout(_) | Self::Unreachable(_) => 0,
        }
    }

    /// Whether it is the API server that cannot do more now, whatever the object.
    pub(crate) fn is_overload(&self) -> bool {
        matches!(self.code(), 0 | 429 | 500..)
    }
}

impl From<kube::Error> for Failure {
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

/// What a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A status subresource, in this version.
    Status(&'static str),
    /// No status subresource.
    NoStatus(&'static str),
    /// The kind is not there.
    Absent,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    /// Where it goes on.
    #[serde(default)]
    pub(crate) metadata: PageMeta,
    /// The objects.
    #[serde(default = "Vec::new")]
    pub(crate) items: Vec<Item>,
}

/// Where a list goes on.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PageMeta {
    /// Opaque; empty or absent: it ends here.
    #[serde(default, rename = "continue")]
    pub(crate) token: Option<String>,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default = "Vec::new")]
    resources: Vec<ResourceName>,
}

#[derive(Deserialize)]
struct ResourceName {
    name: String,
}

/// The requests that are made, each with a bound on its time.
#[derive(Clone)]
pub(crate) struct StatusApi {
    client: Client,
    timeout: Duration,
}

impl StatusApi {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// Which version of a kind to use, and whether it has a status.
    pub(crate) async fn discover(&self, kind: Kind) -> Result<Found, Failure> {
        if kind.group().is_empty() {
            // What those have is written by others.
            return Ok(Found::NoStatus("v1"));
        }
        for version in kind.versions() {
            let path = format!("/apis/{}/{version}", kind.group());
            let list: ResourceList = match self.get_json(&path).await {
                Ok(list) => list,
                Err(failure) if failure.code() == 404 => continue,
                // Whoever may not ask what there is can only try.
                Err(failure) if failure.code() == 403 => return Ok(Found::Status(version)),
                Err(failure) => return Err(failure),
            };
            let has = |name: &str| list.resources.iter().any(|resource| resource.name == name);
            if has(&format!("{}/status", kind.plural())) {
                return Ok(Found::Status(version));
            }
            if has(kind.plural()) {
                return Ok(Found::NoStatus(version));
            }
        }
        Ok(Found::Absent)
    }

    /// One page of the objects of a kind, in one namespace or in all.
    pub(crate) async fn page(
        &self,
        (kind, version): (Kind, &str),
        namespace: Option<&str>,
        token: Option<&str>,
    ) -> Result<Page, Failure> {
        let within = namespace.map(|name| format!("namespaces/{name}/")).unwrap_or_default();
        let more = token.map(|token| format!("&continue={}", escaped(token))).unwrap_or_default();
        let (group, plural) = (kind.group(), kind.plural());
        let path = format!("/apis/{group}/{version}/{within}{plural}?limit={PAGE}{more}");
        self.get_json(&path).await
    }

    /// An object.
    pub(crate) async fn get(&self, key: &ObjectKey, version: &str) -> Result<Item, Failure> {
        self.get_json(&path(key, version)).await
    }

    /// Writes a status over the version of the object that was read.
    pub(crate) async fn write(
        &self,
        key: &ObjectKey,
        version: &str,
        read: &Item,
        status: Value,
    ) -> Result<(), Failure> {
        let metadata = json!({
            "name": &*key.name,
            "namespace": &*key.namespace,
            "resourceVersion": read.metadata.resource_version,
        });
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
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Result<(), Failure> {
        let target = format!("{path}?fieldManager={FIELD_MANAGER}");
        let request = request(Method::POST, &target, Some(("application/json", body)))?;
        self.bounded(self.client.request::<Value>(request)).await.map(drop)
    }

    async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = request(Method::GET, path, None)?;
        self.bounded(self.client.request(request)).await
    }

    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer.map_err(Failure::from),
            Err(_) => Err(Failure::Timeout(self.timeout)),
        }
    }
}

fn request(
    method: Method,
    target: &str,
    body: Option<(&str, &Value)>,
) -> Result<Request<Vec<u8>>, Failure> {
    let request = Request::builder().method(method).uri(target);
    let made = match body {
        Some((kind, body)) => {
            request.header("content-type", kind).body(body.to_string().into_bytes())
        }
        None => request.body(Vec::new()),
    };
    made.map_err(|error| Failure::Unreachable(format!("{target}: {error}")))
}

fn path(key: &ObjectKey, version: &str) -> String {
    let (group, plural) = (key.kind.group(), key.kind.plural());
    format!("/apis/{group}/{version}/namespaces/{}/{plural}/{}", key.namespace, key.name)
}

/// A token of the API server's as part of a query.
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

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something was written.
    Written,
    /// It is as it should be.
    Unchanged,
    /// The object has moved on or is gone.
    Superseded,
    /// By its clock this replica does not lead at this moment.
    NotLeading,
    /// The kind has no status after all.
    NoStatus,
    /// It is to be tried again.
    Failed(Failure),
}

/// How many times one object is read again because somebody else wrote it in between.
const CONFLICTS: usize = 3;

/// Brings the status of one object up to date; with what got worse by what was written.
pub(crate) async fn update(
    api: &StatusApi,
    (key, version): (&ObjectKey, &str),
    desired: &super::desired::Desired,
    controller: &Arc<str>,
    may_write: impl Fn() -> bool,
) -> (Outcome, Vec<Worse>) {
    let alone = |outcome| (outcome, Vec::new());
    let mut conflict = None;
    for _ in 0..CONFLICTS {
        let item = match api.get(key, version).await {
            Ok(item) => item,
            Err(failure) if failure.code() == 404 => return alone(Outcome::Superseded),
            Err(failure) => return alone(Outcome::Failed(failure)),
        };
        if !is_about(&item, desired) {
            return alone(Outcome::Superseded);
        }
        let now = jiff::Timestamp::now();
        let status = super::merge::status(key.kind, &item, desired, controller, now);
        let Some(status) = status else { return alone(Outcome::Unchanged) };
        if !may_write() {
            return alone(Outcome::NotLeading);
        }
        let worse = worse(&item.status, &status, controller);
        match api.write(key, version, &item, status).await {
            Ok(()) => return (Outcome::Written, worse),
            // The object has gone meanwhile, or what is missing is the subresource.
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

/// Whether what is to be told is about this version of the object.
pub(crate) fn is_about(item: &Item, desired: &super::desired::Desired) -> bool {
    let differ = |a: &Option<i64>, b: &Option<i64>| a.is_some() && b.is_some() && a != b;
    let other = desired.uid.is_some() && item.metadata.uid.as_deref() != desired.uid.as_deref();
    !other && !differ(&item.metadata.generation, &desired.generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::desired::Desired;
    use crate::testing::{answer, client, refused};
    use policy_engine::conditions::{ConditionKind, ObjectCondition, Reason};
    use policy_engine::desired_conditions::DesiredConditions;
    use policy_engine::testing::key;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What becomes of a Server that is there when it is read, is answered `write` when its status is
    /// written, and is there or not afterwards.
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
        };
        let conditions = Arc::from([condition]);
        let stated = DesiredConditions { conditions, generation: Some(1), uid: Some("u".into()) };
        let desired = Desired::new(&server, &stated, None);
        let api = StatusApi::new(client, Duration::from_secs(5));
        let place = (&server, "v1beta3");
        let (outcome, _) = update(&api, place, &desired, &"a.dev/c".into(), || leads).await;
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
}
