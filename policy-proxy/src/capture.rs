//! Proof that the pod's connections are led to the sidecar.
//!
//! Two things have to hold, and each is proven by its own path:
//!
//! | | proof |
//! |---|---|
//! | what arrives at the pod is redirected | probes go to a port that nobody listens on; only the redirection leads them to the sidecar |
//! | what the pod sends is redirected | the sidecar calls the canary; only the redirection leads that call to its outbound listener |
//!
//! The canary is redirected for every user, by a rule of the same transaction as all others, while
//! the sidecar's other connections are exempt. A call counts if the sidecar's own listener receives
//! the secret that the call carries and the connection was going to the canary. A process that
//! listens at the canary, or that calls it, can therefore prove nothing.

use parking_lot::Mutex;
use policy_core::fold_mapped;
use policy_tls::control::random;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// The proof of one process. Clones share it.
#[derive(Clone, Debug)]
pub struct Capture {
    state: Arc<CaptureState>,
}

#[derive(Debug)]
struct CaptureState {
    canary: SocketAddr,
    port: NonZeroU16,
    /// The secret of the call in progress.
    expected: Mutex<Option<Secret>>,
    /// Time at which the last call arrived; absent: none has.
    proven: watch::Sender<Option<Instant>>,
}

type Secret = [u8; 16];

/// Time between calls of the canary.
const INTERVAL: Duration = Duration::from_secs(10);
/// The same after a call that proved nothing.
const RETRY: Duration = Duration::from_secs(1);
/// Bound of a call, on both sides.
const CALL: Duration = Duration::from_secs(3);
/// Time for which a call proves the redirection: two calls may fail in a busy pod.
const VALID: Duration = Duration::from_secs(35);

impl Capture {
    /// Creates a proof by this canary. `port`: the port that nobody listens on, to which probes go.
    pub fn new(canary: SocketAddr, port: NonZeroU16) -> Self {
        let (proven, _) = watch::channel(None);
        let state = CaptureState { canary, port, expected: Mutex::new(None), proven };
        Self { state: Arc::new(state) }
    }

    /// The port that probes go to.
    pub fn port(&self) -> NonZeroU16 {
        self.state.port
    }

    /// True for the original destination of a call of the canary.
    pub fn is_canary(&self, original: SocketAddr) -> bool {
        SocketAddr::new(fold_mapped(original.ip()), original.port()) == self.state.canary
    }

    /// Receives a connection of the outbound listener that was going to the canary. Any process of
    /// the pod may have made it.
    pub async fn receive<S: AsyncRead + Unpin>(&self, mut stream: S) {
        let mut received = Secret::default();
        let read = timeout(CALL, stream.read_exact(&mut received)).await;
        let mut expected = self.state.expected.lock();
        if matches!(read, Ok(Ok(_))) && *expected == Some(received) {
            *expected = None;
            self.state.proven.send_replace(Some(Instant::now()));
        }
    }

    /// Returns the reason for which the redirection of the pod's own connections is not proven;
    /// `None` if it is.
    pub fn missing(&self) -> Option<String> {
        let at = *self.state.proven.borrow();
        let is_valid = at.is_some_and(|at| at.elapsed() < VALID);
        (!is_valid).then(|| {
            let canary = self.state.canary;
            format!("capture: connections from the pod do not reach the sidecar (canary {canary})")
        })
    }

    /// Calls the canary until the task is dropped.
    pub async fn run(self) {
        let mut was_proven = false;
        loop {
            let called = self.call().await;
            let is_proven = self.missing().is_none();
            match &called {
                Ok(()) if !was_proven => {
                    tracing::info!(canary = %self.state.canary, "the pod's connections reach the sidecar");
                }
                Err(error) if was_proven && !is_proven => {
                    let canary = self.state.canary;
                    tracing::warn!(%canary, %error, "the pod's connections no longer reach the sidecar");
                }
                Ok(()) | Err(_) => {}
            }
            was_proven = is_proven;
            sleep(if called.is_ok() { INTERVAL } else { RETRY }).await;
        }
    }

    /// Calls the canary once.
    async fn call(&self) -> io::Result<()> {
        let secret = secret();
        let mut proven = self.state.proven.subscribe();
        *self.state.expected.lock() = Some(secret);
        let called = timeout(CALL, async {
            let mut stream = TcpStream::connect(self.state.canary).await?;
            stream.write_all(&secret).await?;
            // The sender lives as long as `self`.
            let _ = proven.changed().await;
            Ok(())
        });
        let called = called.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        *self.state.expected.lock() = None;
        called
    }
}

fn secret() -> Secret {
    let mut secret = Secret::default();
    for half in secret.chunks_exact_mut(size_of::<u64>()) {
        half.copy_from_slice(&random().to_le_bytes());
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const PROBED: NonZeroU16 = NonZeroU16::new(4192).unwrap();

    /// A listener where the redirection leads to.
    async fn listener() -> (TcpListener, Capture) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let capture = Capture::new(listener.local_addr().unwrap(), PROBED);
        (listener, capture)
    }

    fn unproven(capture: &Capture) -> Option<String> {
        let canary = capture.state.canary;
        Some(format!(
            "capture: connections from the pod do not reach the sidecar (canary {canary})"
        ))
    }

    #[test]
    fn the_canary_is_an_address_and_port_in_either_notation() {
        let capture = Capture::new("127.0.0.1:4193".parse().unwrap(), PROBED);
        for (original, expected) in [
            ("127.0.0.1:4193", true),
            ("[::ffff:127.0.0.1]:4193", true),
            ("127.0.0.1:4192", false),
            ("127.0.0.2:4193", false),
            ("[::1]:4193", false),
        ] {
            assert_eq!(capture.is_canary(original.parse().unwrap()), expected, "{original}");
        }
    }

    #[tokio::test]
    async fn a_call_that_arrives_proves_the_redirection_for_a_while() {
        let (listener, capture) = listener().await;
        assert_eq!(capture.missing(), unproven(&capture));
        let receiver = capture.clone();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            receiver.receive(stream).await;
        });
        capture.call().await.unwrap();
        assert_eq!(capture.missing(), None);
        tokio::time::pause();
        tokio::time::advance(VALID - Duration::from_secs(1)).await;
        assert_eq!(capture.missing(), None);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(capture.missing(), unproven(&capture));
    }

    /// It may hold the connection, answer anything, or send the secret back.
    #[tokio::test]
    async fn another_process_that_listens_at_the_canary_proves_nothing() {
        let (listener, capture) = listener().await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut secret = Secret::default();
            stream.read_exact(&mut secret).await.unwrap();
            stream.write_all(&secret).await.unwrap();
            std::future::pending::<()>().await;
        });
        let failed = capture.call().await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert_eq!(capture.missing(), unproven(&capture));
    }

    #[tokio::test]
    async fn another_process_that_calls_the_canary_proves_nothing() {
        let (_listener, capture) = listener().await;
        for bytes in [&[0; 16][..], b"short", b""] {
            capture.receive(bytes).await;
            assert_eq!(capture.missing(), unproven(&capture));
        }
        *capture.state.expected.lock() = Some([7; 16]);
        capture.receive(&[8; 16][..]).await;
        assert_eq!(capture.missing(), unproven(&capture));
        capture.receive(&[7; 16][..]).await;
        assert_eq!(capture.missing(), None);
        assert_eq!(*capture.state.expected.lock(), None, "a secret counts once");
    }

    #[tokio::test]
    async fn without_a_listener_a_call_fails() {
        let (listener, capture) = listener().await;
        drop(listener);
        let failed = capture.call().await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(capture.missing(), unproven(&capture));
    }
}
