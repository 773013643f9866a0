//! `portcullis echo`.

use super::block_on;
use crate::echo::{Counters, EchoOptions, serve, server_config};
use crate::output;
use crate::signals::Signals;
use anyhow::Context;
use clap::Args;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Run a small application that answers with what it received
///
/// One port speaks HTTP/1.1, HTTP/2 with prior knowledge, gRPC and raw TCP; the first bytes of a
/// connection tell which. HTTP is answered with JSON (method, path, headers, length of the body),
/// gRPC calls with their own messages and trailers (grpc.health.v1 with SERVING), other bytes with
/// themselves.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Headers of a request that change the answer:
  echo-status: 503       answer with this status
  echo-delay-ms: 500     wait before the answer
  echo-stream: 10        answer with that many lines, one every echo-interval-ms (100)
  echo-body: true        answer with the request's body as it arrives

Examples:
  portcullis echo --listen 127.0.0.1:8080
  portcullis echo --listen [::]:8080 --listen [::]:8801      # as a container: both IP versions
  curl 127.0.0.1:8080/some/path
  portcullis request grpc://127.0.0.1:8080/grpc.health.v1.Health/Check"
)]
pub(crate) struct EchoArgs {
    /// Address and port to listen on; port 0 takes a free one; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: Vec<SocketAddr>,

    /// Name that answers carry
    #[arg(long)]
    name: Option<String>,

    /// Certificate chain to terminate TLS with (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// With a certificate, serve plaintext clients too
    #[arg(long, requires = "cert")]
    plaintext_too: bool,
}

pub(crate) fn run(args: EchoArgs) -> anyhow::Result<ExitCode> {
    let tls = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some(tls(cert, key)?),
        (None | Some(_), None | Some(_)) => None,
    };
    let plaintext_too = args.plaintext_too;
    let options = EchoOptions { name: args.name.map(Into::into), tls, plaintext_too };
    block_on(async move {
        let mut signals = Signals::new()?;
        let (stop, counters) = (CancellationToken::new(), Arc::new(Counters::default()));
        let mut serving = JoinSet::new();
        for wanted in args.listen {
            let listener = tokio::net::TcpListener::bind(wanted)
                .await
                .with_context(|| format!("cannot listen on `{wanted}`"))?;
            let address =
                listener.local_addr().context("cannot read the address of the listener")?;
            output::text(&format!("listening on {address}\n"))?;
            let (options, counters) = (options.clone(), Arc::clone(&counters));
            serving.spawn(serve(listener, options, counters, stop.clone()));
        }
        signals.next().await;
        stop.cancel();
        while let Some(ended) = serving.join_next().await {
            ended.context("the server failed")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn tls(cert: &Path, key: &Path) -> anyhow::Result<Arc<rustls::ServerConfig>> {
    let chain = crate::request::identity::certificates(cert)?;
    let key_der = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read a private key from `{}`", key.display()))?;
    server_config(chain, key_der).context("certificate and key cannot be used")
}
