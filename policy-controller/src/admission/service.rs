//! One admission review over HTTP: from the bytes to the answer.

use super::judge::{Judgement, Verdict, judge};
use super::metrics::{AdmissionMetrics, Outcome};
use super::review::{Answer, Request, Status, version};
use super::warning::warnings;
use crate::beside::{BESIDE_PATH, Repoint};
use crate::injector::{INJECT_PATH, Injector, Reply};
use crate::review::ReviewHandle;
use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use policy_crds::{FieldError, Kind, Object};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest review: the API server takes objects of up to 3 MiB, and sends the old one too.
const MAX_BODY: u32 = 8 * 1024 * 1024;

/// Bytes of reviews held at once.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// Memory for reviews that are being judged, in bytes as `weight` reckons them. The longest list of
/// networks that fits into an object weighs half of it, old and new together.
const MAX_JUDGED: u32 = 192 * 1024 * 1024;

/// How long a review may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Answers reviews.
#[derive(Clone)]
pub(super) struct Service {
    review: Option<ReviewHandle>,
    injector: Option<Injector>,
    repoint: Option<Arc<Repoint>>,
    pub(super) metrics: AdmissionMetrics,
    room: Arc<Semaphore>,
    judging: Arc<Semaphore>,
}

/// Who is asked.
enum Asked {
    Rules,
    Injector(Box<Injector>),
    Repoint(Arc<Repoint>),
}

/// What was made of a body.
struct Judged {
    version: &'static str,
    uid: String,
    judgement: Option<Judgement>,
}

impl Service {
    pub(super) fn new(review: Option<ReviewHandle>, metrics: AdmissionMetrics) -> Self {
        let room = Arc::new(Semaphore::new(MAX_HELD));
        let judging = usize::try_from(MAX_JUDGED).unwrap_or(MAX_HELD);
        let judging = Arc::new(Semaphore::new(judging));
        Self { review, injector: None, repoint: None, metrics, room, judging }
    }

    /// Answers reviews of pods too, on a path of their own.
    pub(super) fn with_injector(self, injector: Injector) -> Self {
        Self { injector: Some(injector), ..self }
    }

    /// Answers reviews of pods with Linkerd's proxy too, on a path of their own.
    pub(super) fn with_repoint(self, repoint: Repoint) -> Self {
        Self { repoint: Some(Arc::new(repoint)), ..self }
    }

    /// Who answers on a path.
    fn asked(&self, path: &str) -> Option<Asked> {
        match path {
            "/" => Some(Asked::Rules),
            INJECT_PATH => {
                self.injector.clone().map(|injector| Asked::Injector(Box::new(injector)))
            }
            BESIDE_PATH => self.repoint.clone().map(Asked::Repoint),
            _ => None,
        }
    }

    /// Answers one HTTP request.
    pub(super) async fn serve(&self, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
        let Some(asked) = self.asked(request.uri().path()) else { return self.not_found() };
        if request.method() != Method::POST {
            return self.not_found();
        }
        let started = Instant::now();
        let (status, reason, text) = match tokio::time::timeout(ARRIVAL, self.read(request)).await {
            Ok(Ok(body)) => {
                return match asked {
                    Asked::Rules => self.answer(body, started).await,
                    Asked::Injector(injector) => inject(&injector, body).await,
                    Asked::Repoint(repoint) => match read_review(body).await {
                        Ok(review) => json(&repoint.review(&review)),
                        Err(refusal) => refusal,
                    },
                };
            }
            Ok(Err(ReadError::TooLarge)) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                "more than is read: 8 MiB, or too many fields\n",
            ),
            Ok(Err(ReadError::Broken)) => (StatusCode::BAD_REQUEST, "broken", "no whole body\n"),
            Err(_) => (StatusCode::REQUEST_TIMEOUT, "slow", "the body took too long\n"),
        };
        self.metrics.refused(reason);
        plain(status, text)
    }

    fn not_found(&self) -> Response<Full<Bytes>> {
        self.metrics.refused("not_found");
        plain(StatusCode::NOT_FOUND, "reviews are posted to /\n")
    }

    async fn read(&self, request: http::Request<Incoming>) -> Result<Held, ReadError> {
        let body = request.into_body();
        let stated = body.size_hint().upper().unwrap_or_else(|| MAX_BODY.into());
        let wanted = u32::try_from(stated).ok().filter(|size| *size <= MAX_BODY);
        let wanted = wanted.ok_or(ReadError::TooLarge)?;
        let room = self.room.clone().acquire_many_owned(wanted).await;
        let room = room.map_err(|_| ReadError::Broken)?;
        let limit = usize::try_from(MAX_BODY).unwrap_or(usize::MAX);
        let bytes = match Limited::new(body, limit).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(ReadError::TooLarge),
            Err(_) => return Err(ReadError::Broken),
        };
        // Whoever waits here waits for reviews that have arrived already, and are soon judged.
        let weight = weight(&bytes).filter(|weight| *weight <= MAX_JUDGED);
        let weight = weight.ok_or(ReadError::TooLarge)?;
        let judging = self.judging.clone().acquire_many_owned(weight).await;
        let judging = judging.map_err(|_| ReadError::Broken)?;
        Ok(Held { bytes, _room: Some((room, judging)) })
    }

    async fn answer(&self, body: Held, started: Instant) -> Response<Full<Bytes>> {
        // Large objects take milliseconds to parse, for which nobody else should wait.
        let judged = tokio::task::spawn_blocking(move || judged(&body.bytes)).await;
        let Ok(judged) = judged else {
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the review could not be judged\n");
        };
        let Some(Judged { version, uid, judgement }) = judged else {
            self.metrics.answered("", Outcome::Malformed, started.elapsed());
            return plain(StatusCode::BAD_REQUEST, "the body is not JSON\n");
        };
        let kind = judgement.as_ref().and_then(|judgement| judgement.kind).map_or("", Kind::as_str);
        let (answer, outcome) = match judgement.map(|judgement| judgement.verdict) {
            None => {
                let message = "the body is not an AdmissionReview: it has no `request`";
                (Answer::deny(version, &uid, Status::malformed(message)), Outcome::Malformed)
            }
            Some(Verdict::Refused(status)) => {
                tracing::debug!(message = status.message, "denied");
                (Answer::deny(version, &uid, status), Outcome::Denied)
            }
            Some(Verdict::Passed) => (Answer::allow(version, &uid, Vec::new()), Outcome::Passed),
            Some(Verdict::Sound { remarks, object }) => {
                let warnings = self.warnings(&remarks, object).await;
                let silent = warnings.is_empty();
                let outcome = if silent { Outcome::Admitted } else { Outcome::Warned };
                (Answer::allow(version, &uid, warnings), outcome)
            }
        };
        self.metrics.answered(kind, outcome, started.elapsed());
        json(&answer)
    }

    async fn warnings(&self, remarks: &[FieldError], object: Option<Box<Object>>) -> Vec<String> {
        let Some(object) = object else { return warnings(&[], remarks, true) };
        let found = match &self.review {
            Some(review) => review.review(*object).await,
            None => None,
        };
        warnings(found.as_deref().unwrap_or_default(), remarks, found.is_some())
    }
}

#[cfg(test)]
impl Service {
    /// The status and the body of the answer to a body.
    pub(super) async fn answer_bytes(&self, body: &[u8]) -> (u16, Bytes) {
        let body = Held { bytes: Bytes::copy_from_slice(body), _room: None };
        let response = self.answer(body, Instant::now()).await;
        let status = response.status().as_u16();
        // A body that is held whole cannot fail.
        let Ok(body) = response.into_body().collect().await;
        (status, body.to_bytes())
    }
}

/// A body and the room it takes: its bytes, and what they become.
struct Held {
    bytes: Bytes,
    _room: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

enum ReadError {
    TooLarge,
    Broken,
}

/// The memory that a text of JSON takes once it is read, at most: a field or an element of a few bytes
/// takes a hundred times as many. `None`: more than can be counted.
fn weight(text: &[u8]) -> Option<u32> {
    const MAPPING: u32 = 768;
    const LIST: u32 = 256;
    const ITEM: u32 = 160;
    let (mut weight, mut quoted, mut escaped) = (0u32, false, false);
    for byte in text {
        let more = match byte {
            _ if escaped => {
                escaped = false;
                0
            }
            b'\\' if quoted => {
                escaped = true;
                0
            }
            b'"' => {
                quoted = !quoted;
                0
            }
            _ if quoted => 0,
            b'{' => MAPPING,
            b'[' => LIST,
            b',' => ITEM,
            _ => 0,
        };
        weight = weight.checked_add(more)?;
    }
    Some(weight)
}

/// A body as JSON, or the answer to what is none.
async fn read_review(body: Held) -> Result<Value, Response<Full<Bytes>>> {
    let Held { bytes, _room } = body;
    let read = tokio::task::spawn_blocking(move || serde_json::from_slice::<Value>(&bytes)).await;
    match read {
        Ok(Ok(review)) => Ok(review),
        Ok(Err(_)) | Err(_) => Err(plain(StatusCode::BAD_REQUEST, "the body is not JSON\n")),
    }
}

/// Answers a review of a pod.
async fn inject(injector: &Injector, body: Held) -> Response<Full<Bytes>> {
    let review = match read_review(body).await {
        Ok(review) => review,
        Err(refusal) => return refusal,
    };
    match injector.review(&review).await {
        Reply::Answer(answer) => json(&answer),
        // Whether the pod is created without an answer, the webhook's failure policy says.
        Reply::Unavailable(text) => {
            response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", text.into())
        }
    }
}

/// `None`: not JSON.
fn judged(body: &[u8]) -> Option<Judged> {
    let review: Value = serde_json::from_slice(body).ok()?;
    let request = Request::read(&review);
    Some(Judged {
        version: version(&review),
        uid: request.map(|request| request.uid.to_owned()).unwrap_or_default(),
        judgement: request.as_ref().map(judge),
    })
}

fn json(answer: &Answer) -> Response<Full<Bytes>> {
    match serde_json::to_vec(answer) {
        Ok(body) => response(StatusCode::OK, "application/json", body.into()),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be written\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
