//! Carries HTTP: each request is decided on, forwarded as it was judged, and watched while open.

use super::answered::Answered;
use super::arrival::Arrival;
use super::body::ResponseBody;
use super::client;
use super::client_body::ClientBody;
use super::enforcer::Connected;
use super::io::ClientIo;
use super::open::{HttpConnection, OpenGuard, RequestBody, UpstreamBody};
use super::tunnel::Switch;
use super::wire::Broken;
use super::worker::Member;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use policy_enforce::error::ErrorKind;
use policy_enforce::headers;
use policy_enforce::middleware::pipeline::{self, Admission, TimedRequest};
use policy_enforce::respond::{Answer, ResponseFormat};
use policy_http::http1::request_decode::RequestHeadError;
use policy_http::http2;
use policy_tls::peer::Peer;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::{Duration, Instant};

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

/// Decides on a request, and answers it or has it answered.
/// The head is boxed, since it is handed on a good many times.
pub(super) async fn answer(
    connection: Rc<HttpConnection>,
    mut head: Box<Parts>,
    body: ClientBody,
) -> Answered {
    connection.begin();
    let admitted = {
        let mut gate = connection.gate.borrow_mut();
        pipeline::admit(&Connected(&connection), Some(&mut gate), &mut head)
    };
    let mut admitted = match admitted {
        Admission::Admitted(admitted) => admitted,
        Admission::Refused(refused) => return refused.into(),
    };
    let body = RequestBody::new(body, &admitted.request.open);
    // Asked for by records alone.
    let sent = admitted.is_recorded().then(Instant::now);
    let carried = admitted.options.orig_proto;
    let forwarded = forward(&connection, (head, body), &mut admitted.request, carried).await;
    let waited = sent.map_or(Duration::ZERO, |sent| sent.elapsed());
    let mut response = match forwarded {
        Ok(response) => response,
        Err(answer) => return admitted.refuse(&Connected(&connection), answer, waited).into(),
    };
    // In place: a response that is handed on by value is copied at every step.
    if let Some(refused) = admitted.pass(&Connected(&connection), &mut response, waited) {
        return refused.into();
    }
    let asker = admitted.format();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(response, admitted.request.open, asker);
    }
    if let Some(version) = carried {
        headers::set_orig_proto(response.headers_mut(), version);
    }
    *response.version_mut() = Version::HTTP_11;
    response.map(|body| ResponseBody::upstream(body, admitted.request, asker)).into()
}

/// Sends the request on and waits for the response's head, or for a reason to give up. `carried`: the
/// version of HTTP/1 that a meshed peer carries in HTTP/2.
async fn forward(
    connection: &Rc<HttpConnection>,
    (mut head, body): (Box<Parts>, RequestBody),
    held: &mut TimedRequest<OpenGuard>,
    carried: Option<Version>,
) -> Result<Response<UpstreamBody>, Answer> {
    let shared = &connection.worker.shared;
    let waiting = shared.in_flight.enter(shared.config.limits.in_flight);
    let _waiting = waiting.ok_or(Answer::Overloaded)?;
    let upstream = &connection.upstream;
    if let Some(version) = carried {
        headers::downgrade_orig_proto(&mut head, version, body.size_hint().exact().is_some());
        until(Box::pin(upstream.one_of_many(head, body)), held).await
    } else if head.version >= Version::HTTP_2 {
        // Boxed: larger than what HTTP/1 needs.
        let request = Request::from_parts(*head, body);
        until(Box::pin(upstream.http2(request)), held).await
    } else {
        until(pin!(upstream.http1(head, body, None)), held).await
    }
}

async fn until<F, E>(
    mut sending: Pin<F>,
    held: &mut TimedRequest<OpenGuard>,
) -> Result<Response<UpstreamBody>, Answer>
where
    F: std::ops::DerefMut<Target: Future<Output = Result<Response<UpstreamBody>, E>>>,
    E: Into<Answer>,
{
    poll_fn(|cx| {
        let polled = held.poll_answer(cx, |cx| sending.as_mut().poll(cx));
        polled.map(|answered| answered?.map_err(Into::into))
    })
    .await
}

/// Passes a 101 on. What follows is carried under the request's permission.
fn switch(response: Response<UpstreamBody>, guard: OpenGuard, asker: ResponseFormat) -> Answered {
    guard.ended(false);
    let (head, body) = response.into_parts();
    let server = match body {
        UpstreamBody::Http1(body) => body.switched(),
        UpstreamBody::Http2(_) => None,
    };
    let response = Response::from_parts(head, ResponseBody::text(Bytes::new(), asker));
    Answered { response, switch: server.map(|server| Box::new(Switch { server, guard })) }
}

impl HttpConnection {
    /// Counts a failed HTTP/1 connection.
    fn broken(&self, broken: &Broken) {
        let kind = match broken {
            Broken::Head(RequestHeadError::TooLarge | RequestHeadError::TargetTooLong) => {
                ErrorKind::RequestHeadTooLarge
            }
            Broken::Head(RequestHeadError::Malformed) => ErrorKind::BadRequestHead,
            Broken::Io(_) => ErrorKind::Io,
            // What broke off was recorded where it happened.
            Broken::Cut | Broken::Stopped => return,
        };
        self.http_error(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sidecar::{accept, opaque};

    fn size<F, L>(_: fn(Arrival, Peer, ClientIo, L) -> F) -> usize {
        size_of::<F>()
    }

    fn size_of_answer<F>(_: fn(Rc<HttpConnection>, Box<Parts>, ClientBody) -> F) -> usize {
        size_of::<F>()
    }

    /// What a connection's task costs beside its buffers. A future grows by a kilobyte through one
    /// careless `await`; a thousand idle connections then cost a megabyte more.
    #[test]
    fn tasks_of_connections_stay_small() {
        let sizes = [size(serve), size(opaque::carry), accept::size_of_arrive()];
        let bounds = [976, 1152, 1616];
        assert!(sizes.iter().zip(bounds).all(|(size, bound)| *size <= bound), "{sizes:?}");
        // Moved into its place once, and polled there.
        assert!(size_of_answer(answer) <= 1024, "{}", size_of_answer(answer));
        // Handed from its future to the client's task.
        assert!(size_of::<Answered>() <= 240, "{}", size_of::<Answered>());
        assert!(size_of::<HttpConnection>() <= 1024, "{}", size_of::<HttpConnection>());
        assert!(size_of::<ResponseBody>() <= 128, "{}", size_of::<ResponseBody>());
    }
}
