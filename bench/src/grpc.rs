//! gRPC messages on raw HTTP/2 streams, for clients that take as little of the machine as they can.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::RecvStream;
use prost::Message;

/// A message as gRPC frames it: not compressed, its length, itself.
pub fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(message.encoded_len() + 5);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// Receives the next whole message; `buffer` keeps what has come of the one after it.
///
/// # Errors
/// The stream failed.
pub async fn next(body: &mut RecvStream, buffer: &mut BytesMut) -> anyhow::Result<Option<Bytes>> {
    loop {
        if let Some(head) = buffer.first_chunk::<5>() {
            let [_, a, b, c, d] = *head;
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d]))?;
            if buffer.len() >= length + 5 {
                buffer.advance(5);
                return Ok(Some(buffer.split_to(length).freeze()));
            }
        }
        let Some(data) = body.data().await else { return Ok(None) };
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        buffer.extend_from_slice(&data);
    }
}
