//! The response to a request.

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// Sends the response that `answering` makes, unless its client gives it up before.
pub(super) async fn respond<B>(
    answering: impl Future<Output = Response<B>>,
    mut stream: SendResponse<Bytes>,
) -> Result<(), h2::Error>
where
    B: Body<Data = Bytes>,
{
    let response = tokio::select! {
        biased;
        _given_up = poll_fn(|cx| stream.poll_reset(cx)) => return Ok(()),
        response = answering => response,
    };
    let (head, body) = response.into_parts();
    let mut body = pin!(body);
    let is_whole = body.is_end_stream();
    let stream = stream.send_response(Response::from_parts(head, ()), is_whole)?;
    if is_whole { Ok(()) } else { send_body(body.as_mut(), stream).await }
}

/// Sends a body. The next of it is made when the client can take some of it.
async fn send_body<B>(mut body: Pin<&mut B>, mut stream: SendStream<Bytes>) -> Result<(), h2::Error>
where
    B: Body<Data = Bytes>,
{
    loop {
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            let more = poll_fn(|cx| match stream.poll_reset(cx) {
                Poll::Ready(_given_up) => Poll::Ready(None),
                Poll::Pending => stream.poll_capacity(cx),
            });
            match more.await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
        let frame = tokio::select! {
            biased;
            _given_up = poll_fn(|cx| stream.poll_reset(cx)) => return Ok(()),
            frame = body.frame() => frame,
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(_)) => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
            None => return stream.send_data(Bytes::new(), true),
        };
        match frame.into_data() {
            Ok(data) => {
                let is_last = body.is_end_stream();
                stream.send_data(data, is_last)?;
                if is_last {
                    return Ok(());
                }
            }
            Err(frame) => {
                stream.reserve_capacity(0);
                let trailers = frame.into_trailers().unwrap_or_default();
                return stream.send_trailers(trailers);
            }
        }
    }
}
