//! A server of hyper with its default settings, which answers every request with what it read, and
//! with what a router of axum captures of the path.
//!
//! Prints its version and its port, then serves until its standard input ends.

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::routing::any;
use http::header::HeaderValue;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::fmt::Write as _;
use std::io::Read as _;
use tokio::net::TcpListener;
use tower::ServiceExt as _;

#[tokio::main]
async fn main() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{} {}", version().context("hyper's version")?, listener.local_addr()?.port());
    tokio::spawn(serve(listener));
    let until_end = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(until_end).await??;
    Ok(())
}

/// The version of hyper that this program is built with.
fn version() -> Option<&'static str> {
    let lock = include_str!("../../../Cargo.lock");
    let (_, rest) = lock.split_once("name = \"hyper\"\nversion = \"")?;
    rest.split('"').next()
}

async fn serve(listener: TcpListener) {
    let router = router();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, router.clone()));
            // A connection that ends in an error has said so to its client.
            _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

fn router() -> Router {
    Router::new()
        .route("/{first}", any(captured))
        .route("/{first}/{*rest}", any(captured))
        .fallback(|| async { StatusCode::NOT_FOUND })
}

async fn captured(parameters: RawPathParams) -> String {
    let values: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
    format!("/{}", values.join(" "))
}

async fn answer(request: Request<Incoming>, router: Router) -> Result<Response<Full<Bytes>>> {
    let mut read = String::from("Routed: ");
    field(&mut read, "method", request.method().as_str().as_bytes())?;
    field(&mut read, "target", request.uri().to_string().as_bytes())?;
    field(&mut read, "path", request.uri().path().as_bytes())?;
    let (head, _) = request.into_parts();
    let routed = router.oneshot(Request::from_parts(head, Body::empty())).await?;
    if routed.status() == StatusCode::OK {
        field(&mut read, "axum", &routed.into_body().collect().await?.to_bytes())?;
    }
    read.push(';');
    let header = HeaderValue::from_str(read.trim_start_matches("Routed: "))?;
    Ok(Response::builder().header("routed", header).body(Full::from(read))?)
}

fn field(read: &mut String, name: &str, value: &[u8]) -> std::fmt::Result {
    write!(read, "{name}=")?;
    value.iter().try_for_each(|byte| write!(read, "{byte:02x}"))?;
    read.push(',');
    Ok(())
}
