//! A real sidecar with its admin port, whose policy is that of manifests.

use policy_core::{Revision, UndeclaredPorts, WorkloadKey};
use policy_enforce::record::{DecisionMode, Decisions, Notices};
use policy_enforce::store::StoreConfig;
use policy_enforce::{PolicyStore, Telemetry};
use policy_engine::source::directory::load;
use policy_engine::{ControllerConfig, compile_objects};
use policy_proxy::admin::{Admin, AdminConfig};
use policy_proxy::sidecar::{Listener, Target};
use policy_proxy::tap::Tap;
use policy_proxy::{Sidecar, SidecarConfig};
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub(crate) const PORT: NonZeroU16 = NonZeroU16::new(8080).unwrap();

/// The sidecar of `shop/web-0`.
pub(crate) struct RealSidecar {
    address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) decisions: Arc<Decisions>,
    store: PolicyStore,
    _sidecar: Sidecar,
}

impl RealSidecar {
    pub(crate) async fn new(manifests: &Path, mode: DecisionMode) -> Self {
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        store.declare(&BTreeSet::from([PORT]), UndeclaredPorts::Default);
        let uid = "9f3c4b1e-0000-4000-8000-000000000000";
        let decisions = Arc::new(Decisions::new(mode, uid, SystemTime::now()));
        let notices = Notices::new("shop/web-0", Notices::INTERVAL);
        let notices = Arc::new(notices.with_decisions(Arc::clone(&decisions)));
        let tap = Arc::new(Tap::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = listener.local_addr().unwrap();
        let config = AdminConfig {
            workload: "shop/web-0".into(),
            notices: Some(Arc::clone(&notices)),
            tap: Some(Arc::clone(&tap)),
            ..AdminConfig::new(admin)
        };
        let (identity, drain) = (IdentityHandle::empty(), CancellationToken::new());
        let served = Admin::new(config, store.clone(), identity.clone(), None, drain);
        tokio::spawn(served.serve(listener));
        let mut config = SidecarConfig::new("shop/web-0");
        config.notices = notices;
        config.listeners = vec![Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            target: Target::Fixed { port: PORT, upstream: application().await },
        }];
        let sidecar = Sidecar::start(config, store.clone(), identity, Some(tap)).unwrap();
        let address = sidecar.addresses()[0];
        let own = Self { address, admin, decisions, store, _sidecar: sidecar };
        own.apply(manifests, 1).await;
        own
    }

    /// Puts the policy of manifests in force.
    pub(crate) async fn apply(&self, manifests: &Path, content: u64) {
        let config = ControllerConfig::default();
        let loaded = load(manifests, config.limits).unwrap();
        let objects = loaded.objects.iter().map(|object| (**object).clone()).collect();
        let compiled = compile_objects(objects, &config);
        let policy = compiled.port(&WorkloadKey::pod("shop", "web-0"), PORT).unwrap();
        let revision = Revision { content, ..Revision::default() };
        let generation = self.store.apply(PORT, policy, revision).unwrap();
        self.store.workers().wait_reached(generation).await;
    }

    /// The status of a request in plaintext.
    pub(crate) async fn get(&self, path: &str) -> u16 {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Runs the command with `--admin-address` of this sidecar.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let admin = self.admin.to_string();
        run_async(&[arguments, &["--admin-address", &admin]].concat()).await
    }
}

/// An application that answers 200 to everything.
async fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(answer_all(
        listener,
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ));
    address
}

/// Answers every request the same.
pub(crate) async fn answer_all(listener: TcpListener, answer: &'static str) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    }
}

/// Runs the command: its exit code and both outputs.
pub(crate) async fn run_async(arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
    let run = move || {
        Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(arguments)
            .env("NO_COLOR", "1")
            .env("KUBECONFIG", "/nonexistent")
            .output()
            .unwrap()
    };
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}
