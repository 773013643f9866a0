//! Detects HTTP/1 and HTTP/2 in a connection's first bytes, within a timeout. A line that may still
//! become a request at the timeout counts as HTTP/1, unless it is unlikely to. An application that speaks
//! before the client ends the detection.

use super::first_line::{FirstLine, Verdict, WireProtocol};
use super::io::ClientIo;
use super::server_first::ServerFirst;
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Result of the detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detection {
    /// The protocol of the first bytes.
    Protocol(WireProtocol),
    /// The client sent nothing before the timeout.
    Timeout,
    /// The client closed without sending a byte.
    Eof,
    /// The application spoke before the client, and no HTTP.
    ServerFirst,
}

/// Reads until the protocol is known, bounded in bytes and by `within`, and puts the bytes back.
/// `server`: the application, if the port may carry bytes, so that it may speak first.
pub(super) async fn detect(
    io: &mut ClientIo,
    within: Duration,
    server: Option<&mut ServerFirst>,
) -> std::io::Result<Detection> {
    let (mut seen, mut line) = (BytesMut::new(), Box::<FirstLine>::default());
    let carries_bytes = server.is_some();
    let detection = match timeout(within, read(io, &mut seen, &mut line, server)).await {
        Ok(Ok(detection)) => detection,
        Ok(Err(error)) => return Err(error),
        Err(_) if seen.is_empty() => Detection::Timeout,
        // The copy inspects the rest of the line.
        Err(_) if carries_bytes && line.is_unlikely() => Detection::Protocol(WireProtocol::Other),
        // Bytes that may still become HTTP are treated as HTTP.
        Err(_) => Detection::Protocol(WireProtocol::Http1),
    };
    io.unread(seen.freeze());
    Ok(detection)
}

async fn read(
    io: &mut ClientIo,
    seen: &mut BytesMut,
    line: &mut FirstLine,
    mut server: Option<&mut ServerFirst>,
) -> std::io::Result<Detection> {
    let carries_bytes = server.is_some();
    loop {
        seen.reserve(FIRST_READ);
        let before = seen.len();
        let unlikely = carries_bytes && line.is_unlikely();
        let read = match server.take() {
            // Boxed, because few connections wait for an application.
            Some(server) => match Box::pin(read_or_greeting(io, seen, server)).await? {
                Some(read) => read,
                None => return Ok(Detection::ServerFirst),
            },
            // The client waits for an answer. The copy inspects the rest of the line.
            None if unlikely => match timeout(UNLIKELY, io.read_buf(seen)).await {
                Ok(read) => read?,
                Err(_) => return Ok(Detection::Protocol(WireProtocol::Other)),
            },
            None => io.read_buf(seen).await?,
        };
        match line.feed(seen.get(before..).unwrap_or_default()) {
            Verdict::Known(spoken) => return Ok(Detection::Protocol(spoken)),
            // The copy inspects the rest of the line.
            Verdict::Doubtful => return Ok(Detection::Protocol(WireProtocol::Other)),
            Verdict::Incomplete => {}
        }
        match (read, seen.is_empty()) {
            (0, true) => return Ok(Detection::Eof),
            (0, false) if carries_bytes && line.is_unlikely() => {
                return Ok(Detection::Protocol(WireProtocol::Other));
            }
            (0, false) => return Ok(Detection::Protocol(WireProtocol::Http1)),
            (_, _) => {}
        }
    }
}

/// Reads from the client; `None`: the application spoke first.
async fn read_or_greeting(
    io: &mut ClientIo,
    seen: &mut BytesMut,
    server: &mut ServerFirst,
) -> std::io::Result<Option<usize>> {
    tokio::select! {
        biased;
        read = io.read_buf(seen) => read.map(Some),
        () = server.greeting() => Ok(None),
    }
}

const FIRST_READ: usize = 2048;
/// Silence after which the beginning of a line that is unlikely to become HTTP is forwarded.
const UNLIKELY: Duration = Duration::from_millis(50);
