//! Reasons why an application's response does not reach the client.

use crate::error::ErrorKind;

/// Reason why the application did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not accept connections.
    Connect,
    /// It did not accept a connection in time.
    ConnectTimeout,
    /// No source port is free for a connection to it.
    SourcePorts,
    /// The connection broke, or its HTTP/2 stream ended, before the response's head.
    Broken,
    /// It reset the HTTP/2 stream before it answered, with this code. Clients of HTTP/2 get the same
    /// reset in place of the answer, which is what is recorded.
    Reset(u32),
    /// It closed the connection before it answered.
    Closed,
    /// It closed the connection that was kept open, before it answered: the client may send the
    /// request again, as it may if it sees such an end itself (RFC 9112 section 9.3.1).
    ClosedKept,
    /// It closed the connection within the head of its response.
    Truncated,
    /// It took nothing of the request for too long.
    Stalled,
    /// Its response cannot be forwarded.
    Response(ResponseFault),
    /// The exchange exceeded a bound of the policy.
    Timeout(Exceeded),
}

impl Fault {
    /// Returns the name that logs and metrics have for it.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Connect => ErrorKind::Connect,
            Self::ConnectTimeout => ErrorKind::ConnectTimeout,
            Self::SourcePorts => ErrorKind::SourcePorts,
            Self::Broken | Self::Reset(_) | Self::Closed | Self::ClosedKept => ErrorKind::Upstream,
            Self::Truncated => ErrorKind::UpstreamTruncated,
            Self::Stalled => ErrorKind::UpstreamStalled,
            Self::Response(fault) => fault.kind(),
            Self::Timeout(_) => ErrorKind::RequestTimeout,
        }
    }
}

/// Reason why a response of the application cannot be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFault {
    /// Its head is no head of HTTP.
    Malformed,
    /// A field of its head has a name or a value that HTTP does not allow.
    Field,
    /// Its body may end in different places (RFC 9112 section 6.3).
    Framing,
    /// Its head or its trailers exceed the bound on their fields or bytes.
    TooLarge,
    /// More interim responses precede it than may.
    TooManyInterim,
    /// It switches protocols without an upgrade request, or before the request is complete.
    Upgrade,
    /// It switches protocols, and nothing would end the tunnel with its grant.
    Unguarded,
}

impl ResponseFault {
    fn kind(self) -> ErrorKind {
        match self {
            Self::Malformed | Self::TooManyInterim | Self::Upgrade | Self::Unguarded => {
                ErrorKind::ResponseMalformed
            }
            Self::Field => ErrorKind::ResponseField,
            Self::Framing => ErrorKind::ResponseFraming,
            Self::TooLarge => ErrorKind::ResponseTooLarge,
        }
    }

    /// Returns the reason, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "the head of the application's response is malformed",
            Self::Field => "the application's response has a malformed header field",
            Self::Framing => {
                "the application's response frames its body ambiguously: content-length or \
                 transfer-encoding"
            }
            Self::TooLarge => {
                "the head or the trailers of the application's response are too large"
            }
            Self::TooManyInterim => "the application sent too many interim responses",
            Self::Upgrade => "the application switched protocols unasked",
            Self::Unguarded => {
                "the application switched protocols and did not take the guard of the tunnel"
            }
        }
    }
}

/// The bound that an exchange exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// On the request: until the response is complete, or begins.
    Request,
    /// On the response: from the end of the request until it begins.
    Response,
    /// On the time without a byte of either body.
    Idle,
    /// The client's own deadline, which is shorter than the policy's bound on the request.
    Client,
}

impl Exceeded {
    /// Returns the reason, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "the exchange exceeded the policy's request timeout",
            Self::Response => "the application exceeded the policy's response timeout",
            Self::Idle => "the exchange exceeded the policy's idle timeout",
            Self::Client => "the exchange exceeded the client's grpc-timeout",
        }
    }
}
