//! The process of the issuer.

use super::admin_port::{AdminPort, number};
use super::error::RunError;
use super::signals::{Signals, abort};
use super::supervisor::Supervisor;
use crate::admin;
use crate::admin::Readiness;
use crate::args::IssuerSettings;
use crate::self_policy::{OwnPorts, SelfPolicy};
use policy_issuer::Issuer;
use tokio_util::sync::CancellationToken;

/// Runs an issuer until SIGTERM or SIGINT; a second one aborts.
///
/// # Errors
/// If it cannot listen, a supplied authority cannot be used, or a required task ends.
pub async fn issuer(settings: IssuerSettings) -> Result<(), RunError> {
    let mut signals = Signals::new()?;
    let (supervisor, mut ended) = Supervisor::new();
    let readiness = Readiness::default();
    let ready = readiness.require("there is no authority with published roots");
    let admin = AdminPort::open(settings.admin, true, readiness.clone(), &supervisor).await?;
    let client = settings.cluster.connect().await?;
    let issuer = Issuer::new(&settings.issuer, client, ready).await.map_err(RunError::Authority)?;
    admin.admin.register(|registry| issuer.register(registry));

    let listener = admin::bind("certificates (--grpc-addr)", settings.grpc).await?;
    let grpc = listener.local_addr()?;
    tracing::info!(%grpc, admin = %admin.address, identity = %settings.issuer.identity, "listening");
    let (grpc, own) = (number(grpc)?, number(admin.address)?);
    let ports = OwnPorts { grpc, admission: None, admin: own };
    let guard = SelfPolicy::new(&settings.guard, ports, &settings.issuer.controller)?;
    admin.admin.register(|registry| guard.metrics().register(registry));
    admin.admin.guard(guard.clone(), Some(issuer.tls()));

    let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
    let parts = issuer.guarded_by(guard.grpc());
    supervisor.spawn("the namespace watcher", parts.roots.watch());
    supervisor.spawn("the CA manager", parts.ca_manager.run());
    let events = supervisor.spawn("the event writer", parts.events.run(stop.clone()));
    let served = supervisor.spawn("the issuer port", parts.port.run(listener, drain.clone()));
    let result = tokio::select! {
        () = signals.next() => Ok(()),
        Some(name) = ended.recv() => Err(RunError::Ended(name)),
    };
    tracing::info!("shutting down: draining requests in progress");
    let _stopping = readiness.require("shutting down");
    drain.cancel();
    stop.cancel();
    let ending = async {
        // A panic of one of them was reported where it happened.
        _ = served.await;
        _ = events.await;
    };
    tokio::select! {
        () = ending => {}
        () = signals.next() => abort(),
    }
    admin.close().await;
    result
}
