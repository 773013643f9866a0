//! One admission review over HTTP: from the bytes to the answer.
//!
//! Whatever a client can make scarce is divided by its network: room for the bytes ([`SharedCapacity`]),
//! and the turns ([`Turns`]) in which reviews are judged and others are asked about them.

use super::body::{BodyError, ReceivedBody, receive};
use super::clients::AnsweredNetworks;
use super::response::{EncodedReview, RequestError, ResponseBody, plain, reviewed, unavailable};
use super::shares::{Bounds, RevocationOrder, Share, SharedCapacity};
use crate::injector::{INJECT_PATH, Injector, Reply};
use crate::linkerd_redirect::{LINKERD_REDIRECT_PATH, ProxyRedirector};
use crate::metrics::{AdmissionMetrics, ReviewOutcome};
use crate::review::{AdmissionRequest, NO_REQUEST, ReviewResponse, Status, version};
use crate::validation::{Validation, Verdict, validate, warnings};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
#[cfg(test)]
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy_crds::{FieldError, Kind, Object};
use policy_engine::ReviewHandle;
use policy_server::{ClientNetwork, Turn, Turns};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Room for reviews, in bytes that came, and the most that one network may hold of it.
const CAPACITY: u64 = 64 * 1024 * 1024;
const CAPACITY_PER_NETWORK: u64 = 32 * 1024 * 1024;

/// The room that a review takes before its first byte, so that their number is bounded, too.
const REVIEW: u64 = 16 * 1024;

/// The largest review that is judged among the others, in bytes and by weight. Larger ones take turns
/// of their own, so that nobody with an ordinary one waits for them. Pods and nearly all policies are
/// far below it.
const LIGHT: u64 = 512 * 1024;
const LIGHT_WEIGHT: u64 = 4 * 1024 * 1024;

/// Ordinary reviews that are judged at once. Large ones are judged one by one, which bounds their
/// memory, and that all of them keep every core busy.
const LIGHT_AT_ONCE: usize = 2;

/// Pods about which the API server is asked at once.
const LOOKUPS: usize = 16;

/// Objects about which the index is asked at once, and how long one may wait for that. An answer
/// without advice is better than a late one.
const ADVICE: usize = 4;
const ADVICE_WAITS: Duration = Duration::from_millis(500);

/// Answers reviews.
#[derive(Clone)]
pub(super) struct Service {
    review: Option<ReviewHandle>,
    injector: Option<Injector>,
    redirector: Option<Arc<ProxyRedirector>>,
    pub(super) metrics: AdmissionMetrics,
    pub(super) answered: AnsweredNetworks,
    capacity: SharedCapacity,
    light: Turns,
    heavy: Turns,
    lookups: Turns,
    advice: Turns,
}

/// The connection that a request came on.
pub(super) struct ClientConnection {
    pub(super) network: ClientNetwork,
    pub(super) share: Share,
    /// Whether there has been a request.
    pub(super) used: AtomicBool,
}

/// Who is asked.
enum Endpoint {
    Validation,
    Injector(Box<Injector>),
    Redirector(Arc<ProxyRedirector>),
}

/// A review that has arrived, and the room it takes.
struct Review<'a> {
    network: ClientNetwork,
    share: &'a Arc<Share>,
    bytes: Bytes,
    weight: u64,
}

/// What was made of a body.
struct ValidatedReview {
    version: &'static str,
    uid: String,
    kind: Option<Kind>,
    step: NextStep,
}

/// What is left to do.
enum NextStep {
    Write(EncodedReview, ReviewOutcome),
    Advise { remarks: Vec<FieldError>, object: Option<Box<Object>> },
    AdviseDeletion(Box<Object>),
}

impl Service {
    pub(super) fn new(review: Option<ReviewHandle>, metrics: AdmissionMetrics) -> Self {
        let answered = AnsweredNetworks::default();
        let bounds = Bounds {
            total: CAPACITY,
            per_network: CAPACITY_PER_NETWORK,
            first: RevocationOrder::Newest,
        };
        Self {
            review,
            injector: None,
            redirector: None,
            metrics,
            capacity: SharedCapacity::new(bounds, answered.clone()),
            answered,
            light: Turns::new(LIGHT_AT_ONCE),
            heavy: Turns::new(1),
            lookups: Turns::new(LOOKUPS),
            advice: Turns::new(ADVICE),
        }
    }

    /// Answers reviews of pods too, on a path of their own.
    pub(super) fn with_injector(self, injector: Injector) -> Self {
        Self { injector: Some(injector), ..self }
    }

    /// Answers reviews of pods with Linkerd's proxy too, on a path of their own.
    pub(super) fn with_redirector(self, redirector: ProxyRedirector) -> Self {
        Self { redirector: Some(Arc::new(redirector)), ..self }
    }

    /// Who answers on a path.
    fn endpoint(&self, path: &str) -> Option<Endpoint> {
        match path {
            "/" => Some(Endpoint::Validation),
            INJECT_PATH => {
                self.injector.clone().map(|injector| Endpoint::Injector(Box::new(injector)))
            }
            LINKERD_REDIRECT_PATH => self.redirector.clone().map(Endpoint::Redirector),
            _ => None,
        }
    }

    /// Answers one HTTP request.
    pub(super) async fn serve(
        &self,
        connection: &ClientConnection,
        request: http::Request<Incoming>,
    ) -> Response<ResponseBody> {
        connection.used.store(true, Ordering::Relaxed);
        let _busy = connection.share.busy();
        let Some(endpoint) = self.endpoint(request.uri().path()) else { return self.not_found() };
        if request.method() != Method::POST {
            return self.not_found();
        }
        let Ok(share) = self.capacity.take(connection.network, REVIEW) else {
            return self.refuse(BodyError::CapacityExceeded.into());
        };
        let share = Arc::new(share);
        let started = Instant::now();
        let answered = async {
            let ReceivedBody { bytes, weight } = receive(request.into_body(), &share).await?;
            let review = Review { network: connection.network, share: &share, bytes, weight };
            self.review(endpoint, review, started).await
        };
        let response = tokio::select! {
            answered = answered => answered,
            () = share.revoked() => Err(BodyError::CapacityExceeded.into()),
            () = connection.share.revoked() => Err(BodyError::CapacityExceeded.into()),
        };
        match response {
            Ok(response) => {
                // Until it has been sent, room is made by the end of the connection.
                share.ends(connection.share.token());
                response
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    async fn review(
        &self,
        endpoint: Endpoint,
        review: Review<'_>,
        started: Instant,
    ) -> Result<Response<ResponseBody>, RequestError> {
        let written = match endpoint {
            Endpoint::Validation => self.answer(&review, started).await?,
            Endpoint::Injector(injector) => match self.inject(&injector, &review).await? {
                Reply::Review(answer) => EncodedReview::of(&answer)?,
                // Whether the pod is created without an answer, the webhook's failure policy says.
                Reply::Unavailable(text) => {
                    review.grow(text.len())?;
                    return Ok(unavailable(text, review.share.clone()));
                }
            },
            Endpoint::Redirector(redirector) => {
                let work =
                    move |bytes: Bytes| EncodedReview::of(&redirector.review(&value(&bytes)?));
                self.process(&review, work).await?.0
            }
        };
        // It may have to wait for its reader.
        review.grow(written.body.len())?;
        if written.has_uid {
            self.answered.remember(review.network, Instant::now());
        }
        Ok(reviewed(written.body, review.share.clone()))
    }

    fn refuse(&self, refusal: RequestError) -> Response<ResponseBody> {
        self.metrics.refused(refusal.reason());
        refusal.response()
    }

    fn not_found(&self) -> Response<ResponseBody> {
        self.metrics.refused("not_found");
        plain(StatusCode::NOT_FOUND, "reviews are posted to /\n")
    }

    /// Does the work on a body away from the connections, in the turn of its network, which is given
    /// back with the result.
    async fn process<T: Send + 'static>(
        &self,
        review: &Review<'_>,
        work: impl FnOnce(Bytes) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<(T, Turn), RequestError> {
        let turn = self.turn(review).await?;
        if review.is_light() {
            // It outlasts its turn. Of a large one the turn bounds the memory.
            review.share.grow(review.weight)?;
        }
        let bytes = review.bytes.clone();
        in_turn(turn, review.share.clone(), move || work(bytes)).await
    }

    async fn turn(&self, review: &Review<'_>) -> Result<Turn, RequestError> {
        let turns = if review.is_light() { &self.light } else { &self.heavy };
        turns.next(review.network, review.cost()).await.ok_or(RequestError::Failed)
    }

    /// Answers a review of an object by the rules of its kind.
    async fn answer(
        &self,
        review: &Review<'_>,
        started: Instant,
    ) -> Result<EncodedReview, RequestError> {
        let (validated, _) = self.process(review, |bytes| validate_review(&bytes)).await?;
        let ValidatedReview { version, uid, kind, step } = validated;
        let (written, outcome) = match step {
            NextStep::Write(written, outcome) => (written, outcome),
            NextStep::Advise { remarks, object } => {
                advised(version, &uid, self.warnings(review.network, &remarks, object).await)?
            }
            NextStep::AdviseDeletion(object) => {
                let query =
                    |index: ReviewHandle| async move { index.review_deletion(*object).await };
                let found = self.advice(review.network, query).await;
                // What could not be looked at is no news about what is gone.
                advised(version, &uid, warnings(found.as_deref().unwrap_or_default(), &[], true))?
            }
        };
        self.metrics.answered(kind.map_or("", Kind::as_str), outcome, started.elapsed());
        Ok(written)
    }

    async fn warnings(
        &self,
        network: ClientNetwork,
        remarks: &[FieldError],
        object: Option<Box<Object>>,
    ) -> Vec<String> {
        let Some(object) = object else { return warnings(&[], remarks, true) };
        let query = |index: ReviewHandle| async move { index.review(*object).await };
        let found = self.advice(network, query).await;
        warnings(found.as_deref().unwrap_or_default(), remarks, found.is_some())
    }

    /// Asks the index, in the turn of a network; none where it cannot be asked.
    async fn advice<A: Future<Output = Option<Vec<FieldError>>>>(
        &self,
        network: ClientNetwork,
        query: impl FnOnce(ReviewHandle) -> A,
    ) -> Option<Vec<FieldError>> {
        let index = self.review.clone()?;
        let turn = tokio::time::timeout(ADVICE_WAITS, self.advice.next(network, 1)).await;
        let _turn = turn.ok()??;
        query(index).await
    }

    /// Answers a review of a pod.
    async fn inject(
        &self,
        injector: &Injector,
        review: &Review<'_>,
    ) -> Result<Reply, RequestError> {
        let (read, turn) = self.process(review, |bytes| value(&bytes)).await?;
        // A large one keeps its turn until it is answered.
        let turn = (!review.is_light()).then_some(turn);
        let lookup = self.lookups.next(review.network, 1).await.ok_or(RequestError::Failed)?;
        let pod = match injector.prepare(read).await {
            Ok(pod) => pod,
            Err(reply) => return Ok(reply),
        };
        drop(lookup);
        let turn = match turn {
            Some(turn) => turn,
            None => self.turn(review).await?,
        };
        let done = in_turn(turn, review.share.clone(), move || Ok(pod.reply())).await;
        Ok(done.map_or_else(|_| injector.failed(), |(reply, _turn)| reply))
    }
}

/// The answer that lets an object through with these warnings.
fn advised(
    version: &'static str,
    uid: &str,
    warnings: Vec<String>,
) -> Result<(EncodedReview, ReviewOutcome), RequestError> {
    let outcome = if warnings.is_empty() { ReviewOutcome::Admitted } else { ReviewOutcome::Warned };
    Ok((EncodedReview::of(&ReviewResponse::allow(version, uid, warnings))?, outcome))
}

/// Does work away from the connections. It keeps its turn and its room until it is done, whether or
/// not somebody still waits for it.
async fn in_turn<T: Send + 'static>(
    turn: Turn,
    share: Arc<Share>,
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<(T, Turn), RequestError> {
    let work = move || {
        let done = work();
        drop(share);
        done.map(|done| (done, turn))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| RequestError::Failed)?
}

#[cfg(test)]
impl Service {
    /// The status and the body of the answer to a body.
    pub(super) async fn answer_bytes(&self, body: &[u8]) -> (u16, Bytes) {
        let network = ClientNetwork::of([127, 0, 0, 1].into());
        let share = Arc::new(self.capacity.take(network, REVIEW).unwrap());
        let bytes = Bytes::copy_from_slice(body);
        let review = Review { network, share: &share, bytes, weight: 0 };
        let response = self.review(Endpoint::Validation, review, Instant::now()).await;
        let response = response.unwrap_or_else(|refusal| self.refuse(refusal));
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }
}

impl Review<'_> {
    fn size(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    /// Takes room for an answer of this length.
    fn grow(&self, length: usize) -> Result<(), RequestError> {
        self.share.grow(u64::try_from(length).unwrap_or(u64::MAX)).map_err(RequestError::from)
    }

    /// About what judging takes, compared with others. A turn takes time even for an empty body.
    fn cost(&self) -> u64 {
        REVIEW.saturating_add(self.size()).saturating_add(self.weight)
    }

    fn is_light(&self) -> bool {
        self.size() <= LIGHT && self.weight <= LIGHT_WEIGHT
    }
}

/// A body as JSON.
fn value(body: &[u8]) -> Result<Value, RequestError> {
    serde_json::from_slice(body).map_err(|_| RequestError::NotJson)
}

fn validate_review(body: &[u8]) -> Result<ValidatedReview, RequestError> {
    let review = value(body)?;
    let (version, request) = (version(&review), AdmissionRequest::read(&review));
    let uid = request.map_or("", |request| request.uid);
    let Some(request) = request else {
        let written =
            EncodedReview::of(&ReviewResponse::deny(version, uid, Status::malformed(NO_REQUEST)))?;
        let step = NextStep::Write(written, ReviewOutcome::Malformed);
        return Ok(ValidatedReview { version, uid: String::new(), kind: None, step });
    };
    let Validation { kind, verdict } = validate(&request);
    let (answer, outcome) = match verdict {
        Verdict::Denied(status) => {
            tracing::debug!(message = status.message, "denied");
            (ReviewResponse::deny(version, uid, status), ReviewOutcome::Denied)
        }
        Verdict::OutOfScope => {
            (ReviewResponse::allow(version, uid, Vec::new()), ReviewOutcome::Passed)
        }
        Verdict::Valid { remarks, object } => {
            let step = NextStep::Advise { remarks, object };
            return Ok(ValidatedReview { version, uid: uid.to_owned(), kind, step });
        }
        Verdict::Deletion(object) => {
            let step = NextStep::AdviseDeletion(object);
            return Ok(ValidatedReview { version, uid: uid.to_owned(), kind, step });
        }
    };
    let step = NextStep::Write(EncodedReview::of(&answer)?, outcome);
    Ok(ValidatedReview { version, uid: uid.to_owned(), kind, step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A client that resets its stream drops the future; what goes on is counted nevertheless.
    #[tokio::test]
    async fn work_that_nobody_waits_for_any_longer_keeps_its_turn_and_its_room() {
        let network = ClientNetwork::of([127, 0, 0, 1].into());
        let bounds = Bounds { total: 2, per_network: 1, first: RevocationOrder::Newest };
        let capacity = SharedCapacity::new(bounds, AnsweredNetworks::default());
        let share = Arc::new(capacity.take(network, 1).unwrap());
        let turns = Turns::new(1);
        let turn = turns.next(network, 1).await.unwrap();
        let (ends, end) = mpsc::channel::<()>();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let waits = tokio::spawn(in_turn(turn, share, move || {
            begins.send(()).unwrap();
            end.recv().map_err(|_| RequestError::Failed)
        }));
        begun.await.unwrap();
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        let next = tokio::time::timeout(Duration::from_millis(100), turns.next(network, 1)).await;
        assert!(next.is_err(), "its turn is another's while it works");
        assert!(capacity.take(network, 1).is_err(), "its room is another's while it works");
        ends.send(()).unwrap();
        turns.next(network, 1).await.unwrap();
        assert!(capacity.take(network, 1).is_ok());
    }

    #[test]
    fn a_review_of_no_length_costs_a_turn_nevertheless() {
        let capacity = Service::new(None, AdmissionMetrics::default()).capacity;
        let network = ClientNetwork::of([127, 0, 0, 1].into());
        let share = Arc::new(capacity.take(network, REVIEW).unwrap());
        let review = |length: usize| Review {
            network,
            share: &share,
            bytes: vec![b' '; length].into(),
            weight: 0,
        };
        assert!(review(1000).cost() < 2 * review(1).cost());
    }
}
