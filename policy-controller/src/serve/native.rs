//! `portcullis.policy.v1.PolicyDiscovery`: the service, and what is sent for a policy.
//!
//! An update is two parts: port and revision, which are one client's own, and the rest, which is
//! encoded once for all clients of the same features. Concatenated they are one message, for
//! protobuf reads fields in any order.

use crate::serve::Core;
use crate::serve::cache::Cache;
use crate::serve::codec::{PassThrough, Payload};
use crate::serve::metrics::Method;
use crate::serve::session::Session;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::Stream;
use parking_lot::Mutex;
use policy_core::feature::Feature;
use policy_core::{Denied, Revision, ServerPolicy};
use policy_proto::messages::policy_discovery_server::SERVICE_NAME;
use policy_proto::messages::{PortUpdate, WatchRequest};
use policy_proto::native::{EncodedPort, diff, encode_port, encode_revision};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::{Code, Request, Response, Status, Streaming};

/// Field of `WatchResponse` that holds a `PortUpdate`.
const PORT_FIELD: u32 = 2;

/// The features of a client that this version knows.
pub(crate) type Features = Arc<BTreeSet<Feature>>;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    pub(crate) core: Arc<Core>,
    cache: Arc<Cache<Features, Encoding>>,
}

impl Native {
    /// The service over `core`.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, cache: Arc::default() }
    }

    /// What `policy` is for a client with `features`.
    pub(crate) fn encoding(
        &self,
        policy: &Arc<ServerPolicy>,
        features: &Features,
    ) -> Arc<Encoding> {
        let (encoding, made) =
            self.cache.get(policy, features.clone(), |features| self.encode(policy, features));
        if made {
            self.core.metrics.encoded("native");
        } else {
            self.core.metrics.shared("native");
        }
        encoding
    }

    fn encode(&self, policy: &ServerPolicy, features: &Features) -> Encoding {
        let encoding = Encoding::new(encode_port(policy, features));
        self.core.metrics.replaced("native", &policy.owner, encoding.port.replaced());
        let (size, limit) = (encoding.full.len(), self.core.config.max_update_bytes);
        if size <= limit {
            return encoding;
        }
        self.core.metrics.too_large("native");
        let owner = &policy.owner;
        tracing::warn!(
            ?owner,
            size,
            limit,
            "policy is too large for the client and sent as a denial"
        );
        Encoding::new(encode_port(&Core::denial(policy, Denied::ProxyUnsupported), features))
    }

    async fn watch(
        self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<impl Stream<Item = Result<Payload, Status>> + Send + use<>>, Status> {
        let mut call = self.core.metrics.call(Method::WATCH);
        let connected = Core::connected(request.extensions());
        let opened = connected.and_then(|connected| {
            let held = self.core.take_stream(connected.peer)?;
            Ok((connected.ending, held))
        });
        let (ending, held) = opened.inspect_err(|status| call.end(status.code()))?;
        // One message in the channel and one in the codec: all that a slow client makes us keep.
        let (sender, receiver) = mpsc::channel(1);
        let inbound = request.into_inner();
        tokio::spawn(async move {
            let ended = Session::run(self, inbound, &sender, &call, ending).await;
            call.end(ended.as_ref().map_or_else(Status::code, |()| Code::Ok));
            if let Err(status) = ended {
                // If the client is gone nobody reads it, and nothing is lost.
                _ = sender.send(Err(status)).await;
            }
            drop((call, held));
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// What a policy is for clients of one set of features.
#[derive(Debug)]
pub(crate) struct Encoding {
    port: EncodedPort,
    /// The full state, without port and revision.
    full: Bytes,
    /// The change from another encoding, for each that some client has.
    changes: Mutex<Vec<(Weak<Encoding>, Bytes)>>,
}

impl Encoding {
    fn new(port: EncodedPort) -> Self {
        let full = shared(port.full(NonZeroU16::MIN, &Revision::default()));
        Self { port, full, changes: Mutex::default() }
    }

    /// Hash of the policy as sent.
    pub(crate) fn content(&self) -> u64 {
        self.port.content()
    }

    /// Whether both are the same message.
    pub(crate) fn says(&self, other: &Encoding) -> bool {
        self.full == other.full
    }

    /// The full state.
    pub(crate) fn full(&self) -> Bytes {
        self.full.clone()
    }

    /// What a client that has `base` lacks, or all of it where that is less.
    pub(crate) fn change_from(&self, base: &Arc<Encoding>) -> Bytes {
        let mut changes = self.changes.lock();
        changes.retain(|(known, _)| known.strong_count() > 0);
        let known = changes.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(base));
        if let Some((_, bytes)) = known {
            return bytes.clone();
        }
        // A change of nearly everything is no smaller than everything, and has a bound of its own.
        let mut bytes = self.after(&base.port);
        // Nor can one be told from the other where their hashes collide.
        if bytes.len() >= self.full.len() || (self.content() == base.content() && !self.says(base))
        {
            bytes = self.full();
        }
        changes.push((Arc::downgrade(base), bytes.clone()));
        bytes
    }

    /// What a client lacks that has the same content by its own account.
    pub(crate) fn unchanged(&self) -> Bytes {
        self.after(&self.port)
    }

    fn after(&self, base: &EncodedPort) -> Bytes {
        shared(diff(base, &self.port, NonZeroU16::MIN, &Revision::default()))
    }
}

/// The part of an update that all clients share.
fn shared(update: PortUpdate) -> Bytes {
    PortUpdate { port: 0, revision: None, ..update }.encode_to_vec().into()
}

/// The message that updates `port` to `revision` by the `shared` part of a `PortUpdate`.
pub(crate) fn update(port: NonZeroU16, revision: &Revision, shared: Bytes) -> Payload {
    let own = PortUpdate {
        port: port.get().into(),
        revision: Some(encode_revision(revision)),
        ..PortUpdate::default()
    };
    let length = own.encoded_len().saturating_add(shared.len());
    let mut bytes = BytesMut::with_capacity(own.encoded_len().saturating_add(16));
    encode_key(PORT_FIELD, WireType::LengthDelimited, &mut bytes);
    encode_varint(u64::try_from(length).unwrap_or(u64::MAX), &mut bytes);
    bytes.extend_from_slice(&own.encode_to_vec());
    Payload { own: bytes.freeze(), shared }
}

impl tonic::server::NamedService for Native {
    const NAME: &'static str = SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for Native {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let mut grpc = tonic::server::Grpc::new(PassThrough::<WatchRequest>::new())
            .max_decoding_message_size(service.core.config.max_request_bytes);
        Box::pin(async move {
            let method = request.uri().path().strip_prefix('/').and_then(|path| {
                path.strip_prefix(SERVICE_NAME).and_then(|path| path.strip_prefix('/'))
            });
            Ok(match method {
                Some("Watch") => {
                    let handler = tower::service_fn(move |r| service.clone().watch(r));
                    grpc.streaming(handler, request).await
                }
                Some(_) | None => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::testing::policy;
    use policy_proto::messages::{WatchResponse, watch_response::Kind};

    #[test]
    fn own_and_shared_part_are_one_message() {
        let port = NonZeroU16::new(8080).unwrap();
        let revision = Revision {
            epoch: "e".into(),
            content: 7,
            versions: [("policy.linkerd.io/Server".into(), 9)].into(),
        };
        let features: BTreeSet<_> = Feature::ALL.into_iter().collect();
        let encoding = Encoding::new(encode_port(&policy("web"), &features));
        let payload = update(port, &revision, encoding.full());
        let bytes = [payload.own, payload.shared].concat();
        let Some(Kind::Port(update)) = WatchResponse::decode(&*bytes).unwrap().kind else {
            panic!("not a port update");
        };
        assert_eq!(update.port, 8080);
        assert_eq!(update.revision, Some(encode_revision(&revision)));
        let mut expected = encoding.port.full(port, &revision);
        expected.revision = update.revision.clone();
        assert_eq!(update, expected);
        assert!(update.header.is_some() && update.base.is_none());
    }
}
