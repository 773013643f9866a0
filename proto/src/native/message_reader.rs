//! Incremental decoding of the server's messages. A policy of ten thousand routes takes megabytes
//! on the wire; only the field that is being received is buffered. Grants and routes are converted
//! to the model when they are complete, and their bytes are dropped.

use super::update::{AUTHORIZATIONS, ROUTES, Response, Update};
use crate::error::DecodeError;
use crate::messages as m;
use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

/// `WatchResponse.workload` and `WatchResponse.port`.
const WORKLOAD: u32 = 1;
const PORT: u32 = 2;

/// The longest key and length of a field: two numbers of at most ten bytes.
const LONGEST_HEAD: usize = 20;

/// Decoder of one message, fed with the bytes as they arrive.
#[derive(Debug)]
pub(super) struct MessageReader {
    /// Received bytes of an incomplete field.
    buffer: BytesMut,
    /// Remaining bytes of the message.
    left: usize,
    /// Remaining bytes of the port's update, while inside it.
    port: Option<usize>,
    workload: Option<m::Workload>,
    update: Option<Box<Update>>,
}

/// Error of a message that is not valid protobuf.
#[derive(Debug, thiserror::Error)]
#[error("not a message: {0}")]
pub(super) struct MessageError(String);

impl MessageError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// One field: what it is, and how many bytes its head and the whole of it take.
#[derive(Clone, Copy)]
struct Field {
    number: u32,
    wire: WireType,
    head: usize,
    length: usize,
}

impl MessageReader {
    /// A message of this length.
    pub(super) fn new(length: usize) -> Self {
        Self { buffer: BytesMut::new(), left: length, port: None, workload: None, update: None }
    }

    /// Consumes the bytes that belong to the message.
    pub(super) fn take(&mut self, bytes: &mut Bytes) -> Result<(), MessageError> {
        let missing = self.left.saturating_sub(self.buffer.len());
        let mut more = bytes.split_to(missing.min(bytes.len()));
        if self.buffer.is_empty() {
            // Mostly whole fields, which need not be copied.
            self.fields(&mut more)?;
            self.buffer.extend_from_slice(&more);
        } else {
            self.buffer.extend_from_slice(&more);
            let mut buffer = std::mem::take(&mut self.buffer);
            self.fields(&mut buffer)?;
            self.buffer = buffer;
        }
        Ok(())
    }

    /// Returns true if the whole message was read.
    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Returns the decoded message.
    pub(super) fn finish(self) -> Result<Response, MessageError> {
        match self.port {
            Some(left) if left > 0 => Err(MessageError::new("a field ends after its message")),
            Some(_) | None => {
                let workload = self.workload.map(|workload| Response::Workload(Box::new(workload)));
                Ok(workload.or(self.update.map(Response::Port)).unwrap_or(Response::Unknown))
            }
        }
    }

    /// Takes every complete field.
    fn fields(&mut self, bytes: &mut impl ContiguousBuf) -> Result<(), MessageError> {
        while self.left > 0 {
            if self.port == Some(0) {
                self.port = None;
            }
            let enclosing = self.port.unwrap_or(self.left).min(self.left);
            let Some(field) = head(bytes.chunk(), enclosing)? else { return Ok(()) };
            if self.port.is_none() && field.number == PORT {
                if field.wire != WireType::LengthDelimited {
                    return Err(MessageError::new("a port's update is no message"));
                }
                self.advance(bytes, field.head);
                self.port = Some(field.length.saturating_sub(field.head));
                self.workload = None;
                self.update.get_or_insert_default();
                continue;
            }
            if bytes.remaining() < field.length {
                return Ok(());
            }
            self.field(bytes.chunk().get(..field.length).unwrap_or_default(), field)?;
            self.advance(bytes, field.length);
        }
        Ok(())
    }

    fn advance(&mut self, bytes: &mut impl ContiguousBuf, by: usize) {
        bytes.advance(by);
        self.left = self.left.saturating_sub(by);
        self.port = self.port.map(|left| left.saturating_sub(by));
    }

    fn field(&mut self, bytes: &[u8], field: Field) -> Result<(), MessageError> {
        let content = bytes.get(field.head..).unwrap_or_default();
        if self.port.is_none() {
            if field.number == WORKLOAD {
                if field.wire != WireType::LengthDelimited {
                    return Err(MessageError::new("a workload is no message"));
                }
                self.update = None;
                self.workload.get_or_insert_default().merge(content).map_err(broken)?;
            }
            return Ok(());
        }
        let update = self.update.get_or_insert_default();
        match (field.number, field.wire) {
            (AUTHORIZATIONS, WireType::LengthDelimited) => {
                update.grant(m::Authorization::decode(content).as_ref().map_err(refused));
            }
            (ROUTES, WireType::LengthDelimited) => {
                update.route(m::Route::decode(content).as_ref().map_err(refused));
            }
            (AUTHORIZATIONS | ROUTES, _) => return Err(MessageError::new("a route is no message")),
            (_, _) => update.rest.merge(bytes).map_err(broken)?,
        }
        Ok(())
    }
}

/// A buffer whose bytes are contiguous.
trait ContiguousBuf: Buf {}

impl ContiguousBuf for Bytes {}
impl ContiguousBuf for BytesMut {}

/// Reads the head of the field that begins here; `None` if it is incomplete. `enclosing` is the
/// number of remaining bytes of the enclosing message.
fn head(bytes: &[u8], enclosing: usize) -> Result<Option<Field>, MessageError> {
    let mut rest = bytes.get(..enclosing.min(bytes.len())).unwrap_or_default();
    let start = rest.len();
    // What cannot be read is either incomplete or no number at all.
    let incomplete = |error| match start {
        LONGEST_HEAD.. => Err(broken(error)),
        _ if start >= enclosing => Err(broken(error)),
        _ => Ok(None),
    };
    let (number, wire) = match decode_key(&mut rest) {
        Ok(key) => key,
        Err(error) => return incomplete(error),
    };
    let before = rest.len();
    let content = match wire {
        WireType::Varint => match decode_varint(&mut rest) {
            Ok(_) => return Ok(Some(whole(number, wire, start, (before, rest.len())))),
            Err(error) => return incomplete(error),
        },
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => match decode_varint(&mut rest) {
            Ok(length) => usize::try_from(length).unwrap_or(usize::MAX),
            Err(error) => return incomplete(error),
        },
        WireType::StartGroup | WireType::EndGroup => return Err(MessageError::new("has a group")),
    };
    let head = start.saturating_sub(rest.len());
    let length = head.saturating_add(content);
    if length > enclosing {
        return Err(MessageError::new("a field ends after its message"));
    }
    Ok(Some(Field { number, wire, head, length }))
}

/// A field that is a number: its content has been read.
fn whole(number: u32, wire: WireType, start: usize, (before, after): (usize, usize)) -> Field {
    let head = start.saturating_sub(before);
    Field { number, wire, head, length: start.saturating_sub(after) }
}

fn broken(error: prost::DecodeError) -> MessageError {
    MessageError::new(error.to_string())
}

fn refused(error: &prost::DecodeError) -> DecodeError {
    DecodeError::here(error.to_string())
}
