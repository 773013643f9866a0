//! HTTP/1.1, and the first look that tells HTTP/2 from it.

use crate::answer::SMALL;
use crate::http2;
use anyhow::{bail, ensure};
use policy_bench::wire;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// First bytes of HTTP/2 with prior knowledge, and of no request of HTTP/1.1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Serves a connection to its end.
pub(crate) async fn serve(stream: TcpStream) -> anyhow::Result<()> {
    let mut start = [0; PREFACE.len()];
    let seen = stream.peek(&mut start).await?;
    if seen == PREFACE.len() && start == PREFACE {
        return http2::serve(stream).await;
    }
    requests(stream).await
}

/// Serves requests of HTTP/1.1 to the end of their connection.
pub(crate) async fn requests(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let small = answer(SMALL.len(), false);
    let mut filled = 0;
    loop {
        let head = loop {
            if let Some(head) = wire::head(buffer.get(..filled).unwrap_or_default()) {
                break head;
            }
            let free = buffer.get_mut(filled..).filter(|free| !free.is_empty());
            let Some(free) = free else { bail!("a head without end") };
            let read = stream.read(free).await?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
        };
        let wanted = wire::wanted(buffer.get(..head.length).unwrap_or_default());
        if head.chunked {
            chunks(&mut stream, &mut buffer, head.length, filled).await?;
            filled = 0;
        } else {
            let end = head.length + head.body.unwrap_or(0);
            skip(&mut stream, &mut buffer, end, &mut filled).await?;
        }
        match wanted {
            None if !head.close => stream.write_all(&small).await?,
            wanted => {
                stream.write_all(&answer(wanted.unwrap_or(SMALL.len()), head.close)).await?;
            }
        }
        if head.close {
            return Ok(stream.shutdown().await?);
        }
    }
}

/// Reads up to the end of a request, and puts what follows at the start of the buffer.
async fn skip(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
    end: usize,
    filled: &mut usize,
) -> anyhow::Result<()> {
    if *filled >= end {
        buffer.copy_within(end..*filled, 0);
        *filled -= end;
        return Ok(());
    }
    let mut left = end - *filled;
    while left > 0 {
        let most = left.min(buffer.len());
        let read = stream.read(buffer.get_mut(..most).unwrap_or_default()).await?;
        ensure!(read > 0, "the connection ended in a body");
        left -= read;
    }
    *filled = 0;
    Ok(())
}

/// Reads up to the last chunk. Nobody sends another request before the answer.
async fn chunks(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
    from: usize,
    filled: usize,
) -> anyhow::Result<()> {
    let mut tail = buffer.get(from..filled).unwrap_or_default().to_vec();
    while !tail.ends_with(b"0\r\n\r\n") {
        let read = stream.read(buffer).await?;
        ensure!(read > 0, "the connection ended in a chunk");
        tail.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let old = tail.len().saturating_sub(5);
        tail.drain(..old);
    }
    Ok(())
}

fn answer(length: usize, close: bool) -> Vec<u8> {
    let close = if close { "connection: close\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n{close}\r\n"
    );
    let mut bytes = head.into_bytes();
    if length == SMALL.len() {
        bytes.extend_from_slice(SMALL);
    } else {
        bytes.resize(bytes.len() + length, b'y');
    }
    bytes
}
