//! The server's messages with their routes and grants left encoded, so that they can be read one at a
//! time: ten thousand routes as messages take ten times what they take on the wire.
//!
//! On the wire these are `WatchResponse` and `PortUpdate` of `discovery.proto`: an embedded message and
//! a field of bytes are written alike. A test holds the two to each other.

use crate::messages as m;
use bytes::Bytes;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::{Body, StdError, tokio_stream::Stream};
use tonic::{IntoStreamingRequest, Status, Streaming};

/// `WatchResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// What it says.
    #[prost(oneof = "Kind", tags = "1, 2")]
    pub kind: Option<Kind>,
}

/// The alternatives of [`Response`].
#[allow(clippy::large_enum_variant, reason = "one is read at a time, and taken apart at once")]
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    /// The workload.
    #[prost(message, tag = "1")]
    Workload(m::Workload),
    /// A port's policy, or a change of it.
    #[prost(message, tag = "2")]
    Port(Update),
}

/// `PortUpdate`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Update {
    /// The port.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// What the client has once it applied this.
    #[prost(message, optional, tag = "2")]
    pub revision: Option<m::Revision>,
    /// The content of the revision that this changes; absent: this is the full state.
    #[prost(fixed64, optional, tag = "3")]
    pub base: Option<u64>,
    /// Features that the whole policy needs.
    #[prost(string, repeated, tag = "4")]
    pub required_features: Vec<String>,
    /// Everything besides grants and routes; absent in a change: as before.
    #[prost(message, optional, tag = "5")]
    pub header: Option<m::PortHeader>,
    /// Grants that are new or changed: `Authorization`s.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub authorizations: Vec<Bytes>,
    /// Keys of grants that are gone.
    #[prost(fixed64, repeated, tag = "7")]
    pub removed_authorizations: Vec<u64>,
    /// The port's own grants in order; absent in a change: as before.
    #[prost(message, optional, tag = "8")]
    pub server_authorizations: Option<m::KeyList>,
    /// Routes that are new or changed: `Route`s.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub routes: Vec<Bytes>,
    /// Keys of routes that are gone.
    #[prost(fixed64, repeated, tag = "10")]
    pub removed_routes: Vec<u64>,
    /// All routes in order; absent in a change: as before.
    #[prost(message, optional, tag = "11")]
    pub route_order: Option<m::KeyList>,
}

/// `PolicyDiscovery.Watch` over `channel`, for messages of at most `max` bytes.
///
/// # Errors
/// What the server says, or why it cannot be reached.
pub async fn watch<C, B>(
    channel: C,
    max: usize,
    requests: impl Stream<Item = m::WatchRequest> + Send + 'static,
) -> Result<Streaming<Response>, Status>
where
    C: GrpcService<tonic::body::Body, ResponseBody = B>,
    C::Error: Into<StdError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    let mut service = Grpc::new(channel).max_decoding_message_size(max);
    let ready = service.ready().await;
    ready.map_err(|error| Status::from_error(error.into()))?;
    let path = http::uri::PathAndQuery::from_static("/portcullis.policy.v1.PolicyDiscovery/Watch");
    let codec = tonic_prost::ProstCodec::<m::WatchRequest, Response>::default();
    let answer = service.streaming(requests.into_streaming_request(), path, codec).await?;
    Ok(answer.into_inner())
}
