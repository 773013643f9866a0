//! Questions to the admin port of a sidecar, and its answers.

use super::query::AdminQuery;
use super::source::SidecarAdmin;
use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::time::Duration;

/// Time within which a sidecar has to answer, or to begin its stream.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest line of a stream and longest error that are read, in bytes.
pub(crate) const MAX_LINE: usize = 64 * 1024;
/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// The number of tries while the sidecar answers others.
const ATTEMPTS: usize = 3;

/// The reason why there is no answer.
#[derive(Debug)]
pub(crate) struct AdminError {
    /// The reason, in the sidecar's words where it has any.
    pub(crate) message: String,
}

/// The answer of a sidecar to a question. `what` follows "that does not" where its version lacks the
/// answer.
///
/// # Errors
/// The sidecar cannot be reached, or does not answer the question.
pub(crate) async fn ask(
    port: &SidecarAdmin,
    query: &AdminQuery,
    what: &str,
) -> Result<Value, AdminError> {
    let mut attempts = ATTEMPTS;
    loop {
        let answered = tokio::time::timeout(PATIENCE, once(port, query)).await;
        let late = || Err(anyhow!("the sidecar did not answer in time"));
        let (status, body) = answered
            .unwrap_or_else(|_| late())
            .map_err(|error| AdminError { message: format!("{error:#}") })?;
        attempts = attempts.saturating_sub(1);
        match status {
            StatusCode::OK => {
                return serde_json::from_slice(&body).map_err(|error| AdminError {
                    message: format!("the sidecar sent no JSON: {error}"),
                });
            }
            // It answers one question at a time.
            StatusCode::TOO_MANY_REQUESTS if attempts > 0 => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            status => {
                return Err(AdminError { message: refusal(status, &body, what) });
            }
        }
    }
}

async fn once(port: &SidecarAdmin, query: &AdminQuery) -> anyhow::Result<(StatusCode, Bytes)> {
    let response = open(port, query).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?;
    Ok((status, body.to_bytes()))
}

/// The head of a sidecar's answer, whose body may be a stream.
///
/// # Errors
/// The sidecar cannot be reached, or does not answer in time.
pub(crate) async fn open(
    port: &SidecarAdmin,
    query: &AdminQuery,
) -> anyhow::Result<Response<Incoming>> {
    let begun = async {
        let stream = port.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::get(query.target())
            .header(header::HOST, "localhost")
            .header("portcullis-admin", "1")
            .body(Empty::new())?;
        anyhow::Ok(sender.send_request(request).await?)
    };
    let response = tokio::time::timeout(PATIENCE, begun).await;
    response.context("the sidecar did not answer in time")?
}

/// The reason of an answer that is none. `what` follows "that does not" where the sidecar's version
/// lacks the answer.
pub(crate) fn refusal(status: StatusCode, body: &[u8], what: &str) -> String {
    match words(body) {
        Some(error) => error,
        None if status == StatusCode::NOT_FOUND => {
            format!("its sidecar is of a version that does not {what}")
        }
        None => format!("its sidecar answers with HTTP status {}", status.as_u16()),
    }
}

/// The sidecar's own words.
fn words(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    answer.get("error")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_sidecars_words_or_names_its_version() {
        let refusal = |status, body: &[u8]| refusal(status, body, "stream decisions");
        let words = refusal(StatusCode::BAD_REQUEST, br#"{"error":"port: `x`: expected a port"}"#);
        assert_eq!(words, "port: `x`: expected a port");
        let old = refusal(StatusCode::NOT_FOUND, b"not found\n");
        assert_eq!(old, "its sidecar is of a version that does not stream decisions");
        assert!(refusal(StatusCode::FORBIDDEN, b"").contains("403"));
    }
}
