//! A line to a controller that breaks after a number of bytes of the controller, and stays broken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// The line.
pub(crate) struct Cut {
    pub(crate) address: SocketAddr,
    passed: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Cut {
    pub(crate) async fn after(bytes: usize, controller: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&passed);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // One connection after the other: the sidecar has one.
            while counter.load(Ordering::Relaxed) < bytes {
                let Ok((client, _)) = listener.accept().await else { return };
                carry(client, controller, bytes, &counter).await;
            }
        }));
        Self { address, passed, _task: task }
    }

    /// Bytes of the controller that have passed.
    pub(crate) fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Carries bytes in both directions until a side ends, or `most` bytes have come from the controller.
async fn carry(client: TcpStream, controller: SocketAddr, most: usize, passed: &AtomicUsize) {
    let Ok(server) = TcpStream::connect(controller).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut buffer = vec![0; 4096];
        loop {
            let left = most.saturating_sub(passed.load(Ordering::Relaxed)).min(buffer.len());
            if left == 0 {
                return;
            }
            let Ok(read @ 1..) = from_server.read(&mut buffer[..left]).await else { return };
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
            passed.fetch_add(read, Ordering::Relaxed);
        }
    };
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}
