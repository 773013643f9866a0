//! Handling of errors of `accept`.

use std::io;
use std::time::Duration;

/// Logs an error of `accept` and waits, unless it concerns one connection only. Lack of file
/// descriptors or memory passes with time.
pub async fn after_accept_error(error: &io::Error) {
    let of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    );
    if !of_one_connection {
        tracing::warn!(%error, "accept failed, retrying");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
