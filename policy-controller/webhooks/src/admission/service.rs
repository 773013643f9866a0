//! One admission review over HTTP: from the bytes to the answer.
//!
//! Whatever a client can make scarce is divided by its network: room for the bytes ([`SharedRoom`]),
//! and the turns ([`FairScheduler`]) in which reviews are judged and others are asked about them.

use super::answering::{Answering, Refusal, Written, plain, reviewed, unavailable};
use super::arrival::{ArrivalError, Arrived, arrive};
use super::clients::AnsweredNetworks;
use super::shares::{Bounds, Revoked, Share, SharedRoom};
use crate::beside::{BESIDE_PATH, Repoint};
use crate::injector::{INJECT_PATH, Injector, Reply};
use crate::metrics::{AdmissionMetrics, Outcome};
use crate::review::{Answer, NO_REQUEST, Request, Status, version};
use crate::validation::{Judgement, Verdict, judge, warnings};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
#[cfg(test)]
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy_crds::{FieldError, Kind, Object};
use policy_engine::ReviewHandle;
use policy_server::{ClientNetwork, FairScheduler, SchedulerPermit};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Room for reviews, in bytes that came, and the most that one network may hold of it.
const ROOM: u64 = 64 * 1024 * 1024;
const ROOM_PER_NETWORK: u64 = 32 * 1024 * 1024;

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
const QUESTIONS: usize = 16;

/// Objects about which the index is asked at once, and how long one may wait for that. An answer
/// without advice is better than a late one.
const ADVICE: usize = 4;
const ADVICE_WAITS: Duration = Duration::from_millis(500);

/// Answers reviews.
#[derive(Clone)]
pub(super) struct Service {
    review: Option<ReviewHandle>,
    injector: Option<Injector>,
    repoint: Option<Arc<Repoint>>,
    pub(super) metrics: AdmissionMetrics,
    pub(super) answered: AnsweredNetworks,
    room: SharedRoom,
    light: FairScheduler,
    heavy: FairScheduler,
    questions: FairScheduler,
    advice: FairScheduler,
}

/// The connection that a request came on.
pub(super) struct ClientConnection {
    pub(super) network: ClientNetwork,
    pub(super) share: Share,
    /// Whether there has been a request.
    pub(super) used: AtomicBool,
}

/// Who is asked.
enum Asked {
    Rules,
    Injector(Box<Injector>),
    Repoint(Arc<Repoint>),
}

/// A review that has arrived, and the room it takes.
struct Review<'a> {
    network: ClientNetwork,
    share: &'a Arc<Share>,
    bytes: Bytes,
    weight: u64,
}

/// What was made of a body.
struct Judged {
    version: &'static str,
    uid: String,
    kind: Option<Kind>,
    step: Step,
}

/// What is left to do.
enum Step {
    Write(Written, Outcome),
    Advise { remarks: Vec<FieldError>, object: Option<Box<Object>> },
    AdviseDeletion(Box<Object>),
}

impl Service {
    pub(super) fn new(review: Option<ReviewHandle>, metrics: AdmissionMetrics) -> Self {
        let answered = AnsweredNetworks::default();
        let bounds = Bounds { total: ROOM, per_network: ROOM_PER_NETWORK, first: Revoked::Newest };
        Self {
            review,
            injector: None,
            repoint: None,
            metrics,
            room: SharedRoom::new(bounds, answered.clone()),
            answered,
            light: FairScheduler::new(LIGHT_AT_ONCE),
            heavy: FairScheduler::new(1),
            questions: FairScheduler::new(QUESTIONS),
            advice: FairScheduler::new(ADVICE),
        }
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
    pub(super) async fn serve(
        &self,
        connection: &ClientConnection,
        request: http::Request<Incoming>,
    ) -> Response<Answering> {
        connection.used.store(true, Ordering::Relaxed);
        let _busy = connection.share.busy();
        let Some(asked) = self.asked(request.uri().path()) else { return self.not_found() };
        if request.method() != Method::POST {
            return self.not_found();
        }
        let Ok(share) = self.room.take(connection.network, REVIEW) else {
            return self.refuse(ArrivalError::NoRoom.into());
        };
        let share = Arc::new(share);
        let started = Instant::now();
        let answered = async {
            let Arrived { bytes, weight } = arrive(request.into_body(), &share).await?;
            let review = Review { network: connection.network, share: &share, bytes, weight };
            self.review(asked, review, started).await
        };
        let response = tokio::select! {
            answered = answered => answered,
            () = share.revoked() => Err(ArrivalError::NoRoom.into()),
            () = connection.share.revoked() => Err(ArrivalError::NoRoom.into()),
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
        asked: Asked,
        review: Review<'_>,
        started: Instant,
    ) -> Result<Response<Answering>, Refusal> {
        let written = match asked {
            Asked::Rules => self.answer(&review, started).await?,
            Asked::Injector(injector) => match self.inject(&injector, &review).await? {
                Reply::Answer(answer) => Written::of(&answer)?,
                // Whether the pod is created without an answer, the webhook's failure policy says.
                Reply::Unavailable(text) => {
                    review.grow(text.len())?;
                    return Ok(unavailable(text, review.share.clone()));
                }
            },
            Asked::Repoint(repoint) => {
                let work = move |bytes: Bytes| Written::of(&repoint.review(&value(&bytes)?));
                self.judge(&review, work).await?.0
            }
        };
        // It may have to wait for its reader.
        review.grow(written.body.len())?;
        if written.is_of_a_review {
            self.answered.remember(review.network, Instant::now());
        }
        Ok(reviewed(written.body, review.share.clone()))
    }

    fn refuse(&self, refusal: Refusal) -> Response<Answering> {
        self.metrics.refused(refusal.reason());
        refusal.response()
    }

    fn not_found(&self) -> Response<Answering> {
        self.metrics.refused("not_found");
        plain(StatusCode::NOT_FOUND, "reviews are posted to /\n")
    }

    /// Does the work on a body away from the connections, in the turn of its network, which is given
    /// back with the result.
    async fn judge<T: Send + 'static>(
        &self,
        review: &Review<'_>,
        work: impl FnOnce(Bytes) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(T, SchedulerPermit), Refusal> {
        let turn = self.turn(review).await?;
        if review.is_light() {
            // It outlasts its turn. Of a large one the turn bounds the memory.
            review.share.grow(review.weight)?;
        }
        let bytes = review.bytes.clone();
        in_turn(turn, review.share.clone(), move || work(bytes)).await
    }

    async fn turn(&self, review: &Review<'_>) -> Result<SchedulerPermit, Refusal> {
        let turns = if review.is_light() { &self.light } else { &self.heavy };
        turns.acquire(review.network, review.cost()).await.ok_or(Refusal::Failed)
    }

    /// Answers a review of an object by the rules of its kind.
    async fn answer(&self, review: &Review<'_>, started: Instant) -> Result<Written, Refusal> {
        let (judged, _) = self.judge(review, |bytes| judged(&bytes)).await?;
        let Judged { version, uid, kind, step } = judged;
        let (written, outcome) = match step {
            Step::Write(written, outcome) => (written, outcome),
            Step::Advise { remarks, object } => {
                advised(version, &uid, self.warnings(review.network, &remarks, object).await)?
            }
            Step::AdviseDeletion(object) => {
                let ask = |index: ReviewHandle| async move { index.review_deletion(*object).await };
                let found = self.advice(review.network, ask).await;
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
        let ask = |index: ReviewHandle| async move { index.review(*object).await };
        let found = self.advice(network, ask).await;
        warnings(found.as_deref().unwrap_or_default(), remarks, found.is_some())
    }

    /// Asks the index, in the turn of a network; none where it cannot be asked.
    async fn advice<A: Future<Output = Option<Vec<FieldError>>>>(
        &self,
        network: ClientNetwork,
        ask: impl FnOnce(ReviewHandle) -> A,
    ) -> Option<Vec<FieldError>> {
        let index = self.review.clone()?;
        let turn = tokio::time::timeout(ADVICE_WAITS, self.advice.acquire(network, 1)).await;
        let _turn = turn.ok()??;
        ask(index).await
    }

    /// Answers a review of a pod.
    async fn inject(&self, injector: &Injector, review: &Review<'_>) -> Result<Reply, Refusal> {
        let (read, turn) = self.judge(review, |bytes| value(&bytes)).await?;
        // A large one keeps its turn until it is answered.
        let turn = (!review.is_light()).then_some(turn);
        let question = self.questions.acquire(review.network, 1).await.ok_or(Refusal::Failed)?;
        let pod = match injector.ask(read).await {
            Ok(pod) => pod,
            Err(reply) => return Ok(reply),
        };
        drop(question);
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
) -> Result<(Written, Outcome), Refusal> {
    let outcome = if warnings.is_empty() { Outcome::Admitted } else { Outcome::Warned };
    Ok((Written::of(&Answer::allow(version, uid, warnings))?, outcome))
}

/// Does work away from the connections. It keeps its turn and its room until it is done, whether or
/// not somebody still waits for it.
async fn in_turn<T: Send + 'static>(
    turn: SchedulerPermit,
    share: Arc<Share>,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<(T, SchedulerPermit), Refusal> {
    let work = move || {
        let done = work();
        drop(share);
        done.map(|done| (done, turn))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::Failed)?
}

#[cfg(test)]
impl Service {
    /// The status and the body of the answer to a body.
    pub(super) async fn answer_bytes(&self, body: &[u8]) -> (u16, Bytes) {
        let network = ClientNetwork::of([127, 0, 0, 1].into());
        let share = Arc::new(self.room.take(network, REVIEW).unwrap());
        let bytes = Bytes::copy_from_slice(body);
        let review = Review { network, share: &share, bytes, weight: 0 };
        let response = self.review(Asked::Rules, review, Instant::now()).await;
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
    fn grow(&self, length: usize) -> Result<(), Refusal> {
        self.share.grow(u64::try_from(length).unwrap_or(u64::MAX)).map_err(Refusal::from)
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
fn value(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|_| Refusal::NotJson)
}

fn judged(body: &[u8]) -> Result<Judged, Refusal> {
    let review = value(body)?;
    let (version, request) = (version(&review), Request::read(&review));
    let uid = request.map_or("", |request| request.uid);
    let Some(request) = request else {
        let written = Written::of(&Answer::deny(version, uid, Status::malformed(NO_REQUEST)))?;
        let step = Step::Write(written, Outcome::Malformed);
        return Ok(Judged { version, uid: String::new(), kind: None, step });
    };
    let Judgement { kind, verdict } = judge(&request);
    let (answer, outcome) = match verdict {
        Verdict::Refused(status) => {
            tracing::debug!(message = status.message, "denied");
            (Answer::deny(version, uid, status), Outcome::Denied)
        }
        Verdict::Passed => (Answer::allow(version, uid, Vec::new()), Outcome::Passed),
        Verdict::Sound { remarks, object } => {
            let step = Step::Advise { remarks, object };
            return Ok(Judged { version, uid: uid.to_owned(), kind, step });
        }
        Verdict::Deletes(object) => {
            let step = Step::AdviseDeletion(object);
            return Ok(Judged { version, uid: uid.to_owned(), kind, step });
        }
    };
    let step = Step::Write(Written::of(&answer)?, outcome);
    Ok(Judged { version, uid: uid.to_owned(), kind, step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A client that resets its stream drops the future; what goes on is counted nevertheless.
    #[tokio::test]
    async fn work_that_nobody_waits_for_any_longer_keeps_its_turn_and_its_room() {
        let network = ClientNetwork::of([127, 0, 0, 1].into());
        let bounds = Bounds { total: 2, per_network: 1, first: Revoked::Newest };
        let room = SharedRoom::new(bounds, AnsweredNetworks::default());
        let share = Arc::new(room.take(network, 1).unwrap());
        let turns = FairScheduler::new(1);
        let turn = turns.acquire(network, 1).await.unwrap();
        let (ends, end) = mpsc::channel::<()>();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let waits = tokio::spawn(in_turn(turn, share, move || {
            begins.send(()).unwrap();
            end.recv().map_err(|_| Refusal::Failed)
        }));
        begun.await.unwrap();
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        let next =
            tokio::time::timeout(Duration::from_millis(100), turns.acquire(network, 1)).await;
        assert!(next.is_err(), "its turn is another's while it works");
        assert!(room.take(network, 1).is_err(), "its room is another's while it works");
        ends.send(()).unwrap();
        turns.acquire(network, 1).await.unwrap();
        assert!(room.take(network, 1).is_ok());
    }

    #[test]
    fn a_review_of_no_length_costs_a_turn_nevertheless() {
        let room = Service::new(None, AdmissionMetrics::default()).room;
        let network = ClientNetwork::of([127, 0, 0, 1].into());
        let share = Arc::new(room.take(network, REVIEW).unwrap());
        let review = |length: usize| Review {
            network,
            share: &share,
            bytes: vec![b' '; length].into(),
            weight: 0,
        };
        assert!(review(1000).cost() < 2 * review(1).cost());
    }
}
