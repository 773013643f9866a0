//! Response of the server.

use crate::request::url::Protocol;
use serde::Serialize;
use std::net::SocketAddr;

/// A response, as `-o json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientResponse {
    /// Protocol.
    pub protocol: Protocol,
    /// Outcome.
    pub outcome: Outcome,
    /// HTTP status; absent for raw connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// gRPC status code, from the trailers or from a trailers-only response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_status: Option<u16>,
    /// gRPC status message, as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_message: Option<String>,
    /// Header lines in the order received; bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// Trailers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<(String, String)>,
    /// The body, or the bytes of a raw connection; bytes that are not UTF-8 are replaced.
    pub body: String,
    /// Local address of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// Time from connecting to the end of the response, in milliseconds.
    pub elapsed_ms: u64,
}

/// Outcome of a request, as the exit code reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// HTTP below 400, gRPC `OK`, or the bytes came back.
    Ok,
    /// HTTP 403, gRPC `PERMISSION_DENIED`.
    Refused,
    /// Any other failure that the server reports.
    Failed,
}

impl Outcome {
    /// Outcome of an HTTP status.
    pub(crate) fn of_http(status: u16) -> Self {
        match status {
            403 => Self::Refused,
            0..400 => Self::Ok,
            400.. => Self::Failed,
        }
    }

    /// Outcome of a gRPC status; a call without a status has failed.
    pub(crate) fn of_grpc(status: Option<u16>) -> Self {
        match status {
            Some(0) => Self::Ok,
            Some(7) => Self::Refused,
            Some(_) | None => Self::Failed,
        }
    }

    /// The exit code of `portcullis request`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Refused => 3,
            Self::Failed => 4,
        }
    }
}

impl ClientResponse {
    /// The first header of this name, compared without case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// The canonical name of a gRPC status code.
pub(crate) fn grpc_name(status: u16) -> &'static str {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    NAMES.get(usize::from(status)).copied().unwrap_or("no such code")
}
