//! A bare reverse proxy of hyper's HTTP/1.1, without any policy: what our stack can reach at best.
//!
//! One thread, one connection to the application per client connection, no boxes, no timers, no
//! metrics. `bare-proxy LISTEN APPLICATION`.
//!
//! A crate of its own, so that nothing else has to be built with the sidecar's profile.

use anyhow::Context;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// The connection to the application, while no request uses it.
type Slot = RefCell<Option<SendRequest<Incoming>>>;

/// Serves at the first address that the program was given, and forwards to the second, until it is
/// ended.
pub fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut address = || -> anyhow::Result<SocketAddr> {
        Ok(arguments.next().context("usage: bare-proxy LISTEN APPLICATION")?.parse()?)
    };
    let (listen, application) = (address()?, address()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            spawn_local(serve(stream, application));
        }
    })
}

async fn serve(stream: TcpStream, application: SocketAddr) {
    let slot = Slot::default();
    let service = service_fn(|request| forward(&slot, application, request));
    let server = hyper::server::conn::http1::Builder::new();
    // A client that goes away ends it; there is nobody to tell.
    _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn forward(
    slot: &Slot,
    application: SocketAddr,
    request: Request<Incoming>,
) -> anyhow::Result<Response<Incoming>> {
    let idle = slot.borrow_mut().take();
    let mut connection = match idle {
        Some(connection) => connection,
        None => connect(application).await?,
    };
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    slot.replace(Some(connection));
    Ok(response)
}

async fn connect(application: SocketAddr) -> anyhow::Result<SendRequest<Incoming>> {
    let stream = TcpStream::connect(application).await?;
    stream.set_nodelay(true)?;
    let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    spawn_local(connection);
    Ok(send)
}
