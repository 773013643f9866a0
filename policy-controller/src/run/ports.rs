//! Opens the ports and starts their servers.

use super::admin_port::{AdminPort, number};
use super::cluster_tasks::{self, ClusterTasks, RunningClusterTasks};
use super::error::RunError;
use super::index::Index;
use super::serving::{OpenServer, Serving};
use super::supervisor::Supervisor;
use super::thread::{RunningThread, Thread};
use crate::admin::Readiness;
use crate::args::ClusterSettings;
use crate::self_policy::{OwnPorts, SelfPolicy, SelfPolicySettings};
use policy_discovery::serve::StaleNotice;
use policy_webhooks::admission::Admission;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Everything that the other ports need.
pub(super) struct Ports {
    pub(super) serving: Serving,
    pub(super) cluster: Option<Box<ClusterSettings>>,
    pub(super) cluster_tasks: Option<ClusterTasks>,
    pub(super) guard: Option<SelfPolicySettings>,
    pub(super) stale: watch::Receiver<StaleNotice>,
}

/// The running ports and tasks.
pub(super) struct RunningPorts {
    drain: CancellationToken,
    served: oneshot::Receiver<RunningThread>,
    admission: Option<(JoinHandle<()>, CancellationToken)>,
    cluster_tasks: Option<RunningClusterTasks>,
}

/// Time for which the webhook keeps serving after shutdown began. API servers call it until its
/// endpoint is removed from the Service, and reject objects that it cannot review (`failurePolicy:
/// Fail`).
const ENDPOINT_GONE: Duration = Duration::from_secs(5);

impl Ports {
    /// Opens the ports, enforces the self policy on them, and starts everything.
    pub(super) async fn open(
        self,
        index: &mut Index,
        port: &AdminPort,
    ) -> Result<RunningPorts, RunError> {
        let Self { serving, cluster, cluster_tasks, guard, stale } = self;
        let (supervisor, controller) = (serving.supervisor.clone(), serving.controller.clone());
        let (admin, client) = (&port.admin, serving.client.clone());
        let thread = Thread::new("policy")?;
        let OpenServer { mut server, grpc, listeners, counting, tls } =
            serving.open(&mut index.handles, stale, admin, &thread).await?;
        tracing::info!(%grpc, admin = %port.address, "listening");
        let mut admission = None;
        if let (Some(cluster), Some(client)) = (&cluster, client) {
            let review = index.handles.review.clone();
            let injection =
                cluster_tasks.as_ref().and_then(|cluster_tasks| cluster_tasks.injection.as_ref());
            let injection = injection.map(|metrics| (metrics, tls.clone()));
            admission = cluster_tasks::admission(cluster, client, review, injection, admin).await?;
        }
        if let Some(settings) = guard {
            let ports = own_ports(grpc, admission.as_ref(), port.address)?;
            let guard = SelfPolicy::new(&settings, ports, &controller)?;
            admin.register(|registry| guard.metrics().register(registry));
            admin.guard(guard.clone(), tls);
            server = server.guarded_by(guard.grpc());
            admission = admission.map(|admission| admission.guarded_by(guard.clone()));
            if settings.pod.is_some() {
                let follow = guard.follow(index.handles.policies.clone());
                supervisor.spawn("the watch of the controller's own policy", follow);
            }
        }
        if let Some(admission) = &admission {
            require_certificate(admin.readiness(), admission);
        }
        let drain = CancellationToken::new();
        let admission = admission.map(|admission| {
            let stop = CancellationToken::new();
            (supervisor.spawn("the admission webhook", admission.run(stop.clone())), stop)
        });
        let served = serve(thread.run(server.serve_on(listeners, drain.clone()))?, &supervisor);
        let cluster_tasks = cluster_tasks.map(|cluster_tasks| {
            cluster_tasks.start(&index.handles, &counting, admin, &supervisor)
        });
        Ok(RunningPorts { drain, served, admission, cluster_tasks })
    }
}

impl RunningPorts {
    /// Ends streams, then connections; gives the Lease back meanwhile, and ends the webhook last.
    pub(super) async fn stop(self) {
        let endpoint_gone = tokio::time::sleep(ENDPOINT_GONE);
        self.drain.cancel();
        if let Some(cluster_tasks) = self.cluster_tasks {
            cluster_tasks.stop().await;
        }
        // A panic of one of them was reported where it happened.
        let _policy = self.served.await;
        if let Some((admission, stop)) = self.admission {
            endpoint_gone.await;
            stop.cancel();
            _ = admission.await;
        }
    }
}

/// Delays readiness until the webhooks have a certificate: without one every handshake fails, and
/// API servers call ready replicas only.
fn require_certificate(readiness: &Readiness, admission: &Admission) {
    let certificate = readiness.require("the webhooks have no certificate");
    let certified = admission.certified();
    tokio::spawn(async move {
        // It ends without one only with the process.
        if certified.await {
            certificate.met();
        }
    });
}

/// Follows the thread of the gRPC server. The receiver of its end keeps its tasks running until
/// they are not needed any more.
fn serve(mut policy: RunningThread, supervisor: &Supervisor) -> oneshot::Receiver<RunningThread> {
    let (served, told) = oneshot::channel();
    let serving = async move {
        policy.ended().await;
        _ = served.send(policy);
    };
    supervisor.spawn("the gRPC server", serving);
    told
}

/// Returns the ports of the self policy, as they are bound.
fn own_ports(
    grpc: SocketAddr,
    admission: Option<&Admission>,
    admin: SocketAddr,
) -> Result<OwnPorts, io::Error> {
    let admission = admission.map(|admission| number(admission.address())).transpose()?;
    Ok(OwnPorts { grpc: number(grpc)?, admission, admin: number(admin)? })
}
