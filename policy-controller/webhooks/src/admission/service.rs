//! One admission review over HTTP, from the body to the response.
//!
//! Every scarce resource is divided by client network: capacity for bytes ([`SharedCapacity`]), and
//! the turns ([`FairScheduler`]) in which reviews are validated and lookups are made.

use super::body::{BodyError, ReceivedBody, receive};
use super::clients::AnsweredNetworks;
use super::response::{
    EncodedReview, RequestError, ResponseBody, plain, review_response, unavailable,
};
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
use policy_server::{
    CapacityBounds, ClientNetwork, FairScheduler, Peer, RevocationOrder, SchedulerPermit, Share,
    SharedCapacity,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Capacity for reviews in received bytes, and the maximum that one client may hold.
const CAPACITY: u64 = 64 * 1024 * 1024;
const CAPACITY_PER_CLIENT: u64 = 32 * 1024 * 1024;

/// Capacity that a review takes before its first byte, which bounds the number of reviews too.
const REVIEW_BASE: u64 = 16 * 1024;

/// Maximum size and weight of a light review. Heavier ones take turns of their own, so that no
/// light one waits for them. Pods and nearly all policies are far below these limits.
const LIGHT_SIZE: u64 = 512 * 1024;
const LIGHT_WEIGHT: u64 = 4 * 1024 * 1024;

/// Number of light reviews that are validated concurrently. Heavy ones are validated one by one,
/// which bounds their memory and keeps them from using every core.
const LIGHT_AT_ONCE: usize = 2;

/// Maximum number of concurrent lookups at the API server.
const MAX_LOOKUPS: usize = 16;

/// Maximum number of concurrent queries to the index, and the time that a review may wait for its
/// turn. A response without warnings is better than a late one.
const MAX_QUERIES: usize = 4;
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);

/// Responds to admission reviews.
#[derive(Clone)]
pub(super) struct Service {
    review: Option<ReviewHandle>,
    injector: Option<Injector>,
    redirector: Option<Arc<ProxyRedirector>>,
    pub(super) metrics: AdmissionMetrics,
    pub(super) answered: AnsweredNetworks,
    capacity: SharedCapacity,
    light: FairScheduler,
    heavy: FairScheduler,
    lookups: FairScheduler,
    queries: FairScheduler,
    linkerd_compatible: bool,
}

/// The connection of a request.
pub(super) struct ClientConnection {
    pub(super) network: ClientNetwork,
    pub(super) peer: Peer,
    pub(super) share: Arc<Share>,
}

/// The webhook that a path belongs to.
enum Endpoint {
    Validation,
    Injector(Box<Injector>),
    Redirector(Arc<ProxyRedirector>),
}

/// A received review, and the share that it holds.
struct Review<'a> {
    network: ClientNetwork,
    share: &'a Arc<Share>,
    bytes: Bytes,
    weight: u64,
}

/// Result of validating a body.
struct ValidatedReview {
    version: &'static str,
    uid: String,
    kind: Option<Kind>,
    step: NextStep,
}

/// The next step of a validated review.
enum NextStep {
    Write(EncodedReview, ReviewOutcome),
    Query { remarks: Vec<FieldError>, object: Option<Box<Object>> },
    QueryDeletion(Box<Object>),
}

impl Service {
    pub(super) fn new(review: Option<ReviewHandle>, metrics: AdmissionMetrics) -> Self {
        let answered = AnsweredNetworks::default();
        let bounds = CapacityBounds {
            total: CAPACITY,
            per_client: CAPACITY_PER_CLIENT,
            first: RevocationOrder::Newest,
        };
        Self {
            review,
            injector: None,
            redirector: None,
            metrics,
            capacity: answered.reserve(SharedCapacity::new(bounds)),
            answered,
            light: FairScheduler::new(LIGHT_AT_ONCE),
            heavy: FairScheduler::new(1),
            lookups: FairScheduler::new(MAX_LOOKUPS),
            queries: FairScheduler::new(MAX_QUERIES),
            linkerd_compatible: false,
        }
    }

    /// Validates outbound policy, too, if `linkerd_compatible`.
    pub(super) fn with_linkerd_compatible(self, linkerd_compatible: bool) -> Self {
        Self { linkerd_compatible, ..self }
    }

    /// Serves the injector, too, on its own path.
    pub(super) fn with_injector(self, injector: Injector) -> Self {
        Self { injector: Some(injector), ..self }
    }

    /// Serves the redirection of Linkerd's proxies, too, on its own path.
    pub(super) fn with_redirector(self, redirector: ProxyRedirector) -> Self {
        Self { redirector: Some(Arc::new(redirector)), ..self }
    }

    /// Returns the webhook of a path.
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

    /// Responds to one HTTP request.
    pub(super) async fn serve(
        &self,
        connection: &ClientConnection,
        request: http::Request<Incoming>,
    ) -> Response<ResponseBody> {
        let _in_use = connection.share.in_use();
        let Some(endpoint) = self.endpoint(request.uri().path()) else { return self.not_found() };
        if request.method() != Method::POST {
            return self.not_found();
        }
        let Ok(share) = self.capacity.take(&connection.peer, REVIEW_BASE) else {
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
                // Until the response is sent, revoking its share ends the connection.
                share.cancel_instead(connection.share.token());
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
                // The webhook's failurePolicy decides whether the pod is created.
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
        // A slow client may delay the response, so that it takes capacity.
        review.grow(written.body.len())?;
        if written.has_uid {
            self.answered.remember(review.network, Instant::now());
        }
        Ok(review_response(written.body, review.share.clone()))
    }

    fn refuse(&self, refusal: RequestError) -> Response<ResponseBody> {
        self.metrics.refused(refusal.reason());
        refusal.response()
    }

    fn not_found(&self) -> Response<ResponseBody> {
        self.metrics.refused("not_found");
        plain(StatusCode::NOT_FOUND, "reviews are posted to /\n")
    }

    /// Processes a body on the blocking thread pool, in the turn of its network. Returns the result
    /// with the turn.
    async fn process<T: Send + 'static>(
        &self,
        review: &Review<'_>,
        work: impl FnOnce(Bytes) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<(T, SchedulerPermit), RequestError> {
        let turn = self.turn(review).await?;
        if review.is_light() {
            // The parsed body outlives the turn. The turn itself bounds the memory of heavy
            // reviews.
            review.share.grow(review.weight)?;
        }
        let bytes = review.bytes.clone();
        in_turn(turn, review.share.clone(), move || work(bytes)).await
    }

    async fn turn(&self, review: &Review<'_>) -> Result<SchedulerPermit, RequestError> {
        let turns = if review.is_light() { &self.light } else { &self.heavy };
        turns.acquire(review.network, review.cost()).await.ok_or(RequestError::Failed)
    }

    /// Responds to a review of a policy object, Pod or Namespace.
    async fn answer(
        &self,
        review: &Review<'_>,
        started: Instant,
    ) -> Result<EncodedReview, RequestError> {
        let compatible = self.linkerd_compatible;
        let work = move |bytes: Bytes| validate_review(&bytes, compatible);
        let (validated, _) = self.process(review, work).await?;
        let ValidatedReview { version, uid, kind, step } = validated;
        let (written, outcome) = match step {
            NextStep::Write(written, outcome) => (written, outcome),
            NextStep::Query { remarks, object } => {
                admitted(version, &uid, self.warnings(review.network, &remarks, object).await)?
            }
            NextStep::QueryDeletion(object) => {
                let query =
                    |index: ReviewHandle| async move { index.review_deletion(*object).await };
                let found = self.query_index(review.network, query).await;
                // A failed query says nothing about a deleted object.
                admitted(version, &uid, warnings(found.as_deref().unwrap_or_default(), &[], true))?
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
        let found = self.query_index(network, query).await;
        warnings(found.as_deref().unwrap_or_default(), remarks, found.is_some())
    }

    /// Queries the index in the turn of a network; `None` if that is not possible.
    async fn query_index<A: Future<Output = Option<Vec<FieldError>>>>(
        &self,
        network: ClientNetwork,
        query: impl FnOnce(ReviewHandle) -> A,
    ) -> Option<Vec<FieldError>> {
        let index = self.review.clone()?;
        let turn = tokio::time::timeout(QUERY_TIMEOUT, self.queries.acquire(network, 1)).await;
        let _turn = turn.ok()??;
        query(index).await
    }

    /// Responds to a review of a pod for the injector.
    async fn inject(
        &self,
        injector: &Injector,
        review: &Review<'_>,
    ) -> Result<Reply, RequestError> {
        let (read, turn) = self.process(review, |bytes| value(&bytes)).await?;
        // A heavy review keeps its turn until its response.
        let turn = (!review.is_light()).then_some(turn);
        let lookup = self.lookups.acquire(review.network, 1).await.ok_or(RequestError::Failed)?;
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

/// Returns the response that admits an object with these warnings.
fn admitted(
    version: &'static str,
    uid: &str,
    warnings: Vec<String>,
) -> Result<(EncodedReview, ReviewOutcome), RequestError> {
    let outcome = if warnings.is_empty() { ReviewOutcome::Admitted } else { ReviewOutcome::Warned };
    Ok((EncodedReview::of(&ReviewResponse::allow(version, uid, warnings))?, outcome))
}

/// Runs work on the blocking thread pool. It keeps its turn and its capacity until it is done, even
/// if the request is cancelled.
async fn in_turn<T: Send + 'static>(
    turn: SchedulerPermit,
    share: Arc<Share>,
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<(T, SchedulerPermit), RequestError> {
    let work = move || {
        let done = work();
        drop(share);
        done.map(|done| (done, turn))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| RequestError::Failed)?
}

#[cfg(test)]
impl Service {
    /// Returns the status and the body of the response to a body.
    pub(super) async fn answer_bytes(&self, body: &[u8]) -> (u16, Bytes) {
        let peer = Peer::at([127, 0, 0, 1].into());
        let network = ClientNetwork::of(peer.address);
        let share = Arc::new(self.capacity.take(&peer, REVIEW_BASE).unwrap());
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

    /// Takes capacity for a response of this length.
    fn grow(&self, length: usize) -> Result<(), RequestError> {
        self.share.grow(u64::try_from(length).unwrap_or(u64::MAX)).map_err(RequestError::from)
    }

    /// Estimated cost of validation, relative to others. A turn takes time even for an empty body.
    fn cost(&self) -> u64 {
        REVIEW_BASE.saturating_add(self.size()).saturating_add(self.weight)
    }

    fn is_light(&self) -> bool {
        self.size() <= LIGHT_SIZE && self.weight <= LIGHT_WEIGHT
    }
}

/// Parses a body as JSON.
fn value(body: &[u8]) -> Result<Value, RequestError> {
    serde_json::from_slice(body).map_err(|_| RequestError::NotJson)
}

fn validate_review(body: &[u8], linkerd_compatible: bool) -> Result<ValidatedReview, RequestError> {
    let review = value(body)?;
    let (version, request) = (version(&review), AdmissionRequest::read(&review));
    let uid = request.map_or("", |request| request.uid);
    let Some(request) = request else {
        let written =
            EncodedReview::of(&ReviewResponse::deny(version, uid, Status::malformed(NO_REQUEST)))?;
        let step = NextStep::Write(written, ReviewOutcome::Malformed);
        return Ok(ValidatedReview { version, uid: String::new(), kind: None, step });
    };
    let Validation { kind, verdict } = validate(&request, linkerd_compatible);
    let (answer, outcome) = match verdict {
        Verdict::Denied(status) => {
            tracing::debug!(message = status.message, "denied");
            (ReviewResponse::deny(version, uid, status), ReviewOutcome::Denied)
        }
        Verdict::OutOfScope => {
            (ReviewResponse::allow(version, uid, Vec::new()), ReviewOutcome::Passed)
        }
        Verdict::Valid { remarks, object } => {
            let step = NextStep::Query { remarks, object };
            return Ok(ValidatedReview { version, uid: uid.to_owned(), kind, step });
        }
        Verdict::Deletion(object) => {
            let step = NextStep::QueryDeletion(object);
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

    /// A client that resets its stream drops the future; the work that continues still counts.
    #[tokio::test]
    async fn work_that_nobody_waits_for_any_longer_keeps_its_turn_and_its_room() {
        let peer = Peer::at([127, 0, 0, 1].into());
        let network = ClientNetwork::of(peer.address);
        let bounds = CapacityBounds { total: 2, per_client: 1, first: RevocationOrder::Newest };
        let capacity = SharedCapacity::new(bounds);
        let share = Arc::new(capacity.take(&peer, 1).unwrap());
        let turns = FairScheduler::new(1);
        let turn = turns.acquire(network, 1).await.unwrap();
        let (ends, end) = mpsc::channel::<()>();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let waits = tokio::spawn(in_turn(turn, share, move || {
            begins.send(()).unwrap();
            end.recv().map_err(|_| RequestError::Failed)
        }));
        begun.await.unwrap();
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        let next =
            tokio::time::timeout(Duration::from_millis(100), turns.acquire(network, 1)).await;
        assert!(next.is_err(), "its turn is another's while it works");
        assert!(capacity.take(&peer, 1).is_err(), "its room is another's while it works");
        ends.send(()).unwrap();
        turns.acquire(network, 1).await.unwrap();
        assert!(capacity.take(&peer, 1).is_ok());
    }

    #[test]
    fn a_review_of_no_length_costs_a_turn_nevertheless() {
        let capacity = Service::new(None, AdmissionMetrics::default()).capacity;
        let peer = Peer::at([127, 0, 0, 1].into());
        let network = ClientNetwork::of(peer.address);
        let share = Arc::new(capacity.take(&peer, REVIEW_BASE).unwrap());
        let review = |length: usize| Review {
            network,
            share: &share,
            bytes: vec![b' '; length].into(),
            weight: 0,
        };
        assert!(review(1000).cost() < 2 * review(1).cost());
    }
}
