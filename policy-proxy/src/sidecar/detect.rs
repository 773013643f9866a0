//! Tells HTTP/1 and HTTP/2 from everything else by a connection's first bytes, bounded in time. A line
//! that may still become a request when the time is over is HTTP/1.

use super::first_line::{FirstLine, Spoken, Told};
use super::io::ClientIo;
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// The end of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detected {
    /// The bytes tell.
    Told(Spoken),
    /// The client sent nothing in time.
    Silent,
    /// The client ended without a byte.
    Ended,
}

/// Reads until it can be told, bounded in bytes and by `within`. What was read is put back.
pub(super) async fn detect(io: &mut ClientIo, within: Duration) -> std::io::Result<Detected> {
    let mut seen = BytesMut::new();
    let told = match timeout(within, read(io, &mut seen)).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => return Err(error),
        Err(_) if seen.is_empty() => Detected::Silent,
        // What may still become HTTP is judged as HTTP.
        Err(_) => Detected::Told(Spoken::Http1),
    };
    io.unread(seen.freeze());
    Ok(told)
}

async fn read(io: &mut ClientIo, seen: &mut BytesMut) -> std::io::Result<Detected> {
    let mut line = Box::<FirstLine>::default();
    loop {
        seen.reserve(FIRST_READ);
        let before = seen.len();
        let read = io.read_buf(seen).await?;
        match line.feed(seen.get(before..).unwrap_or_default()) {
            Told::Spoken(spoken) => return Ok(Detected::Told(spoken)),
            // Who carries the bytes watches the rest of the line.
            Told::Doubtful => return Ok(Detected::Told(Spoken::Other)),
            Told::Unsure => {}
        }
        match (read, seen.is_empty()) {
            (0, true) => return Ok(Detected::Ended),
            (0, false) => return Ok(Detected::Told(Spoken::Http1)),
            (_, _) => {}
        }
    }
}

const FIRST_READ: usize = 2048;
