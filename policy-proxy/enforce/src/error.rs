//! Kinds of failures of connections and requests, as logs and metrics name them.

/// What goes wrong with connections and requests, apart from policy saying no. Closed, so that
/// hostile input cannot add metric series or log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ErrorKind {
    /// The connection's original destination is not known, or must not be forwarded to.
    Destination,
    /// More connections than the port's bound.
    TooManyConnections,
    /// No ClientHello and nothing else within the bound.
    TlsDetectTimeout,
    /// A client that does not speak TLS 1.3.
    TlsVersion,
    /// A client certificate that is not valid now, or, on an open connection, not any longer.
    TlsCertificateExpired,
    /// A client certificate that our roots do not vouch for, on an open connection not any longer, or
    /// that cannot be read.
    TlsCertificateUntrusted,
    /// A connection to our own port whose client proved no identity.
    DirectUnauthenticated,
    /// A connection to our own port without a transport header, or with one that is not valid.
    TransportHeader,
    /// A transport header that asks for a gateway, which this is not.
    Gateway,
    /// A transport header that leads back to our own port.
    Loop,
    /// A TLS handshake failed otherwise: bytes that are not TLS, an end in the middle, or too slow.
    TlsHandshake,
    /// Not the protocol that the Server declares.
    ProtocolMismatch,
    /// More requests at a time than the proxy takes on.
    TooManyRequests,
    /// A request head that the HTTP library refuses.
    BadRequestHead,
    /// A request head larger than the bound.
    RequestHeadTooLarge,
    /// A request head that did not arrive in time.
    RequestHeadTimeout,
    /// A client of HTTP/2 broke the protocol or one of its bounds.
    Http2Protocol,
    /// The application does not accept connections.
    Connect,
    /// The application did not accept a connection in time.
    ConnectTimeout,
    /// The application closed or broke the connection.
    Upstream,
    /// A request took longer than its bound.
    RequestTimeout,
    /// The client's connection broke.
    Io,
}

impl ErrorKind {
    /// Every kind, for tables and metrics.
    pub const ALL: [ErrorKind; 22] = [
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
        Self::Upstream,
        Self::RequestTimeout,
        Self::Io,
    ];

    /// Its place among [`ErrorKind::ALL`].
    pub fn number(self) -> u32 {
        u32::from(self as u8)
    }

    /// The kind as logs and metrics write it.
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
            Self::Upstream => "upstream",
            Self::RequestTimeout => "request_timeout",
            Self::Io => "io",
        }
    }
}
