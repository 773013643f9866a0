//! `grpc.health.v1`: serving once objects have been listed, until shutdown begins.

use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::codec::{self, CountsAsWatch, Payload};
use crate::serve::core::Core;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use policy_proto::linkerd::inbound::inbound_server_policies_server::SERVICE_NAME as COMPATIBLE;
use policy_proto::messages::policy_discovery_server::SERVICE_NAME as NATIVE;
use prost::Message as _;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthApi, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    core: Arc<Core>,
    synced: watch::Receiver<bool>,
    shutdown: CancellationToken,
}

impl Health {
    /// Reports whether objects have been listed, and nothing as serving once `shutdown` is
    /// cancelled.
    pub(crate) fn new(core: Arc<Core>, shutdown: CancellationToken) -> Self {
        let synced = core.policies.synced();
        Self { core, synced, shutdown }
    }

    /// The gRPC service.
    pub(crate) fn into_service(self) -> HealthService {
        let server = HealthServer::new(self.clone()).max_decoding_message_size(MAX_REQUEST);
        HealthService { health: self, server }
    }

    /// The status of every service. It shows what is served here, so that a caller has to be known.
    fn list(&self, request: &Request<HealthListRequest>) -> Result<Response<Payload>, Status> {
        self.core.access.admit(&Caller::of(request.extensions()))?;
        let of = |name: &str| (name.to_owned(), response(self.status(name)));
        let listed = HealthListResponse { statuses: SERVICES.into_iter().map(of).collect() };
        Ok(Response::new(Payload::shared(listed.encode_to_vec().into())))
    }

    fn status(&self, service: &str) -> ServingStatus {
        if !known(service) {
            ServingStatus::ServiceUnknown
        } else if *self.synced.borrow() && !self.shutdown.is_cancelled() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    }
}

/// Largest request.
const MAX_REQUEST: usize = 4096;

/// The services that have a status; the first stands for the whole server.
const SERVICES: [&str; 3] = ["", COMPATIBLE, NATIVE];

fn known(service: &str) -> bool {
    SERVICES.contains(&service)
}

/// `grpc.health.v1.HealthListRequest`, which the library does not have yet.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct HealthListRequest {}

/// `grpc.health.v1.HealthListResponse`, likewise.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: BTreeMap<String, HealthCheckResponse>,
}

/// The service: the library's, and `List`.
#[derive(Clone, Debug)]
pub(crate) struct HealthService {
    health: Health,
    server: HealthServer<Health>,
}

impl NamedService for HealthService {
    const NAME: &'static str = <HealthServer<Health> as NamedService>::NAME;
}

impl tower::Service<http::Request<Body>> for HealthService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if !path.ends_with("/List") {
            let is_watch = path.ends_with("/Watch");
            let answering = self.server.call(request);
            return Box::pin(async move {
                let mut response = answering.await?;
                if is_watch {
                    response.extensions_mut().insert(CountsAsWatch);
                }
                Ok(response)
            });
        }
        let health = self.health.clone();
        Box::pin(async move {
            let list = |asked: Request<HealthListRequest>| std::future::ready(health.list(&asked));
            Ok(codec::unary(request, MAX_REQUEST, list).await)
        })
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl HealthApi for Health {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &request.get_ref().service;
        if !known(service) {
            return Err(Status::not_found(format!("no service `{service}` here")));
        }
        Ok(Response::new(response(self.status(service))))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let ConnectionInfo { peer, ending, .. } = Core::connected(request.extensions())?;
        let held = self.core.take_stream(&peer)?;
        let service = request.into_inner().service;
        let first = (self.clone(), None::<ServingStatus>, held);
        let stream = stream::unfold(first, move |(mut health, sent, held)| {
            let (service, ending) = (service.clone(), ending.clone());
            async move {
                loop {
                    let status = health.status(&service);
                    if sent != Some(status) {
                        return Some((Ok(response(status)), (health, Some(status), held)));
                    }
                    tokio::select! {
                        () = ending.cancelled() => return None,
                        changed = health.synced.changed() => if changed.is_err() {
                            return None;
                        },
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{AuthzConfig, ServeConfig};
    use crate::testing::mesh::{Mesh, OWN};
    use crate::testing::{Harness, soon};
    use http::uri::PathAndQuery;
    use tonic::Code;
    use tonic::transport::Channel;

    async fn list(channel: Channel) -> Result<HealthListResponse, Status> {
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/List");
        let codec = tonic_prost::ProstCodec::<HealthListRequest, HealthListResponse>::default();
        let request = Request::new(HealthListRequest {});
        soon(client.unary(request, path, codec)).await.map(Response::into_inner)
    }

    fn all(status: ServingStatus) -> HealthListResponse {
        let of = |name: &str| (name.to_owned(), response(status));
        HealthListResponse { statuses: ["", COMPATIBLE, NATIVE].into_iter().map(of).collect() }
    }

    #[tokio::test]
    async fn the_status_of_every_service_is_listed_for_callers_that_are_known() {
        let harness = Harness::with(ServeConfig::default()).await;
        assert_eq!(list(harness.channel().await).await.unwrap(), all(ServingStatus::Serving));
        harness.index.set_synced(false);
        assert_eq!(list(harness.channel().await).await.unwrap(), all(ServingStatus::NotServing));
        let mesh = Mesh::start(AuthzConfig::default()).await;
        assert_eq!(list(mesh.channel(OWN).await).await.unwrap(), all(ServingStatus::Serving));
        let stranger = mesh.connect(mesh.authority.stranger()).await.unwrap();
        assert_eq!(list(stranger).await.unwrap_err().code(), Code::Unauthenticated);
    }
}
