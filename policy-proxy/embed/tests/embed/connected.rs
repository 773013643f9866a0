//! A controller as the source of policy: the engine on a directory, served over mutual TLS.

use crate::source::DirectorySource;
use crate::support::*;
use axum::Router;
use axum::routing::get as on_get;
use policy_discovery::serve::{
    AckRegistry, AuthzConfig, BoundListener, ServeConfig, Server, Transport,
};
use policy_embed::{ControllerAddress, DirectoryConfig, MeshTls, Policies};
use policy_engine::{Controller, start};
use policy_proto::compat::EncodeOptions;
use policy_server::TlsFiles;
use policy_testkit::{Authority, soon};
use std::num::NonZeroU16;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The controller's identity.
const CONTROLLER: &str = "controller.example";

struct RunningController {
    address: ControllerAddress,
    applied: AckRegistry,
    _engine: Controller,
    _stop: DropGuard,
}

async fn controller(mesh: &Authority, manifests: &Path) -> RunningController {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.crt"), mesh.pem()).unwrap();
    mesh.certify(CONTROLLER).write(folder.path(), "tls.crt", "tls.key");
    let config = DirectoryConfig::default();
    let engine = start(config.clone(), DirectorySource::new(manifests.to_owned(), config.limits));
    let access = AuthzConfig {
        identity_suffix: "serviceaccount.identity.linkerd.cluster.local".into(),
        ..AuthzConfig::default()
    };
    let (policies, options) = (engine.policies.clone(), EncodeOptions::default());
    let server = Server::with_access(policies, ServeConfig::default(), options, access, None);
    let file = |name| folder.path().join(name);
    let files = TlsFiles { key: file("tls.key"), certs: file("tls.crt"), roots: file("ca.crt") };
    let transport = Transport::Tls(server.load_tls(files).await.unwrap());
    let (listener, address) = listener().await;
    let (applied, stop) = (server.applied(), CancellationToken::new());
    let listening = vec![BoundListener { listener, transport }];
    tokio::spawn(server.serve_on(listening, stop.clone()));
    // By its name, because an address of loopback is called in plaintext.
    let address = format!("localhost:{}", address.port());
    let address = ControllerAddress::parse(&address, Some(CONTROLLER)).unwrap();
    RunningController { address, applied, _engine: engine, _stop: stop.drop_guard() }
}

/// Mesh TLS of a service with this identity.
async fn tls(mesh: &Authority, identity: &str) -> (MeshTls, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.crt"), mesh.pem()).unwrap();
    mesh.certify(identity).write(folder.path(), "tls.crt", "tls.key");
    let file = |name| folder.path().join(name);
    let tls = MeshTls::from_files(file("tls.crt"), file("tls.key"), file("ca.crt"), identity).await;
    (tls.unwrap(), folder)
}

fn application() -> Router {
    Router::new().route("/{a}/{b}", on_get(|| async { "hello" }))
}

#[tokio::test]
async fn a_service_enforces_and_acknowledges_what_its_controller_says() {
    let (mesh, folder) = (Authority::new(), manifests());
    let controller = controller(&mesh, folder.path()).await;
    let own = DirectoryConfig::default().service_account_identity("shop", "default");
    let (tls, _files) = tls(&mesh, &own).await;
    let policies = Policies::connect(controller.address.clone(), "shop:web-0", Some(&tls)).unwrap();
    soon(policies.ready()).await;
    let address = serve(&policies, application()).await;
    assert_eq!(status(address, "/open/x").await, 200);
    assert_eq!(status(address, "/admin/x").await, 403);
    let port = NonZeroU16::new(8080).unwrap();
    let is_acknowledged = || {
        let clients = controller.applied.port(&workload(), port);
        clients.len() == 1 && clients.iter().all(policy_discovery::serve::AppliedPort::is_current)
    };
    let acknowledged = async {
        while !is_acknowledged() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(acknowledged).await;
    std::fs::remove_file(folder.path().join("open.yaml")).unwrap();
    wait_for_status(address, "/open/x", 404).await;
    std::fs::write(folder.path().join("open.yaml"), OPEN).unwrap();
    wait_for_status(address, "/open/x", 200).await;
    // Without its controller the last policy holds.
    drop(controller);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(status(address, "/open/x").await, 200);
    assert_eq!(status(address, "/admin/x").await, 403);
}

#[tokio::test]
async fn a_service_with_another_identity_gets_no_policy_and_refuses() {
    let (mesh, folder) = (Authority::new(), manifests());
    let controller = controller(&mesh, folder.path()).await;
    let other = DirectoryConfig::default().service_account_identity("shop", "other");
    let (tls, _files) = tls(&mesh, &other).await;
    let policies = Policies::connect(controller.address.clone(), "shop:web-0", Some(&tls)).unwrap();
    let server = policies.server(8080).unwrap().wait_for_policy(Duration::from_millis(500));
    let (listener, address) = listener().await;
    tokio::spawn(server.serve(listener, application()));
    assert_eq!(status(address, "/open/x").await, 503);
    assert!(!policies.is_ready());
}
