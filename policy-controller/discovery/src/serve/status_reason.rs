//! The reasons of statuses, for programs: `google.rpc.ErrorInfo`, and where the same request may succeed
//! later `google.rpc.RetryInfo`. The texts of statuses are for people.

use prost::Message as _;
use prost_types::{Any, Duration};
use tonic::{Code, Status};

/// The domain of the reasons.
const DOMAIN: &str = "portcullis.dev";

/// Shortest wait before the same request is worth a try, in nanoseconds.
const SOON: i32 = 100_000_000;

/// The same where a bound is to be made up for first, in seconds.
const BOUND: i64 = 1;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// The reason of a status. docs/watch-api.md lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum StatusReason {
            $($(#[$doc])* $name,)*
        }

        impl StatusReason {
            /// Every reason.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the reason as clients get it.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// A field, the text of the status says which.
    InvalidRequest = "INVALID_REQUEST",
    /// The first message did not come in time.
    FirstMessageLate = "FIRST_MESSAGE_LATE",
    /// No such workload, yet.
    WorkloadNotFound = "WORKLOAD_NOT_FOUND",
    /// The client refused the workload.
    WorkloadRefused = "WORKLOAD_REFUSED",
    /// The workload of that name has another identity by now.
    IdentityChanged = "IDENTITY_CHANGED",
    /// The caller may not do this.
    NotPermitted = "NOT_PERMITTED",
    /// There are no credentials, or none that can be read.
    NoCredentials = "NO_CREDENTIALS",
    /// Tokens are not accepted here.
    TokensNotAccepted = "TOKENS_NOT_ACCEPTED",
    /// The token does not hold.
    TokenRefused = "TOKEN_REFUSED",
    /// The token has expired.
    TokenExpired = "TOKEN_EXPIRED",
    /// The token could not be reviewed.
    TokenNotReviewed = "TOKEN_NOT_REVIEWED",
    /// Objects have not been listed yet.
    NotListed = "NOT_LISTED",
    /// The controller is ending.
    Stopping = "STOPPING",
    /// A watch of the API server has no news.
    WatchStale = "WATCH_STALE",
    /// This replica lags behind what the client has.
    ReplicaLags = "REPLICA_LAGS",
    /// A pod that is not known yet has the address.
    PodNotKnown = "POD_NOT_KNOWN",
    /// Linkerd's controller cannot be reached.
    ForwardFailed = "FORWARD_FAILED",
    /// Outbound discovery is off.
    OutboundOff = "OUTBOUND_OFF",
    /// The destination is not a Service.
    NotAService = "NOT_A_SERVICE",
    /// Too many watches of this client.
    TooManyWatches = "TOO_MANY_WATCHES",
    /// Too many requests of this client that wait for an answer.
    TooManyRequests = "TOO_MANY_REQUESTS",
    /// Too many ports that the workload does not declare.
    TooManyPorts = "TOO_MANY_PORTS",
    /// Too many destinations.
    TooManyDestinations = "TOO_MANY_DESTINATIONS",
    /// Too much reported of ports that the workload does not declare.
    TooMuchReported = "TOO_MUCH_REPORTED",
    /// Too many tokens under review, or refused.
    TooManyTokens = "TOO_MANY_TOKENS",
    /// Too many bytes of messages that have not come whole, or of large ones of open streams.
    UnfinishedMessages = "UNFINISHED_MESSAGES",
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`, without metadata.
#[derive(Clone, PartialEq, prost::Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Duration>,
}

/// A status that states its reason.
pub(crate) trait WithReason {
    /// Adds the reason, and the wait before the next try where one is worth it.
    fn because(self, reason: StatusReason) -> Self;
}

impl WithReason for Status {
    fn because(self, reason: StatusReason) -> Self {
        let info = ErrorInfo { reason: reason.as_str().to_owned(), domain: DOMAIN.to_owned() };
        let mut details = vec![any("ErrorInfo", info.encode_to_vec())];
        if let Some(retry_delay) = retry_delay(self.code()) {
            let retry = RetryInfo { retry_delay: Some(retry_delay) };
            details.push(any("RetryInfo", retry.encode_to_vec()));
        }
        let (code, message) = (self.code(), self.message().to_owned());
        let status = RpcStatus { code: code.into(), message: message.clone(), details };
        Self::with_details(code, message, status.encode_to_vec().into())
    }
}

fn any(name: &str, value: Vec<u8>) -> Any {
    Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value }
}

/// The wait before the same request is worth a try. The rest is for a client that comes with something
/// else.
fn retry_delay(code: Code) -> Option<Duration> {
    let is_soon =
        [Code::Unavailable, Code::NotFound, Code::Aborted, Code::PermissionDenied].contains(&code);
    let (seconds, nanos) = if is_soon { (0, SOON) } else { (BOUND, 0) };
    (is_soon || code == Code::ResourceExhausted).then_some(Duration { seconds, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_its_reason_and_the_wait_in_the_messages_of_google_rpc() {
        let status = Status::unavailable("why").because(StatusReason::Stopping);
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "why"));
        let details = RpcStatus::decode(status.details()).unwrap();
        let info = ErrorInfo { reason: "STOPPING".into(), domain: "portcullis.dev".into() };
        let delay = Some(Duration { seconds: 0, nanos: 100_000_000 });
        let expected = [
            any("ErrorInfo", info.encode_to_vec()),
            any("RetryInfo", RetryInfo { retry_delay: delay }.encode_to_vec()),
        ];
        assert_eq!((details.code, &*details.message), (14, "why"));
        assert_eq!(details.details, expected);
        let final_one = Status::invalid_argument("no").because(StatusReason::InvalidRequest);
        assert_eq!(RpcStatus::decode(final_one.details()).unwrap().details.len(), 1);
    }

    #[test]
    fn every_reason_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch-api.md");
        let document = std::fs::read_to_string(path).unwrap();
        let missing = StatusReason::ALL.iter().map(|reason| reason.as_str());
        let missing: Vec<_> =
            missing.filter(|reason| !document.contains(&format!("`{reason}`"))).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
