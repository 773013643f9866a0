//! Serves HTTP: each request is decided on, forwarded as it was decided on, and re-evaluated while
//! it is in flight.

use super::accepted::AcceptedConnection;
use super::body::ResponseBody;
use super::client_body::ClientBody;
use super::client_conn::ClientConnError;
use super::enforcer::ConnectionEnforcer;
use super::head_room::NoRoom;
use super::http1;
use super::inflight::{HttpConnection, InflightGuard, RequestBody};
use super::io::ClientIo;
use super::response::ClientResponse;
use super::tunnel::Upgrade;
use super::upstream::{Inform, UpstreamBody};
use super::worker::TrackedConnection;
use bytes::Bytes;
use http::header::EXPECT;
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use policy_enforce::error::ErrorKind;
use policy_enforce::headers;
use policy_enforce::middleware::pipeline::{
    self, Admission, Enforcer, LocalResponse, ResponseFilter, TimedRequest,
};
use policy_enforce::respond;
use policy_enforce::respond::{Answer, ResponseFormat};
use policy_http::http1::last_after_body::LastAfterBody;
use policy_http::http1::request_decode::RequestHeadError;
use policy_http::http1::response_decode::is_interim;
use policy_http::http2;
use policy_tls::peer::Peer;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Serves one connection until it ends.
pub(super) async fn serve(accepted: AcceptedConnection, peer: Peer, io: ClientIo, is_http2: bool) {
    let connection = HttpConnection::register(accepted, peer, is_http2);
    if connection.worker.is_draining() {
        connection.drain();
    }
    let io = connection.metered(io);
    if is_http2 {
        // Boxed: the larger of the two, and the rarer.
        let answer = |head, body| answer(Rc::clone(&connection), head, ClientBody::Http2(body));
        Box::pin(http2::serve(&*connection, io, answer)).await;
    } else if let Err(error) = http1::serve(&connection, io, answer).await {
        connection.count_error(&error);
    }
}

/// Decides on a request, and answers it or forwards it to the application. The head is boxed,
/// because it moves through many calls.
pub(super) async fn answer(
    connection: Rc<HttpConnection>,
    mut head: Box<Parts>,
    body: ClientBody,
) -> ClientResponse {
    connection.begin();
    let size = list_size(&head);
    if size
        > usize::try_from(connection.worker.shared.config.limits.request_head).unwrap_or(usize::MAX)
    {
        return refuse_large(&connection, &head).into();
    }
    let admitted = {
        let mut authorizer = connection.authorizer.borrow_mut();
        pipeline::admit(&ConnectionEnforcer(&connection), Some(&mut authorizer), &mut head)
    };
    let mut admitted = match admitted {
        Admission::Admitted(admitted) => admitted,
        Admission::Refused(refused) => return refused.into(),
    };
    let size = size.max(connection.upstream.request_text.borrow().len());
    let (heads, most) = (&connection.worker.heads, connection.worker.shared.config.most_heads());
    match heads.acquire(&connection.peer, (size, most)) {
        Ok(room) => admitted.request.open.hold(room),
        Err(NoRoom) => {
            let (enforcer, answer) = (ConnectionEnforcer(&connection), Answer::Overloaded);
            return admitted.refuse(&enforcer, answer, Duration::ZERO).into();
        }
    }
    if head.headers.contains_key(EXPECT) {
        body.leave_continue();
    }
    if !admitted.policy.reuses_after_bodies() {
        head.extensions.insert(LastAfterBody);
    }
    let body = RequestBody::new(body, &admitted.request.open);
    // Read by records alone.
    let sent = admitted.is_recorded().then(Instant::now);
    let carried = admitted.options.orig_proto;
    let (held, filter) = admitted.forwarding();
    let inform = |response| pass_interim(&connection, (filter, carried), response);
    let forwarded = forward(&connection, (head, body), held, (carried, &inform)).await;
    let waited = sent.map_or(Duration::ZERO, |sent| sent.elapsed());
    let mut response = match forwarded {
        Ok(response) => response,
        Err(answer) => {
            let reset = ClientResponse::reset_for(&answer, admitted.format());
            let refused = admitted.refuse(&ConnectionEnforcer(&connection), answer, waited);
            return reset.unwrap_or_else(|| refused.into());
        }
    };
    // In place: a response that moves by value is copied at every step.
    if let Some(refused) = admitted.pass(&ConnectionEnforcer(&connection), &mut response, waited) {
        return refused.into();
    }
    let asker = admitted.format();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return upgrade(response, admitted.request, asker);
    }
    if let Some(version) = carried {
        headers::set_orig_proto(response.headers_mut(), version);
    }
    *response.version_mut() = Version::HTTP_11;
    response.map(|body| ResponseBody::upstream(body, admitted.request, asker)).into()
}

/// Passes an interim response to the client, unless it speaks HTTP/1.0. `carried`: the version of a request
/// that a meshed peer sends in HTTP/2.
fn pass_interim(
    connection: &Rc<HttpConnection>,
    (filter, carried): (ResponseFilter<'_>, Option<Version>),
    mut response: Response<()>,
) {
    let role = ConnectionEnforcer(connection).role();
    if carried != Some(Version::HTTP_10)
        && is_interim(response.status())
        && filter.interim(role, response.headers_mut())
    {
        connection.interim.borrow_mut().push_back(response);
    }
}

/// Returns the size of an HTTP/2 head; 0 for HTTP/1, whose size its codec bounds.
fn list_size(head: &Parts) -> usize {
    if head.version < Version::HTTP_2 {
        return 0;
    }
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    headers::list_size(&head.headers).saturating_add(target)
}

/// Answers a head that is too large, without a decision.
#[cold]
fn refuse_large(connection: &Rc<HttpConnection>, head: &Parts) -> LocalResponse {
    let (enforcer, answer) = (ConnectionEnforcer(connection), Answer::HeadTooLarge);
    enforcer.failed(&answer);
    let format = ResponseFormat::of(head, connection.peer.is_meshed(), enforcer.refusal_detail());
    LocalResponse { response: respond::respond(&answer, &format), format }
}

/// Forwards the request and waits for the response head, or for a reason to give up. `carried`: the
/// HTTP/1 version of a request that a meshed peer sends in HTTP/2. Interim responses go to `inform`.
async fn forward(
    connection: &Rc<HttpConnection>,
    (mut head, body): (Box<Parts>, RequestBody),
    held: &mut TimedRequest<InflightGuard>,
    (carried, inform): (Option<Version>, Inform<'_>),
) -> Result<Response<UpstreamBody<RequestBody>>, Answer> {
    let shared = &connection.worker.shared;
    let permit = shared.request_permits.acquire(shared.config.limits.in_flight);
    let _permit = permit.ok_or(Answer::Overloaded)?;
    let upstream = &connection.upstream;
    if let Some(version) = carried {
        headers::downgrade_orig_proto(&mut head, version, body.size_hint().exact().is_some());
        wait_for_response(Box::pin(upstream.http1_multiplexed(head, body, inform)), held).await
    } else if head.version >= Version::HTTP_2 {
        // Boxed: larger than the future for HTTP/1.
        let request = Request::from_parts(*head, body);
        wait_for_response(Box::pin(upstream.http2(request, inform)), held).await
    } else {
        wait_for_response(pin!(upstream.http1(head, body, (None, inform))), held).await
    }
}

async fn wait_for_response<F, E>(
    mut sending: Pin<F>,
    held: &mut TimedRequest<InflightGuard>,
) -> Result<Response<UpstreamBody<RequestBody>>, Answer>
where
    F: std::ops::DerefMut<Target: Future<Output = Result<Response<UpstreamBody<RequestBody>>, E>>>,
    E: Into<Answer>,
{
    poll_fn(|cx| {
        let polled = held.poll_answer(cx, |cx| sending.as_mut().poll(cx));
        polled.map(|answered| answered?.map_err(Into::into))
    })
    .await
}

/// Forwards a 101. The tunnel behind it lasts as long as the request is permitted. Bounds on the request
/// and its response have ended; the one on time without a byte holds for the tunnel.
fn upgrade(
    response: Response<UpstreamBody<RequestBody>>,
    request: TimedRequest<InflightGuard>,
    asker: ResponseFormat,
) -> ClientResponse {
    let (guard, timer) = request.into_switched();
    guard.ended(false);
    let (head, body) = response.into_parts();
    let server = match body {
        UpstreamBody::Http1(body) => body.into_upgraded(),
        UpstreamBody::Http2(_) => None,
    };
    let response = Response::from_parts(head, ResponseBody::text(Bytes::new(), asker));
    ClientResponse {
        response,
        upgrade: server.map(|server| Box::new(Upgrade { server, guard, timer })),
    }
}

impl HttpConnection {
    /// Returns the next interim response to the request whose answer was polled last. An idle connection
    /// keeps no memory for them.
    pub(super) fn take_interim(&self) -> Option<Response<()>> {
        let mut interim = self.interim.borrow_mut();
        let next = interim.pop_front();
        if next.is_none() && interim.capacity() > 0 {
            *interim = VecDeque::new();
        }
        next
    }

    /// Counts a failed HTTP/1 connection.
    fn count_error(&self, error: &ClientConnError) {
        let kind = match error {
            ClientConnError::Head(RequestHeadError::TooLarge | RequestHeadError::TargetTooLong) => {
                ErrorKind::RequestHeadTooLarge
            }
            ClientConnError::Head(RequestHeadError::Malformed) => ErrorKind::BadRequestHead,
            ClientConnError::Io(_) => ErrorKind::Io,
            // Recorded where it happened.
            ClientConnError::ResponseAborted
            | ClientConnError::Unanswered
            | ClientConnError::Closed => return,
        };
        self.http_error(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sidecar::copy::HttpWatch;
    use crate::sidecar::server_first::ServerFirst;
    use crate::sidecar::{accept, opaque, outbound};

    fn size<F, L>(_: fn(AcceptedConnection, Peer, ClientIo, L) -> F) -> usize {
        size_of::<F>()
    }

    fn size_of_forward<F>(
        _: fn(AcceptedConnection, Peer, ClientIo, HttpWatch, Option<Box<ServerFirst>>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    fn size_of_answer<F>(_: fn(Rc<HttpConnection>, Box<Parts>, ClientBody) -> F) -> usize {
        size_of::<F>()
    }

    /// Memory of a connection's task without its buffers. A future grows by a kilobyte through one
    /// careless `await`; a thousand idle connections then cost a megabyte more.
    #[test]
    fn tasks_of_connections_stay_small() {
        let (forward, accept) = (size_of_forward(opaque::forward), accept::size_of_arrive());
        let sizes = [size(serve), forward, accept, outbound::size_of_accept()];
        let bounds = [1080, 1152, 1616, 1032];
        assert!(sizes.iter().zip(bounds).all(|(size, bound)| *size <= bound), "{sizes:?}");
        // Moved into its place once, and polled there.
        assert!(size_of_answer(answer) <= 1296, "{}", size_of_answer(answer));
        // Moved from its future to the client's task.
        assert!(size_of::<ClientResponse>() <= 256, "{}", size_of::<ClientResponse>());
        assert!(size_of::<HttpConnection>() <= 1024, "{}", size_of::<HttpConnection>());
        assert!(size_of::<ResponseBody>() <= 136, "{}", size_of::<ResponseBody>());
    }
}
