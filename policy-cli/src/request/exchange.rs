//! One exchange on a connection that stands: the question is written, the answer read.

use super::answer::{Answer, Outcome};
use super::error::Failed;
use super::question::Question;
use super::target::Protocol;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most that is read of an answer's body.
const LARGEST_BODY: usize = 64 * 1024 * 1024;

pub(super) async fn run<S>(question: &Question, stream: S) -> Result<Answer, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match question.protocol {
        Protocol::Tcp => tcp(question, stream).await,
        Protocol::Http1 => http1(question, stream).await,
        Protocol::Http2 | Protocol::Grpc => http2(question, stream).await,
    }
}

fn closed(question: &Question, error: impl std::error::Error) -> Failed {
    // The libraries say what happened in their sources.
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    Failed::Closed { address: question.address, error: text }
}

async fn tcp<S>(question: &Question, mut stream: S) -> Result<Answer, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut bytes = Vec::new();
    let talk = async {
        stream.write_all(&question.body).await?;
        stream.shutdown().await?;
        let limit = u64::try_from(LARGEST_BODY).unwrap_or(u64::MAX);
        stream.take(limit).read_to_end(&mut bytes).await
    };
    let ended = talk.await;
    if bytes.is_empty() && !question.body.is_empty() {
        let error = match ended {
            Ok(_) => std::io::Error::from(std::io::ErrorKind::UnexpectedEof),
            Err(error) => error,
        };
        return Err(closed(question, error));
    }
    Ok(Answer {
        protocol: question.protocol,
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

async fn http1<S>(question: &Question, stream: S) -> Result<Answer, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| closed(question, error))?;
    let driver = tokio::spawn(connection);
    let mut request = Request::new(Full::new(question.body.clone()));
    *request.method_mut() = question.method.clone();
    *request.uri_mut() = question
        .path
        .parse::<Uri>()
        .map_err(|error| Failed::Unsendable(format!("path `{}`: {error}", question.path)))?;
    *request.headers_mut() = question.headers.clone();
    if !question.headers.contains_key(http::header::HOST) {
        let host = HeaderValue::try_from(&question.host)
            .map_err(|error| Failed::Unsendable(format!("host `{}`: {error}", question.host)))?;
        request.headers_mut().insert(http::header::HOST, host);
    }
    let response = sender.send_request(request).await.map_err(|error| closed(question, error))?;
    let answer = read(question, response).await;
    driver.abort();
    answer
}

async fn http2<S>(question: &Question, stream: S) -> Result<Answer, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| closed(question, error))?;
    let driver = tokio::spawn(connection);
    let scheme = if question.tls.is_some() { "https" } else { "http" };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(question.host.as_str())
        .path_and_query(question.path.as_str())
        .build()
        .map_err(|error| {
            let host = &question.host;
            Failed::Unsendable(format!("host `{host}`, path `{}`: {error}", question.path))
        })?;
    let grpc = question.protocol == Protocol::Grpc;
    let body = if grpc { message(&question.body) } else { question.body.clone() };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = if grpc { Method::POST } else { question.method.clone() };
    *request.uri_mut() = uri;
    *request.headers_mut() = question.headers.clone();
    if grpc {
        let headers = request.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    let response = sender.send_request(request).await.map_err(|error| closed(question, error))?;
    let answer = read(question, response).await;
    driver.abort();
    answer
}

/// A length-prefixed gRPC message that is not compressed.
fn message(body: &Bytes) -> Bytes {
    let mut framed = BytesMut::with_capacity(body.len().saturating_add(5));
    framed.put_u8(0);
    framed.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    framed.put_slice(body);
    framed.freeze()
}

async fn read(question: &Question, response: Response<Incoming>) -> Result<Answer, Failed> {
    let (head, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = body.frame().await {
        match frame.map_err(|error| closed(question, error))?.into_data() {
            Ok(data) if bytes.len().saturating_add(data.len()) <= LARGEST_BODY => {
                bytes.extend_from_slice(&data);
            }
            Ok(_) => {
                let error = format!("the answer is longer than {LARGEST_BODY} bytes");
                return Err(Failed::Closed { address: question.address, error });
            }
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    let grpc = question.protocol == Protocol::Grpc;
    let field = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name))?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let grpc_status = field("grpc-status").filter(|_| grpc).and_then(|text| text.parse().ok());
    let status = head.status.as_u16();
    Ok(Answer {
        protocol: question.protocol,
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
