//! `AdmissionReview` v1 as the API server sends and expects it. What is sent is read leniently: only
//! the uid must be answered, whatever else is wrong.

use serde::Serialize;
use serde_json::Value;

/// The version that is answered where the request names none that is known.
const V1: &str = "admission.k8s.io/v1";
/// The version before it, which has the same fields.
const V1BETA1: &str = "admission.k8s.io/v1beta1";

/// The refusal of a body that is not a review.
pub(crate) const NO_REQUEST: &str = "the body is not an AdmissionReview: it has no `request`, or one \
                                     with a `uid` of more than 256 bytes";

/// The most bytes of a uid, which is answered as it came.
const UID: usize = 256;
/// The most bytes of what an answer says: of the message for people, of any other text, and how many
/// texts there are. An object's own text comes back in them.
const MESSAGE: usize = 16 * 1024;
const TEXT: usize = 1024;
const TEXTS: usize = 64;

/// What the API server asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionRequest<'a> {
    /// Echoed in the answer.
    pub(crate) uid: &'a str,
    /// Group of the kind as it is sent.
    pub(crate) group: &'a str,
    /// The kind as it is sent.
    pub(crate) kind: &'a str,
    /// `status`, `scale`, …; empty: the object itself.
    pub(crate) subresource: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'a str,
    /// Namespace of the object; empty for cluster-scoped kinds.
    pub(crate) namespace: &'a str,
    /// Name of the object; empty where the API server has yet to make one.
    pub(crate) name: &'a str,
    /// The object as it is to be.
    pub(crate) object: Option<&'a Value>,
    /// The object as it is.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> AdmissionRequest<'a> {
    /// The request of a review; absent where there is none.
    pub(crate) fn read(review: &'a Value) -> Option<Self> {
        let request = review.get("request").filter(|request| request.is_object())?;
        let object = |name: &str| request.get(name).filter(|value| !value.is_null());
        let kind = request.get("kind").unwrap_or(&Value::Null);
        let uid = text(request, "uid");
        if uid.len() > UID {
            return None;
        }
        Some(Self {
            uid,
            group: text(kind, "group"),
            kind: text(kind, "kind"),
            subresource: text(request, "subResource"),
            operation: text(request, "operation"),
            namespace: text(request, "namespace"),
            name: text(request, "name"),
            object: object("object"),
            old: object("oldObject"),
        })
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The version to answer a review in.
pub(crate) fn version(review: &Value) -> &'static str {
    if text(review, "apiVersion") == V1BETA1 { V1BETA1 } else { V1 }
}

/// What the API server is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReviewResponse {
    api_version: &'static str,
    kind: &'static str,
    response: AdmissionResponse,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct AdmissionResponse {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    patch: Option<JsonPatch>,
}

/// A change of the object that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonPatch {
    patch_type: &'static str,
    /// A JSON Patch in base64.
    patch: String,
}

/// A refusal, as clients get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Status {
    /// For people.
    pub(crate) message: String,
    /// For programs.
    pub(crate) reason: &'static str,
    /// HTTP status.
    pub(crate) code: u16,
    /// The object and every broken rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Details>,
}

/// What a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Details {
    /// Name of the object.
    pub(crate) name: String,
    /// Group of its kind.
    pub(crate) group: String,
    /// Its kind.
    pub(crate) kind: String,
    /// One per broken rule.
    pub(crate) causes: Vec<Cause>,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    /// For programs.
    pub(crate) reason: &'static str,
    /// What is wrong and what is allowed.
    pub(crate) message: String,
    /// The field.
    pub(crate) field: String,
}

impl ReviewResponse {
    /// The request may go on.
    pub(crate) fn allow(version: &'static str, uid: &str, warnings: Vec<String>) -> Self {
        Self::new(version, uid, None, warnings)
    }

    /// The request may go on, changed by a JSON Patch in base64.
    pub(crate) fn patch(
        version: &'static str,
        uid: &str,
        patch: String,
        warnings: Vec<String>,
    ) -> Self {
        let mut answer = Self::new(version, uid, None, warnings);
        answer.response.patch = Some(JsonPatch { patch_type: "JSONPatch", patch });
        answer
    }

    /// The request is refused.
    pub(crate) fn deny(version: &'static str, uid: &str, status: Status) -> Self {
        Self::new(version, uid, Some(status.bounded()), Vec::new())
    }

    /// Tells whether it answers a review, which has a uid.
    pub(crate) fn has_uid(&self) -> bool {
        !self.response.uid.is_empty()
    }

    fn new(
        api_version: &'static str,
        uid: &str,
        status: Option<Status>,
        warnings: Vec<String>,
    ) -> Self {
        let allowed = status.is_none();
        let warnings = bounded(warnings, |warning| cut(warning, TEXT));
        let response =
            AdmissionResponse { uid: uid.to_owned(), allowed, status, warnings, patch: None };
        Self { api_version, kind: "AdmissionReview", response }
    }
}

impl Status {
    /// A refusal that is about the request itself, not about a field of its object.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: "BadRequest", code: 400, details: None }
    }

    /// The same, of a bounded length.
    fn bounded(self) -> Self {
        let details = self.details.map(|Details { name, group, kind, causes }| Details {
            name: cut(name, TEXT),
            group: cut(group, TEXT),
            kind: cut(kind, TEXT),
            causes: bounded(causes, |Cause { reason, message, field }| Cause {
                reason,
                message: cut(message, TEXT),
                field: cut(field, TEXT),
            }),
        });
        Self { message: cut(self.message, MESSAGE), details, ..self }
    }
}

fn bounded<T>(all: Vec<T>, one: impl FnMut(T) -> T) -> Vec<T> {
    all.into_iter().take(TEXTS).map(one).collect()
}

/// A text of at most so many bytes, and an ellipsis where it was longer.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.shrink_to_fit();
        text.push('…');
    }
    text
}
