//! `portcullis.policy.v1.PolicyReport`: what this replica's clients have in force, for the other
//! replicas, and the status of every object, for viewers.

use crate::serve::applied::{Feed, InForce, WorkloadPort};
use crate::serve::caller::Caller;
use crate::serve::core::Core;
use crate::serve::counted_stream::CountedStream;
use crate::serve::metrics::{Call, Method};
use crate::serve::status_reason::{StatusReason, WithReason as _};
use futures_util::stream::BoxStream;
use policy_core::{ObjectRef, WorkloadKind};
use policy_engine::report::{
    ConditionReport, Count, ObjectReport, Overview, Overviews, ProgrammedReport,
};
use policy_engine::unsent::Unsent;
use policy_proto::messages::policy_report_server::{PolicyReport, PolicyReportServer};
use policy_proto::messages::{
    DeniedRequest, DeniedResponse, InForceRequest, InForceUpdate, ObjectCondition, ObjectStatus,
    ObjectUnsent, ObjectsRequest, ObjectsResponse, PortInForce, PortKey, Programmed,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

/// Ports of one message: a few hundred kilobytes, and below the 4 MiB that gRPC libraries accept
/// even where every name and reason is as long as it may be.
const PORTS_PER_MESSAGE: usize = 1000;

/// Objects of one message of which clients are not sent something: at most some 5 KB each.
const OBJECTS_PER_MESSAGE: usize = 400;

/// Changes are gathered for so long, so that there are at most ten messages a second.
const BATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Longest silence of a stream: its reader takes a longer one for a failure.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);

/// Time within which a follower has to take a message. Changes are buffered for it meanwhile, ports
/// that came and went included.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of the report service.
#[derive(Clone, Debug)]
pub struct ReportConfig {
    /// Name of this replica.
    pub replica: Arc<str>,
    /// Source of the status of objects; absent: not implemented.
    pub overviews: Option<Arc<dyn Overviews>>,
}

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    core: Arc<Core>,
    config: ReportConfig,
}

impl Report {
    /// The service over `core`.
    pub(crate) fn service(core: Arc<Core>, config: ReportConfig) -> PolicyReportServer<Self> {
        let bound = core.config.max_request_bytes.min(MAX_REQUEST);
        PolicyReportServer::new(Self { core, config }).max_decoding_message_size(bound)
    }
}

/// Most bytes of a request, which names a replica or a namespace.
const MAX_REQUEST: usize = 4096;

type UpdateSender = mpsc::Sender<Result<InForceUpdate, Status>>;

#[tonic::async_trait]
impl PolicyReport for Report {
    type InForceStream = BoxStream<'static, Result<InForceUpdate, Status>>;

    async fn in_force(
        &self,
        request: Request<InForceRequest>,
    ) -> Result<Response<Self::InForceStream>, Status> {
        let mut call = self.core.metrics.call(Method::IN_FORCE);
        let opened = Core::connected(request.extensions()).and_then(|connected| {
            self.core.access.may_replicate(&Caller::of(request.extensions()))?;
            let held = self.core.take_stream(&connected.peer)?;
            Ok((connected.ending, held))
        });
        let (ending, held) = opened.inspect_err(|status| call.end(status.code()))?;
        let held = Arc::new(held);
        tracing::debug!(replica = ?request.get_ref().replica, "replica subscribed to reports");
        let feed = self.core.applied.follow();
        let (sender, receiver) = mpsc::channel(1);
        let counted = CountedStream::new(ReceiverStream::new(receiver), held.clone());
        let replica = self.config.replica.clone();
        tokio::spawn(async move {
            // Either the subscriber is gone, or the connection is to end.
            ending
                .run_until_cancelled(stream_reports(
                    &feed,
                    &replica,
                    (&sender, SEND_TIMEOUT),
                    &call,
                ))
                .await;
            call.end(Code::Ok);
            drop((call, held));
        });
        Ok(Response::new(Box::pin(counted)))
    }

    async fn objects(
        &self,
        request: Request<ObjectsRequest>,
    ) -> Result<Response<ObjectsResponse>, Status> {
        let mut call = self.core.metrics.call(Method::OBJECTS);
        let answered = self.overview(&request).await;
        call.end(answered.as_ref().map_or_else(Status::code, |_| Code::Ok));
        Ok(Response::new(encode_overview(answered?)))
    }

    async fn denied(
        &self,
        request: Request<DeniedRequest>,
    ) -> Result<Response<DeniedResponse>, Status> {
        let mut call = self.core.metrics.call(Method::DENIED);
        let answered = self.denied_rows(&request).await;
        call.end(answered.as_ref().map_or_else(Status::code, |_| Code::Ok));
        answered.map(Response::new)
    }
}

impl Report {
    async fn denied_rows(
        &self,
        request: &Request<DeniedRequest>,
    ) -> Result<DeniedResponse, Status> {
        let caller = Caller::of(request.extensions());
        let DeniedRequest { namespace, limit } = request.get_ref();
        let connected = Core::connected(request.extensions())?;
        self.core.access.may_view_objects(&caller, namespace).await?;
        let _held = self.core.take_stream(&connected.peer)?;
        self.core.denied.rows(namespace, *limit)
    }

    async fn overview(&self, request: &Request<ObjectsRequest>) -> Result<Overview, Status> {
        let caller = Caller::of(request.extensions());
        let namespace = &request.get_ref().namespace;
        let connected = Core::connected(request.extensions())?;
        self.core.access.may_view_objects(&caller, namespace).await?;
        let _held = self.core.take_stream(&connected.peer)?;
        let overviews = self.config.overviews.as_ref();
        let overviews = overviews.ok_or_else(|| Status::unimplemented("not offered here"))?;
        if !*self.core.policies.synced().borrow() {
            return Err(Status::unavailable("objects have not been listed yet")
                .because(StatusReason::NotListed));
        }
        let overview = overviews.overview(namespace);
        let overview = connected.ending.run_until_cancelled(overview).await.flatten();
        overview.ok_or_else(|| {
            Status::unavailable("the controller is shutting down").because(StatusReason::Stopping)
        })
    }
}

/// Sends everything, and then every change, until the subscriber is gone or stops reading.
async fn stream_reports(
    feed: &Feed,
    replica: &str,
    (sender, timeout): (&UpdateSender, Duration),
    call: &Call,
) {
    loop {
        loop {
            let (changes, more) = feed.take(PORTS_PER_MESSAGE);
            let (unsent, more_unsent) = feed.take_unsent(OBJECTS_PER_MESSAGE);
            let more = more || more_unsent;
            let mut update = encode(changes, replica, more);
            update.unsent = unsent.into_iter().map(encode_unsent).collect();
            let taken = tokio::time::timeout(timeout, sender.send(Ok(update))).await;
            let Ok(Ok(())) = taken else { return };
            call.sent();
            if !more {
                break;
            }
        }
        tokio::time::sleep(BATCH_INTERVAL).await;
        tokio::select! {
            () = feed.changed() => {}
            () = tokio::time::sleep(HEARTBEAT) => {}
            () = sender.closed() => return,
        }
    }
}

fn encode(
    changes: Vec<(WorkloadPort, Option<InForce>)>,
    replica: &str,
    more: bool,
) -> InForceUpdate {
    let now = Instant::now();
    let mut update = InForceUpdate { replica: replica.to_owned(), more, ..Default::default() };
    for (at, in_force) in changes {
        let key = encode_key(&at);
        match in_force {
            None => update.gone.push(key),
            Some(InForce { content, refused, since }) => {
                let age = now.saturating_duration_since(since).as_millis();
                update.set.push(PortInForce {
                    key: Some(key),
                    content,
                    refused: refused.as_deref().unwrap_or_default().to_owned(),
                    age_ms: u32::try_from(age).unwrap_or(u32::MAX),
                });
            }
        }
    }
    update
}

fn encode_unsent((object, unsent): (ObjectRef, Unsent)) -> ObjectUnsent {
    let Unsent { denied, left_out } = unsent;
    ObjectUnsent {
        group: object.group().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        denied: denied.iter().map(ToString::to_string).collect(),
        left_out: left_out.iter().map(ToString::to_string).collect(),
    }
}

fn encode_key((workload, port): &WorkloadPort) -> PortKey {
    PortKey {
        namespace: workload.namespace.to_string(),
        workload: workload.name.to_string(),
        external: workload.kind == WorkloadKind::ExternalWorkload,
        port: port.get().into(),
    }
}

fn encode_overview(overview: Overview) -> ObjectsResponse {
    let Overview { objects, missing } = overview;
    ObjectsResponse { objects: objects.into_iter().map(encode_object).collect(), missing }
}

fn encode_object(report: ObjectReport) -> ObjectStatus {
    let ObjectReport { object, generation, conditions, programmed } = report;
    ObjectStatus {
        group: object.group().to_string(),
        kind: object.kind().to_string(),
        namespace: object.namespace().to_string(),
        name: object.name().to_string(),
        generation: generation.unwrap_or_default(),
        conditions: conditions.into_iter().map(encode_condition).collect(),
        programmed: programmed.map(encode_programmed),
    }
}

fn encode_programmed(report: ProgrammedReport) -> Programmed {
    let ProgrammedReport { count, status, reason, message } = report;
    let Count { in_force, concerned, refused } = count;
    let (reason, message) = (reason.to_string(), message.to_string());
    Programmed { in_force, concerned, refused, status: status.to_owned(), reason, message }
}

fn encode_condition(condition: ConditionReport) -> ObjectCondition {
    let ConditionReport { kind, status, reason, message, parent, section } = condition;
    ObjectCondition {
        r#type: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_string(),
        parent: parent.map(|parent| parent.to_string()).unwrap_or_default(),
        section: section.as_deref().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{AckRegistry, ServeMetrics};
    use crate::testing::soon;

    #[tokio::test]
    async fn nothing_is_kept_for_long_for_a_listener_that_takes_nothing() {
        let (applied, metrics) = (AckRegistry::default(), ServeMetrics::default());
        let (feed, call) = (applied.follow(), metrics.call(Method::IN_FORCE));
        let (sender, _receiver) = mpsc::channel(1);
        let streaming = stream_reports(&feed, "me", (&sender, Duration::from_millis(50)), &call);
        soon(streaming).await;
    }
}
