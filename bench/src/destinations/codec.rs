//! A gRPC codec that sends an answer as it was encoded once, followed by the part of one client.

use bytes::{BufMut, Bytes};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// An encoded message: the part that all clients share, then that of one client.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    pub(crate) shared: Bytes,
    pub(crate) own: Bytes,
}

/// Encodes [`Payload`], decodes `M`, with the small buffers that the controller's own codec has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassThrough<M>(PhantomData<fn() -> M>);

impl<M> PassThrough<M> {
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
        Self::new()
    }

    fn decoder(&mut self) -> Self {
        Self::new()
    }
}

impl<M> Encoder for PassThrough<M> {
    type Item = Payload;
    type Error = Status;

    fn encode(&mut self, item: Payload, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.reserve(item.shared.len() + item.own.len());
        dst.put(item.shared);
        dst.put(item.own);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(256, 1)
    }
}

impl<M: prost::Message + Default> Decoder for PassThrough<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        M::decode(src).map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(256, 1)
    }
}
