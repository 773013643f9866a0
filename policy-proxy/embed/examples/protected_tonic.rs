//! A tonic service behind the policies of a directory, in mesh TLS: `cargo run -p policy-embed
//! --example protected_tonic -- FOLDER`, where FOLDER has `policies`, `tls.crt`, `tls.key` and `ca.crt`.

use policy_embed::{EmbedError, MeshTls, Policies, WorkloadKey};
use std::path::Path;
use tokio::net::TcpListener;
use tonic::service::Routes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), EmbedError> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    serve(Path::new(&folder), TcpListener::bind("0.0.0.0:8080").await?).await
}

/// Serves until the process ends.
pub(crate) async fn serve(folder: &Path, listener: TcpListener) -> Result<(), EmbedError> {
    let workload = WorkloadKey::pod("shop", "web-0");
    let policies = Policies::from_directory(folder.join("policies"), &workload).await?;
    let file = |name| folder.join(name);
    let (chain, key, roots) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
    let tls = MeshTls::from_files(chain, key, roots, "web.shop.example").await?;
    let (_, health) = tonic_health::server::health_reporter();
    let routes = Routes::new(health).prepare();
    policies.ready().await;
    policies.server(8080)?.tls(tls).serve(listener, routes).await;
    Ok(())
}
