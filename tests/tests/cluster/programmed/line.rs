//! A line to the API server that can be frozen: connections stay open and nothing comes.

use kube::config::Kubeconfig;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Forwards connections.
pub(crate) struct Line {
    frozen: watch::Sender<bool>,
    kubeconfig: PathBuf,
    _task: AbortOnDropHandle<()>,
}

impl Line {
    /// A line to the cluster that `kubeconfig` names; the file that names the line is put into
    /// `folder`.
    pub(crate) async fn to(kubeconfig: &Path, folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut file = Kubeconfig::read_from(kubeconfig).unwrap();
        let mut target = String::new();
        for named in &mut file.clusters {
            let cluster = named.cluster.as_mut().unwrap();
            let server = cluster.server.clone().unwrap();
            target = server.trim_start_matches("https://").trim_end_matches('/').to_owned();
            cluster.server = Some(format!("https://127.0.0.1:{port}"));
        }
        let path = folder.join(format!("line-{port}.kubeconfig"));
        std::fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        let (frozen, receiver) = watch::channel(false);
        let task = AbortOnDropHandle::new(tokio::spawn(accept(listener, target, receiver)));
        Self { frozen, kubeconfig: path, _task: task }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    pub(crate) fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

async fn accept(listener: TcpListener, target: String, frozen: watch::Receiver<bool>) {
    while let Ok((client, _)) = listener.accept().await {
        let (target, frozen) = (target.clone(), frozen.clone());
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            let (client_in, client_out) = client.into_split();
            let (server_in, server_out) = server.into_split();
            tokio::join!(
                copy(client_in, server_out, frozen.clone()),
                copy(server_in, client_out, frozen)
            );
        });
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut frozen: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        // What was read while it froze waits as well.
        if frozen.wait_for(|frozen| !*frozen).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    // Either side sees the end of the other.
    _ = to.shutdown().await;
}
