//! A line to the API server that can be made slow or cut.

use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Forwards connections to the API server.
pub(crate) struct Link {
    delay: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
    client: kube::Client,
    task: JoinHandle<()>,
}

impl Link {
    /// A line to the cluster that the file names, quick at first.
    pub(crate) async fn to(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        let server = config.cluster_url.authority().unwrap().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (delay, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let task = tokio::spawn(accept(listener, server, delay.clone(), cut.clone()));
        config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
        let client = kube::Client::try_from(config).unwrap();
        Self { delay, cut, client, task }
    }

    /// A client on this line.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Delays the API server's responses.
    pub(crate) fn slow(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// From now on nothing arrives, and connections stay open.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    delay: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
) {
    loop {
        let (near, _) = listener.accept().await.unwrap();
        let Ok(far) = TcpStream::connect(&server).await else { continue };
        let (near_reader, near_writer) = near.into_split();
        let (far_reader, far_writer) = far.into_split();
        let never = Arc::new(AtomicU64::new(0));
        tokio::spawn(forward(near_reader, far_writer, never, cut.clone()));
        tokio::spawn(forward(far_reader, near_writer, delay.clone(), cut.clone()));
    }
}

async fn forward(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    delay: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        tokio::time::sleep(Duration::from_millis(delay.load(Ordering::SeqCst))).await;
        if cut.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
