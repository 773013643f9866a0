//! The application behind the proxies: answers at once and does nothing else.
//!
//! HTTP/1.1 and HTTP/2 with prior knowledge share a port; raw TCP has its own. The answer to a
//! request has as many bytes as the number after the `?` of its path; calls of gRPC get back what
//! they send. On the raw port the first byte says what is done: `E` echoes everything, `D` sends as
//! fast as it can, `U` reads everything.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod answer;
mod http1;
mod http2;
mod raw;

use anyhow::Context;
use clap::Parser;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{LocalSet, spawn_local};

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
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    policy_bench::limits::many_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let (http, raw) = (listen(cli.http)?, listen(cli.raw)?);
        // Whoever started it waits for this line.
        println!("{} {}", http.local_addr()?, raw.local_addr()?);
        spawn_local(async move {
            while let Ok((stream, _)) = raw.accept().await {
                _ = stream.set_nodelay(true);
                // A client that goes away is no fault of ours.
                spawn_local(async move { raw::serve(stream).await });
            }
        });
        loop {
            let (stream, _) = http.accept().await.context("accept")?;
            stream.set_nodelay(true)?;
            spawn_local(async move { http1::serve(stream).await });
        }
    })
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).with_context(|| address.to_string())?;
    Ok(socket.listen(4096)?)
}
