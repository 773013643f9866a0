//! Kinds of connection and request failures, as logs and metrics name them.

/// Failure of a connection or request that is not a policy decision. A closed set, so that hostile
/// input cannot add metric series or log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ErrorKind {
    /// The connection's original destination is unknown, or must not be forwarded to.
    Destination,
    /// The port's maximum number of connections is exceeded.
    TooManyConnections,
    /// Neither a ClientHello nor other bytes arrived in time.
    TlsDetectTimeout,
    /// The client does not support TLS 1.3.
    TlsVersion,
    /// The client certificate is not valid now, or has expired on an open connection.
    TlsCertificateExpired,
    /// The client certificate cannot be read or does not chain to our roots, or no longer does on
    /// an open connection.
    TlsCertificateUntrusted,
    /// A client connected to the proxy's own port without proving an identity.
    DirectUnauthenticated,
    /// A connection to the proxy's own port had no valid transport header.
    TransportHeader,
    /// A transport header requested a gateway, which this proxy is not.
    Gateway,
    /// A transport header led back to the proxy's own port.
    Loop,
    /// A TLS handshake failed otherwise: the bytes are not TLS, the connection ended, or it timed
    /// out.
    TlsHandshake,
    /// The protocol is not the one that the Server declares.
    ProtocolMismatch,
    /// The proxy's maximum number of concurrent requests is exceeded.
    TooManyRequests,
    /// The HTTP library rejected a request head.
    BadRequestHead,
    /// A request head exceeded its maximum size.
    RequestHeadTooLarge,
    /// A request head did not arrive in time.
    RequestHeadTimeout,
    /// An HTTP/2 client violated the protocol or one of its limits.
    Http2Protocol,
    /// The application does not accept connections.
    Connect,
    /// The application did not accept a connection in time.
    ConnectTimeout,
    /// No source port is free for a connection to the application.
    SourcePorts,
    /// The application closed or reset the connection before it answered.
    Upstream,
    /// The application closed or reset the connection within its response.
    UpstreamTruncated,
    /// The application took nothing of a request for too long.
    UpstreamStalled,
    /// A response head of the application is malformed, or comes where none may.
    ResponseMalformed,
    /// A response of the application has a malformed header field.
    ResponseField,
    /// A response of the application frames its body ambiguously.
    ResponseFraming,
    /// A response head of the application exceeds its bounds.
    ResponseTooLarge,
    /// A request body is malformed, or ended early.
    BadRequestBody,
    /// A request exceeded its timeout.
    RequestTimeout,
    /// The client's connection broke.
    Io,
}

impl ErrorKind {
    /// Every kind, for tables and metrics.
    pub const ALL: [ErrorKind; 30] = [
        Self::Destination,
        Self::TooManyConnections,
        Self::TlsDetectTimeout,
        Self::TlsVersion,
        Self::TlsCertificateExpired,
        Self::TlsCertificateUntrusted,
        Self::DirectUnauthenticated,
        Self::TransportHeader,
        Self::Gateway,
        Self::Loop,
        Self::TlsHandshake,
        Self::ProtocolMismatch,
        Self::TooManyRequests,
        Self::BadRequestHead,
        Self::RequestHeadTooLarge,
        Self::RequestHeadTimeout,
        Self::Http2Protocol,
        Self::Connect,
        Self::ConnectTimeout,
        Self::SourcePorts,
        Self::Upstream,
        Self::UpstreamTruncated,
        Self::UpstreamStalled,
        Self::ResponseMalformed,
        Self::ResponseField,
        Self::ResponseFraming,
        Self::ResponseTooLarge,
        Self::BadRequestBody,
        Self::RequestTimeout,
        Self::Io,
    ];

    /// Returns the index in [`ErrorKind::ALL`].
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// Returns the name of the kind in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Destination => "destination",
            Self::TooManyConnections => "too_many_connections",
            Self::TlsDetectTimeout => "tls_detect_timeout",
            Self::TlsVersion => "tls_version",
            Self::TlsCertificateExpired => "tls_certificate_expired",
            Self::TlsCertificateUntrusted => "tls_certificate_untrusted",
            Self::DirectUnauthenticated => "direct_unauthenticated",
            Self::TransportHeader => "transport_header",
            Self::Gateway => "gateway",
            Self::Loop => "loop",
            Self::TlsHandshake => "tls_handshake",
            Self::ProtocolMismatch => "protocol_mismatch",
            Self::TooManyRequests => "too_many_requests",
            Self::BadRequestHead => "bad_request_head",
            Self::RequestHeadTooLarge => "request_head_too_large",
            Self::RequestHeadTimeout => "request_head_timeout",
            Self::Http2Protocol => "http2_protocol",
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::SourcePorts => "source_ports",
            Self::Upstream => "upstream",
            Self::UpstreamTruncated => "upstream_truncated",
            Self::UpstreamStalled => "upstream_stalled",
            Self::ResponseMalformed => "response_malformed",
            Self::ResponseField => "response_field",
            Self::ResponseFraming => "response_framing",
            Self::ResponseTooLarge => "response_too_large",
            Self::BadRequestBody => "bad_request_body",
            Self::RequestTimeout => "request_timeout",
            Self::Io => "io",
        }
    }
}
