//! The application behind the proxies: answers at once and does nothing else.
//!
//! HTTP/1.1 and HTTP/2 with prior knowledge share a port; raw TCP has its own. The answer to a
//! request has as many bytes as the number after the `?` of its path; calls of gRPC get back what
//! they send. On the raw port the first byte says what is done: `E` echoes everything, `D` sends as
//! fast as it can, `U` reads everything. Both are served under mutual TLS too, on ports of their own.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod answer;
mod http1;
mod http2;
mod raw;

use anyhow::Context;
use clap::Parser;
use policy_bench::tls;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

/// A free port of loopback.
const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Answers at once and does nothing else.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Address that serves HTTP.
    #[arg(long, default_value = "127.0.0.1:0")]
    http: SocketAddr,
    /// Address that serves raw TCP.
    #[arg(long, default_value = "127.0.0.1:0")]
    raw: SocketAddr,
    /// Folder with `ca.crt`, `server.crt`, `server.key`: HTTP/1.1 and raw TCP under mutual TLS 1.3 too.
    #[arg(long)]
    tls: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    policy_bench::limits::many_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let (http, raw) = (listen(cli.http)?, listen(cli.raw)?);
        let mut said = format!("{} {}", http.local_addr()?, raw.local_addr()?);
        if let Some(folder) = &cli.tls {
            let acceptor = tls::acceptor(folder)?;
            let (requests, bytes) = (listen(ANY)?, listen(ANY)?);
            said += &format!(" {} {}", requests.local_addr()?, bytes.local_addr()?);
            let of = acceptor.clone();
            each(requests, move |stream| {
                let of = of.clone();
                async move { http1::requests(of.accept(stream).await?).await }
            });
            each(bytes, move |stream| {
                let acceptor = acceptor.clone();
                async move { raw::serve(acceptor.accept(stream).await?).await }
            });
        }
        // Whoever started it waits for this line.
        println!("{said}");
        each(raw, raw::serve);
        Err(each(http, http1::serve).await?).context("accept")
    })
}

/// Serves each connection of a listener.
fn each<F>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F + 'static,
) -> JoinHandle<std::io::Error>
where
    F: Future<Output = anyhow::Result<()>> + 'static,
{
    spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    _ = stream.set_nodelay(true);
                    // A client that goes away is no fault of ours.
                    spawn_local(serve(stream));
                }
                Err(error) => return error,
            }
        }
    })
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).with_context(|| address.to_string())?;
    Ok(socket.listen(4096)?)
}
