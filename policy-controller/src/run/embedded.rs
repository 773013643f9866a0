//! A controller inside another process.

use super::error::RunError;
use super::serving::encode_options;
use crate::admin;
use policy_discovery::serve::{AckRegistry, ServeConfig, ServeMetrics, Server};
use policy_engine::config::ControllerConfig;
use policy_engine::controller::{Controller, start};
use policy_engine::handles::ConditionsHandle;
use policy_engine::handles::Policies;
use policy_engine::source::Diagnostic;
use policy_engine::source::{Source, SourceError};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The DNS domain that nearly every cluster has. Only names that Linkerd's clients look up end in it.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// A controller with its gRPC server inside another process. Dropping it ends it at once;
/// [`Embedded::shutdown`] lets streams end first.
#[derive(Debug)]
pub struct Embedded {
    /// Address of the gRPC server.
    pub addr: SocketAddr,
    /// The policies.
    pub policies: Policies,
    /// Conditions of every object.
    pub conditions: ConditionsHandle,
    /// Diagnostics of the source, updated with every read.
    pub diagnostics: watch::Receiver<Arc<[Diagnostic]>>,
    /// Policies that native clients have in force.
    pub applied: AckRegistry,
    /// Metrics of the server, for a registry of the caller.
    pub metrics: ServeMetrics,
    controller: Controller,
    served: JoinHandle<()>,
    stop: DropGuard,
}

impl Embedded {
    /// Waits until the source ends, which it does by itself only if it cannot work.
    ///
    /// # Errors
    /// Why the source cannot work.
    pub async fn source_ended(&mut self) -> Result<(), SourceError> {
        self.controller.source_ended().await
    }

    /// Ends every stream with OK, waits for connections to close (at most the drain timeout), and
    /// ends the rest.
    pub async fn shutdown(self) {
        self.stop.disarm().cancel();
        // A panic of the server was reported where it happened.
        _ = self.served.await;
        self.controller.shutdown();
    }
}

/// Starts a controller and its gRPC server on the current tokio runtime. Port 0 of `listen` takes a
/// free port; see [`Embedded::addr`].
///
/// # Errors
/// If `listen` cannot be listened on.
pub async fn start_embedded<S: Source>(
    config: ControllerConfig,
    source: S,
    listen: SocketAddr,
) -> Result<Embedded, RunError> {
    let listener = admin::bind("gRPC", listen).await?;
    let addr = listener.local_addr()?;
    let options = encode_options(&config);
    let serve = ServeConfig { listen: addr, ..ServeConfig::default() };
    let controller = start(config, source);
    let server = Server::new(controller.policies.clone(), serve, options)
        .with_destinations(controller.destinations.clone())
        .with_linkerd_discovery(CLUSTER_DOMAIN);
    let (applied, metrics) = (server.applied(), server.metrics());
    let stop = CancellationToken::new();
    let served = tokio::spawn(server.serve(listener, stop.clone()));
    Ok(Embedded {
        addr,
        policies: controller.policies.clone(),
        conditions: controller.conditions.clone(),
        diagnostics: controller.diagnostics.clone(),
        applied,
        metrics,
        controller,
        served,
        stop: stop.drop_guard(),
    })
}
