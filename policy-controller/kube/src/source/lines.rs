//! The lines of a watch, as they arrive.

use super::api::{Failure, unreachable};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;

/// How long an event can be: several times the largest object that an API server takes.
const LONGEST: usize = 32 * 1024 * 1024;

/// Splits the body of a watch into lines.
pub(super) struct Lines<B = Body> {
    body: B,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line's end.
    looked: usize,
}

impl<B> Lines<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// The lines of `body`.
    pub(super) fn new(body: B) -> Self {
        Self { body, buffer: BytesMut::new(), looked: 0 }
    }

    /// Waits for more bytes; false: there are none. May be given up at any time.
    pub(super) async fn more(&mut self) -> Result<bool, Failure> {
        if self.buffer.len() > LONGEST {
            let what = format!("an event of more than {LONGEST} bytes");
            return Err(Failure::Unreadable(what));
        }
        match self.body.frame().await {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.buffer.extend_from_slice(data);
                }
                Ok(true)
            }
            Some(Err(error)) => Err(unreachable(&*error.into())),
            None => Ok(false),
        }
    }

    /// The next whole line that has arrived.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        loop {
            let rest = self.buffer.get(self.looked..)?;
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.looked = self.buffer.len();
                return None;
            };
            let end = self.looked.saturating_add(end);
            self.looked = 0;
            let line = self.buffer.split_to(end.saturating_add(1)).freeze();
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}
