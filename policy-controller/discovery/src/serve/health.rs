//! `grpc.health.v1`: serving once objects have been listed, until shutdown begins.

use crate::serve::caller::ConnectionInfo;
use crate::serve::core::Core;
use futures_util::stream::{self, BoxStream};
use policy_proto::linkerd::inbound::inbound_server_policies_server::SERVICE_NAME as COMPATIBLE;
use policy_proto::messages::policy_discovery_server::SERVICE_NAME as NATIVE;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
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
    pub(crate) fn into_service(self) -> HealthServer<Self> {
        HealthServer::new(self).max_decoding_message_size(4096)
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

fn known(service: &str) -> bool {
    ["", COMPATIBLE, NATIVE].contains(&service)
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
