//! What follows an error of accepting a connection.

use std::io;
use std::time::Duration;

/// Errors of one connection concern nobody else; lack of descriptors or memory passes with time.
pub async fn after_accept_error(error: &io::Error) {
    let of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    );
    if !of_one_connection {
        tracing::warn!(%error, "cannot accept a connection; waiting");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
