//! Carries HTTP: each request is decided on, forwarded as it was judged, and watched while open.

use super::answered::Answered;
use super::arrival::Arrival;
use super::body::ResponseBody;
use super::client;
use super::client_body::ClientBody;
use super::exchange::Exchange;
use super::io::ClientIo;
use super::open::{HttpConnection, OpenGuard, RequestBody, UpstreamBody};
use super::tunnel::Switch;
use super::wire::Broken;
use super::worker::Member;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use policy_core::{Denial, Permit};
use policy_enforce::error::ErrorKind;
use policy_enforce::headers;
use policy_enforce::headers::Asked;
use policy_enforce::middleware::effects;
use policy_enforce::middleware::effects::Plan;
use policy_enforce::middleware::gate::{Forward, Refusal, Verdict};
use policy_enforce::record::{Decided, Told};
use policy_enforce::respond;
use policy_enforce::respond::{Answer, Asker, Fault};
use policy_enforce::store::InForce;
use policy_http::bounds::MOST_FIELDS;
use policy_http::http1::request::Bad;
use policy_http::http2;
use policy_tls::peer::Peer;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Serves one connection until it ends.
pub(super) async fn serve(arrival: Arrival, peer: Peer, io: ClientIo, many: bool) {
    let connection = HttpConnection::register(arrival, peer, many);
    if connection.worker.is_draining() {
        connection.drain();
    }
    let io = connection.metered(io);
    if many {
        // Boxed: the larger of the two, and the rarer.
        let answer = |head, body| answer(Rc::clone(&connection), head, ClientBody::Http2(body));
        Box::pin(http2::serve(&*connection, io, answer)).await;
    } else if let Err(broken) = client::serve(&connection, io, answer).await {
        connection.broken(&broken);
    }
}

/// What is known of a request when its answer is recorded.
struct Asking {
    asker: Asker,
    asked: Asked,
    started: Instant,
    /// Only where somebody records.
    told: Option<Box<Told>>,
}

/// Decides on a request, and answers it or has it answered.
/// The head is boxed, since it is handed on a good many times.
pub(super) async fn answer(
    connection: Rc<HttpConnection>,
    mut head: Box<Parts>,
    body: ClientBody,
) -> Answered {
    connection.begin();
    let started = Instant::now();
    let told = connection.worker.is_recording().then(|| Box::new(Told::of(&head)));
    let meshed = connection.peer.is_meshed();
    let asker = Asker::of(&head, meshed);
    let most = connection.most_fields();
    if head.headers.keys_len() > most {
        return refuse_head(&connection, asker);
    }
    let asked = headers::clean_request(&mut head, meshed);
    let mut asking = Asking { asker, asked, started, told };
    // A cookie's crumbs are one field by now.
    if head.headers.len() > most {
        return refuse_head(&connection, asker);
    }
    let verdict = {
        let live = connection.handle.live();
        let mut gate = connection.gate.borrow_mut();
        gate.judge(&live, &connection.peer, &mut head, started)
    };
    match verdict {
        Verdict::Refuse(refusal) => refuse(&connection, &asking, &refusal).into(),
        Verdict::Forward(forward) => {
            if let Some(told) = &mut asking.told {
                told.judged(&forward.kept);
            }
            // Nothing has been awaited since the decision, so no review can have missed this.
            let Forward { permit, plan, kept, policy, series, .. } = forward;
            if policy.informs() && connection.informed.tell(&mut head.headers).is_err() {
                let (answer, decision) = (Answer::HeadTooLarge, Ok(permit));
                connection.failed(&answer);
                let policy = Some(policy);
                return refuse(&connection, &asking, &Refusal { answer, decision, policy }).into();
            }
            let exchange = Exchange::new(series, started, asking.asker.is_grpc());
            let guard = connection.open(kept, permit, Arc::clone(&policy), exchange);
            if let Some(version) = asked.carried {
                headers::unwrap_carried(&mut head, version, body.size_hint().exact().is_some());
            }
            let body = RequestBody::new(body, &guard);
            let permitted = Permitted { permit, plan, policy, guard };
            proxy(&connection, (head, body), asking, permitted).await
        }
    }
}

/// A request that is being forwarded.
struct Permitted {
    permit: Permit,
    plan: Plan,
    policy: Arc<InForce>,
    guard: OpenGuard,
}

async fn proxy(
    connection: &Rc<HttpConnection>,
    request: (Box<Parts>, RequestBody),
    asking: Asking,
    permitted: Permitted,
) -> Answered {
    let deadline = permitted.plan.timeout.and_then(|bound| asking.started.checked_add(bound));
    let mut deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at.into())));
    // Asked for by records alone.
    let sent = asking.told.is_some().then(Instant::now);
    let carried = asking.asked.carried.is_some();
    let mut forwarded =
        forward(connection, request, &permitted.guard, &mut deadline, carried).await;
    let waited = sent.map_or(Duration::ZERO, |sent| sent.elapsed());
    let http2 = connection.is_http2();
    // In place: a response that is handed on by value is copied at every step.
    if let Ok(response) = &mut forwarded
        && let Err(answer) = pass(response, asking.asked, &permitted, http2)
    {
        forwarded = Err(answer);
    }
    let mut response = match forwarded {
        Ok(response) => response,
        Err(answer) => {
            connection.failed(&answer);
            let decision = answer.instead_of(permitted.permit);
            let policy = Some(Arc::clone(&permitted.policy));
            let response = refuse(connection, &asking, &Refusal { answer, decision, policy });
            permitted.guard.begun(&response, (asking.started, waited));
            permitted.guard.ended(false);
            return response.into();
        }
    };
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    asking.record(connection, &response, (Some(&permitted.policy), Ok(permitted.permit)), waited);
    permitted.guard.begun(&response, (asking.started, waited));
    if switching {
        return switch(response, permitted.guard, asking.asker);
    }
    *response.version_mut() = Version::HTTP_11;
    let asker = asking.asker;
    response.map(|body| ResponseBody::upstream(body, permitted.guard, deadline, asker)).into()
}

/// Makes the application's head the one that the client gets. Refuses a 101 that nobody asked for, and
/// more fields than a map surely has room for.
fn pass(
    response: &mut Response<UpstreamBody>,
    asked: Asked,
    permitted: &Permitted,
    http2: bool,
) -> Result<(), Answer> {
    let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switching && !asked.upgrade {
        return Err(Answer::Upstream(Fault::UnaskedUpgrade));
    }
    let headers = response.headers_mut();
    if headers.len() > MOST_FIELDS {
        return Err(Answer::Upstream(Fault::HeadTooLarge));
    }
    headers::clean_response(headers, switching);
    if permitted.plan.response {
        effects::change_response(&permitted.policy, &permitted.permit, headers)?;
        if http2 {
            headers::clean_for_http2(headers);
        }
    }
    if let Some(version) = asked.carried {
        headers::wrap_carried(headers, version);
    }
    Ok(())
}

/// Sends the request on and waits for the response's head, or for a reason to give up.
async fn forward(
    connection: &Rc<HttpConnection>,
    (head, body): (Box<Parts>, RequestBody),
    guard: &OpenGuard,
    deadline: &mut Option<Pin<Box<Sleep>>>,
    carried: bool,
) -> Result<Response<UpstreamBody>, Answer> {
    let shared = &connection.worker.shared;
    let waiting = shared.in_flight.enter(shared.config.limits.in_flight);
    let _waiting = waiting.ok_or(Answer::Overloaded)?;
    let upstream = &connection.upstream;
    if head.version >= Version::HTTP_2 {
        // Boxed: larger than what HTTP/1 needs.
        let request = Request::from_parts(*head, body);
        until(Box::pin(upstream.http2(request)), guard, deadline).await
    } else if carried {
        until(Box::pin(upstream.one_of_many(head, body)), guard, deadline).await
    } else {
        until(pin!(upstream.http1(head, body, None)), guard, deadline).await
    }
}

async fn until<F, E>(
    mut sending: Pin<F>,
    guard: &OpenGuard,
    deadline: &mut Option<Pin<Box<Sleep>>>,
) -> Result<Response<UpstreamBody>, Answer>
where
    F: std::ops::DerefMut<Target: Future<Output = Result<Response<UpstreamBody>, E>>>,
    E: Into<Answer>,
{
    poll_fn(|cx| {
        if let Some(reason) = guard.poll_lost(cx) {
            return Poll::Ready(Err(Answer::Denied(reason)));
        }
        let late = deadline.as_mut().is_some_and(|at| at.as_mut().poll(cx).is_ready());
        match sending.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(result.map_err(Into::into)),
            Poll::Pending if late => Poll::Ready(Err(Answer::Upstream(Fault::Timeout))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Answers in the application's place.
fn refuse(
    connection: &Rc<HttpConnection>,
    asking: &Asking,
    refusal: &Refusal,
) -> Response<ResponseBody> {
    if refusal.policy.is_none()
        && let Err(denial) = &refusal.decision
    {
        connection.worker.shared.store.telemetry().refused(denial.reason);
    }
    let response = respond::respond(&refusal.answer, &asking.asker);
    let by = (refusal.policy.as_ref(), refusal.decision);
    asking.record(connection, &response, by, Duration::ZERO);
    response.map(|text| ResponseBody::text(text, asking.asker))
}

/// Answers a request of HTTP/2 whose head has too many fields, as one of HTTP/1 is answered before it
/// is a request: nothing is decided.
fn refuse_head(connection: &HttpConnection, asker: Asker) -> Answered {
    let answer = Answer::HeadTooLarge;
    connection.failed(&answer);
    let response = respond::respond(&answer, &asker);
    response.map(|text| ResponseBody::text(text, asker)).into()
}

/// Passes a 101 on. What follows is carried under the request's permission.
fn switch(response: Response<UpstreamBody>, guard: OpenGuard, asker: Asker) -> Answered {
    guard.ended(false);
    let (head, body) = response.into_parts();
    let server = match body {
        UpstreamBody::Http1(body) => body.switched(),
        UpstreamBody::Http2(_) => None,
    };
    let response = Response::from_parts(head, ResponseBody::text(Bytes::new(), asker));
    Answered { response, switch: server.map(|server| Switch { server, guard }) }
}

impl HttpConnection {
    /// Counts a failed HTTP/1 connection.
    fn broken(&self, broken: &Broken) {
        let kind = match broken {
            Broken::Head(Bad::TooLarge | Bad::TargetTooLong) => ErrorKind::RequestHeadTooLarge,
            Broken::Head(Bad::Malformed) => ErrorKind::BadRequestHead,
            Broken::Io(_) => ErrorKind::Io,
            // What broke off was recorded where it happened.
            Broken::Cut | Broken::Stopped => return,
        };
        self.http_error(kind);
    }

    /// The most header fields of a request.
    fn most_fields(&self) -> usize {
        self.worker.shared.config.limits.headers.min(MOST_FIELDS)
    }

    /// Counts and logs an answer that a failure made, the application's or the head's.
    fn failed(&self, answer: &Answer) {
        let kind = match answer {
            Answer::Upstream(Fault::Connect) => ErrorKind::Connect,
            Answer::Upstream(Fault::ConnectTimeout) => ErrorKind::ConnectTimeout,
            Answer::Upstream(Fault::Broken | Fault::UnaskedUpgrade | Fault::HeadTooLarge) => {
                ErrorKind::Upstream
            }
            Answer::Upstream(Fault::Timeout) => ErrorKind::RequestTimeout,
            Answer::Overloaded => ErrorKind::TooManyRequests,
            Answer::HeadTooLarge => ErrorKind::RequestHeadTooLarge,
            Answer::Gateway
            | Answer::Denied(_)
            | Answer::Limited(_)
            | Answer::Redirect { .. }
            | Answer::InvalidRedirect
            | Answer::Failure { .. } => return,
        };
        self.http_error(kind);
    }
}

impl Asking {
    /// Hands the decision and the answer to whoever records.
    fn record<B>(
        &self,
        connection: &HttpConnection,
        response: &Response<B>,
        (policy, decision): (Option<&Arc<InForce>>, Result<Permit, Denial>),
        waited: Duration,
    ) {
        let Some(told) = &self.told else { return };
        let request = told.request(response, self.started.elapsed(), waited);
        let decided = Decided {
            at: told.at,
            port: connection.handle.port(),
            peer: &connection.peer,
            policy: policy.map(|policy| &**policy),
            decision,
        };
        connection.worker.record(&decided, Some(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sidecar::{accept, opaque};

    fn size<F, L>(_: fn(Arrival, Peer, ClientIo, L) -> F) -> usize {
        size_of::<F>()
    }

    /// What a connection's task costs beside its buffers. A future grows by a kilobyte through one
    /// careless `await`; a thousand idle connections then cost a megabyte more.
    #[test]
    fn tasks_of_connections_stay_small() {
        let sizes = [size(serve), size(opaque::carry), accept::size_of_arrive()];
        let bounds = [976, 1152, 1616];
        assert!(sizes.iter().zip(bounds).all(|(size, bound)| *size <= bound), "{sizes:?}");
        assert!(size_of::<HttpConnection>() <= 1024, "{}", size_of::<HttpConnection>());
        assert!(size_of::<ResponseBody>() <= 128, "{}", size_of::<ResponseBody>());
    }
}
