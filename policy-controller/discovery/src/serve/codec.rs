//! A gRPC codec that sends messages already encoded, so that a policy is encoded once however many
//! clients watch it.

use bytes::{BufMut, Bytes};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// An encoded message: the part of one client, then the shared part. Together they are one
/// protobuf message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Bytes made for one client.
    pub(crate) own: Bytes,
    /// Bytes shared with every client that gets the same.
    pub(crate) shared: Bytes,
}

impl Payload {
    /// A message that is shared as a whole.
    pub(crate) fn shared(shared: Bytes) -> Self {
        Self { own: Bytes::new(), shared }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.own.len().saturating_add(self.shared.len())
    }
}

/// Encodes [`Payload`], decodes `M`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassThrough<M>(PhantomData<fn() -> M>);

impl<M> PassThrough<M> {
    /// The codec; it has no state.
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<M: prost::Message + Default + 'static> Codec for PassThrough<M> {
    type Encode = Payload;
    type Decode = M;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<M> Encoder for PassThrough<M> {
    type Item = Payload;
    type Error = Status;

    fn encode(&mut self, item: Payload, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.reserve(item.len());
        dst.put(item.own);
        dst.put(item.shared);
        Ok(())
    }

    /// Small buffers, because streams are many and mostly silent; and one message at a time, so that
    /// the next is made only when this one has been taken.
    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(256, 1)
    }
}

impl<M: prost::Message + Default> Decoder for PassThrough<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        M::decode(src)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("unreadable message: {error}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(256, 1)
    }
}
