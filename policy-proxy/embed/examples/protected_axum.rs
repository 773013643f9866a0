//! An axum service behind the policies of a directory: `cargo run -p policy-embed --features axum
//! --example protected_axum -- MANIFESTS`.

use axum::{Router, routing::get};
use policy_embed::{EmbedError, Policies, WorkloadKey};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), EmbedError> {
    let manifests = std::env::args().nth(1).unwrap_or_else(|| "policies".to_owned());
    serve(&manifests, TcpListener::bind("0.0.0.0:8080").await?).await
}

/// Serves until the process ends.
pub(crate) async fn serve(manifests: &str, listener: TcpListener) -> Result<(), EmbedError> {
    let workload = WorkloadKey::pod("shop", "web-0");
    let policies = Policies::from_directory(manifests, &workload).await?;
    let router = Router::new().route("/open/{who}", get(|| async { "hello\n" }));
    policies.ready().await;
    policies.server(8080)?.serve(listener, router).await;
    Ok(())
}
