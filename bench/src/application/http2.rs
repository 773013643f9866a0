//! HTTP/2: requests, and calls that get back what they send.

use crate::answer::SMALL;
use anyhow::bail;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

/// Serves a connection to its end.
pub(crate) async fn serve(stream: TcpStream) -> anyhow::Result<()> {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(16 << 20);
    let mut connection = builder.handshake(stream).await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted?;
        spawn_local(async move {
            // A stream that is reset is the client's choice.
            _ = answer(request, respond).await;
        });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> anyhow::Result<()> {
    let kind = request.headers().get("content-type").map_or(&b""[..], HeaderValue::as_bytes);
    let is_call = kind.starts_with(b"application/grpc");
    let wanted = request.uri().query().and_then(|query| query.parse::<usize>().ok());
    let mut body = request.into_body();
    if is_call {
        let head = Response::builder().header("content-type", "application/grpc").body(())?;
        let mut send = respond.send_response(head, false)?;
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            whole(&mut send, part, false).await?;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        return Ok(send.send_trailers(trailers)?);
    }
    while let Some(part) = body.data().await {
        body.flow_control().release_capacity(part?.len())?;
    }
    let bytes = match wanted {
        None => Bytes::from_static(SMALL),
        Some(wanted) => vec![b'y'; wanted].into(),
    };
    let head = Response::builder().header("content-type", "text/plain");
    let mut send = respond.send_response(head.body(())?, false)?;
    whole(&mut send, bytes, true).await
}

/// Sends bytes as the window allows; the last of them may end the stream.
async fn whole(send: &mut SendStream<Bytes>, mut bytes: Bytes, last: bool) -> anyhow::Result<()> {
    while !bytes.is_empty() {
        send.reserve_capacity(bytes.len());
        let free = match send.capacity() {
            0 => std::future::poll_fn(|context| send.poll_capacity(context)).await,
            free => Some(Ok(free)),
        };
        let Some(free) = free else { bail!("the stream ended in a body") };
        let part = bytes.split_to(free?.min(bytes.len()));
        send.send_data(part, last && bytes.is_empty())?;
    }
    Ok(())
}
