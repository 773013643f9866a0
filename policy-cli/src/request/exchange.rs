//! Exchange on an established connection: writes the request and reads the response.

use super::client_request::ClientRequest;
use super::client_response::{ClientResponse, Outcome};
use super::error::RequestError;
use super::url::Protocol;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Limit of the response body.
const LARGEST_BODY: usize = 64 * 1024 * 1024;

pub(super) async fn run<S>(
    client_request: &ClientRequest,
    stream: S,
) -> Result<ClientResponse, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match client_request.protocol {
        Protocol::Tcp => tcp(client_request, stream).await,
        Protocol::Http1 => http1(client_request, stream).await,
        Protocol::Http2 | Protocol::Grpc => http2(client_request, stream).await,
    }
}

fn closed(client_request: &ClientRequest, error: impl std::error::Error) -> RequestError {
    // The libraries put the details into the sources.
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    RequestError::Closed { address: client_request.address, error: text }
}

async fn tcp<S>(
    client_request: &ClientRequest,
    mut stream: S,
) -> Result<ClientResponse, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut bytes = Vec::new();
    let talk = async {
        stream.write_all(&client_request.body).await?;
        stream.shutdown().await?;
        let limit = u64::try_from(LARGEST_BODY).unwrap_or(u64::MAX);
        stream.take(limit).read_to_end(&mut bytes).await
    };
    let ended = talk.await;
    if bytes.is_empty() && !client_request.body.is_empty() {
        let error = match ended {
            Ok(_) => std::io::Error::from(std::io::ErrorKind::UnexpectedEof),
            Err(error) => error,
        };
        return Err(closed(client_request, error));
    }
    Ok(ClientResponse {
        protocol: client_request.protocol,
        outcome: if ended.is_ok() { Outcome::Ok } else { Outcome::Failed },
        status: None,
        grpc_status: None,
        grpc_message: None,
        headers: Vec::new(),
        trailers: Vec::new(),
        body: String::from_utf8_lossy(&bytes).into_owned(),
        local: None,
        elapsed_ms: 0,
    })
}

async fn http1<S>(client_request: &ClientRequest, stream: S) -> Result<ClientResponse, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| closed(client_request, error))?;
    let driver = tokio::spawn(connection);
    let mut request = Request::new(Full::new(client_request.body.clone()));
    *request.method_mut() = client_request.method.clone();
    *request.uri_mut() = client_request.path.parse::<Uri>().map_err(|error| {
        RequestError::Invalid(format!("path `{}`: {error}", client_request.path))
    })?;
    *request.headers_mut() = client_request.headers.clone();
    if !client_request.headers.contains_key(http::header::HOST) {
        let host = HeaderValue::try_from(&client_request.host).map_err(|error| {
            RequestError::Invalid(format!("host `{}`: {error}", client_request.host))
        })?;
        request.headers_mut().insert(http::header::HOST, host);
    }
    let response =
        sender.send_request(request).await.map_err(|error| closed(client_request, error))?;
    let response = read(client_request, response).await;
    driver.abort();
    response
}

async fn http2<S>(client_request: &ClientRequest, stream: S) -> Result<ClientResponse, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| closed(client_request, error))?;
    let driver = tokio::spawn(connection);
    let scheme = if client_request.tls.is_some() { "https" } else { "http" };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(client_request.host.as_str())
        .path_and_query(client_request.path.as_str())
        .build()
        .map_err(|error| {
            let host = &client_request.host;
            RequestError::Invalid(format!("host `{host}`, path `{}`: {error}", client_request.path))
        })?;
    let grpc = client_request.protocol == Protocol::Grpc;
    let body = if grpc { message(&client_request.body) } else { client_request.body.clone() };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = if grpc { Method::POST } else { client_request.method.clone() };
    *request.uri_mut() = uri;
    *request.headers_mut() = client_request.headers.clone();
    if grpc {
        let headers = request.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    let response =
        sender.send_request(request).await.map_err(|error| closed(client_request, error))?;
    let response = read(client_request, response).await;
    driver.abort();
    response
}

/// Encodes an uncompressed gRPC message with its length prefix.
fn message(body: &Bytes) -> Bytes {
    let mut framed = BytesMut::with_capacity(body.len().saturating_add(5));
    framed.put_u8(0);
    framed.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    framed.put_slice(body);
    framed.freeze()
}

async fn read(
    client_request: &ClientRequest,
    response: Response<Incoming>,
) -> Result<ClientResponse, RequestError> {
    let (head, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = body.frame().await {
        match frame.map_err(|error| closed(client_request, error))?.into_data() {
            Ok(data) if bytes.len().saturating_add(data.len()) <= LARGEST_BODY => {
                bytes.extend_from_slice(&data);
            }
            Ok(_) => {
                let error = format!("the answer is longer than {LARGEST_BODY} bytes");
                return Err(RequestError::Closed { address: client_request.address, error });
            }
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    let grpc = client_request.protocol == Protocol::Grpc;
    let field = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name))?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let grpc_status = field("grpc-status").filter(|_| grpc).and_then(|text| text.parse().ok());
    let status = head.status.as_u16();
    Ok(ClientResponse {
        protocol: client_request.protocol,
        outcome: if grpc { Outcome::of_grpc(grpc_status) } else { Outcome::of_http(status) },
        status: Some(status),
        grpc_status,
        grpc_message: field("grpc-message").filter(|_| grpc),
        headers: lines(&head.headers),
        trailers: lines(&trailers),
        body: String::from_utf8_lossy(&bytes).into_owned(),
        local: None,
        elapsed_ms: 0,
    })
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}
