//! `AdmissionReview` v1 as the API server sends and expects it. Requests are read leniently: the
//! response only has to repeat the uid, whatever else is wrong.

use serde::Serialize;
use serde_json::Value;

/// Default version of responses.
const V1: &str = "admission.k8s.io/v1";
/// The version before v1, with the same fields.
const V1BETA1: &str = "admission.k8s.io/v1beta1";

/// Message of the denial of a body that is not a review.
pub(crate) const NO_REQUEST: &str = "the body is not an AdmissionReview: it has no `request`, or one \
                                     with a `uid` of more than 256 bytes";

/// Maximum length in bytes of a uid, which the response repeats.
const MAX_UID: usize = 256;
/// Limits of a response: bytes of the message, bytes of any other string, and number of strings.
/// They may quote the object.
const MAX_MESSAGE: usize = 16 * 1024;
const MAX_STRING: usize = 1024;
const MAX_STRINGS: usize = 64;

/// The request of an AdmissionReview.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionRequest<'a> {
    /// The uid that the response repeats.
    pub(crate) uid: &'a str,
    /// Group of the object as it is sent.
    pub(crate) group: &'a str,
    /// Kind of the object as it is sent.
    pub(crate) kind: &'a str,
    /// `status`, `scale`, …; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'a str,
    /// Namespace of the object; empty for cluster-scoped kinds.
    pub(crate) namespace: &'a str,
    /// Name of the object; empty if the API server is yet to generate one.
    pub(crate) name: &'a str,
    /// The new object.
    pub(crate) object: Option<&'a Value>,
    /// The existing object.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> AdmissionRequest<'a> {
    /// Reads the request of a review, if it has one.
    pub(crate) fn read(review: &'a Value) -> Option<Self> {
        let request = review.get("request").filter(|request| request.is_object())?;
        let object = |name: &str| request.get(name).filter(|value| !value.is_null());
        let kind = request.get("kind").unwrap_or(&Value::Null);
        let uid = text(request, "uid");
        if uid.len() > MAX_UID {
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

/// Returns the version of the response to a review.
pub(crate) fn version(review: &Value) -> &'static str {
    if text(review, "apiVersion") == V1BETA1 { V1BETA1 } else { V1 }
}

/// An AdmissionReview with its response.
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

/// A patch of the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonPatch {
    patch_type: &'static str,
    /// A JSON Patch in base64.
    patch: String,
}

/// The status of a denial, as clients get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Status {
    /// Human-readable message.
    pub(crate) message: String,
    /// Machine-readable reason.
    pub(crate) reason: &'static str,
    /// HTTP status code.
    pub(crate) code: u16,
    /// The object and every error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Details>,
}

/// Details of a denial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Details {
    /// Name of the object.
    pub(crate) name: String,
    /// Group of its kind.
    pub(crate) group: String,
    /// Its kind.
    pub(crate) kind: String,
    /// One cause per error.
    pub(crate) causes: Vec<Cause>,
}

/// One error of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    /// Machine-readable reason.
    pub(crate) reason: &'static str,
    /// Human-readable message.
    pub(crate) message: String,
    /// The field with the error.
    pub(crate) field: String,
}

impl ReviewResponse {
    /// Admits the request.
    pub(crate) fn allow(version: &'static str, uid: &str, warnings: Vec<String>) -> Self {
        Self::new(version, uid, None, warnings)
    }

    /// Admits the request with a JSON Patch in base64.
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

    /// Denies the request.
    pub(crate) fn deny(version: &'static str, uid: &str, status: Status) -> Self {
        Self::new(version, uid, Some(status.bounded()), Vec::new())
    }

    /// True if it responds to a review, which has a uid.
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
        let warnings = bounded(warnings, |warning| truncate(warning, MAX_STRING));
        let response =
            AdmissionResponse { uid: uid.to_owned(), allowed, status, warnings, patch: None };
        Self { api_version, kind: "AdmissionReview", response }
    }
}

impl Status {
    /// Returns the status for a malformed request, as opposed to an invalid object.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: "BadRequest", code: 400, details: None }
    }

    /// Truncates it to the limits of a response.
    fn bounded(self) -> Self {
        let details = self.details.map(|Details { name, group, kind, causes }| Details {
            name: truncate(name, MAX_STRING),
            group: truncate(group, MAX_STRING),
            kind: truncate(kind, MAX_STRING),
            causes: bounded(causes, |Cause { reason, message, field }| Cause {
                reason,
                message: truncate(message, MAX_STRING),
                field: truncate(field, MAX_STRING),
            }),
        });
        Self { message: truncate(self.message, MAX_MESSAGE), details, ..self }
    }
}

fn bounded<T>(all: Vec<T>, one: impl FnMut(T) -> T) -> Vec<T> {
    all.into_iter().take(MAX_STRINGS).map(one).collect()
}

/// Truncates a string to so many bytes and adds an ellipsis.
fn truncate(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.shrink_to_fit();
        text.push('…');
    }
    text
}
