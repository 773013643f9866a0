//! Decisions: closed enums that name their reasons without allocating.

/// The result of an evaluation. Ids index into the policy that was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Forward.
    Permit(Permit),
    /// Refuse.
    Deny(Denial),
}

/// Proof that a decision allowed something. Only this crate can make one, so that forwarding
/// without a decision does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    pub(crate) route: Option<RuleId>,
    pub(crate) authorization: AuthorizationId,
    pub(crate) audit: bool,
}

/// A refusal: its reason and rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The stable reason.
    pub reason: Denied,
    /// The rule that matched, or whose match is indeterminate.
    pub route: Option<RuleId>,
}

/// A rule of a policy's route table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// Index into `RouteTable::routes`.
    pub route: u32,
    /// Index into `Route::rules`.
    pub rule: u32,
}

/// An authorization of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorizationId {
    /// Index into `ServerPolicy::authorizations`.
    Server(u32),
    /// Index of a route and into its own authorizations.
    Route(u32, u32),
    /// Index into `ServerPolicy::exemptions`.
    Exemption(u32),
}

impl Decision {
    /// A permit, settled by the grant `authorization`.
    #[inline]
    pub(crate) fn permit(
        route: Option<RuleId>,
        authorization: AuthorizationId,
        audit: bool,
    ) -> Self {
        Self::Permit(Permit { route, authorization, audit })
    }

    /// A refusal.
    #[inline]
    pub(crate) fn deny(reason: Denied, route: Option<RuleId>) -> Self {
        Self::Deny(Denial { reason, route })
    }
}

impl Permit {
    /// The rule that matched; none for an opaque connection and for an exemption.
    pub fn route(&self) -> Option<RuleId> {
        self.route
    }

    /// The grant that settled it.
    pub fn authorization(&self) -> AuthorizationId {
        self.authorization
    }

    /// Returns true if the grant requires the permit to be logged.
    pub fn is_audited(&self) -> bool {
        self.audit
    }
}

/// Every reason to refuse. The text of [`Denied::as_str`] is a stable interface of logs, metrics
/// and the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Denied {
    /// No route matches.
    NoRoute,
    /// No authorization holds.
    Unauthorized,
    /// A repeated header or parameter matches on some lines only.
    CannotTell,
    /// The target is ambiguous.
    Target(TargetFault),
    /// A Server whose protocol is TLS got a connection without a ClientHello.
    TlsRequired,
    /// The bytes are not the protocol that the Server declares.
    ProtocolMismatch,
    /// The Server that owns the port is invalid.
    ServerInvalid,
    /// Routes are attached but none of them is valid.
    RoutesInvalid,
    /// A match of an attached object cannot be read, and may have been meant for the request.
    RouteInvalid,
    /// The policy asks for a feature that this client lacks.
    ProxyUnsupported,
    /// The path of a host belongs to nobody, to another Server, or to an incomplete delegation.
    NotDelegated,
    /// No container port, probe or Server names the port, and undeclared ports are denied.
    PortUndeclared,
    /// No policy has been received yet.
    PolicyPending,
    /// The policy is older than the configured bound.
    PolicyExpired,
    /// A rate limit has no room.
    RateLimited,
    /// The rate limit is invalid, and none of its numbers can be read.
    RateLimitInvalid,
    /// The policy changed while the stream was open.
    Revoked,
}

/// The fault of a request target, which is answered with 400 (docs/spec/decisions.md, *Ambiguous
/// targets*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetFault {
    /// Neither an absolute path nor `*` nor an authority where one belongs.
    Malformed,
    /// A segment is `.` or `..`, also percent-encoded.
    DotSegment,
    /// An empty segment before the last: `//`.
    EmptySegment,
    /// `%2F`.
    EncodedSlash,
    /// `\` or `%5C`.
    Backslash,
    /// `%00` or a control byte.
    Control,
    /// `%` not followed by two hex digits.
    BadEncoding,
    /// `;` in a path segment, also percent-encoded.
    PathParameter,
    /// Bytes outside ASCII.
    NonAscii,
    /// The path is not canonical, and a router has read it before policy.
    NotCanonical,
    /// `<` that is not percent-encoded.
    LessThan,
    /// `>` that is not percent-encoded.
    GreaterThan,
    /// A grave accent that is not percent-encoded.
    GraveAccent,
    /// More than one `Host`.
    DuplicateHost,
    /// Absolute-form or `:authority` disagrees with `Host`.
    AuthorityMismatch,
    /// The host is not a valid name or address.
    InvalidHost,
    /// HTTP/1.1 without `Host`.
    MissingHost,
    /// A header that a matcher looks at has bytes outside visible ASCII.
    ObsText,
    /// A header of HTTP/2 begins or ends with a blank, which HTTP/1 would take off.
    OuterBlanks,
}

impl Denied {
    /// Every reason besides the target faults.
    const PLAIN: [Denied; 16] = [
        Self::NoRoute,
        Self::Unauthorized,
        Self::CannotTell,
        Self::TlsRequired,
        Self::ProtocolMismatch,
        Self::ServerInvalid,
        Self::RoutesInvalid,
        Self::ProxyUnsupported,
        Self::NotDelegated,
        Self::PortUndeclared,
        Self::PolicyPending,
        Self::PolicyExpired,
        Self::RateLimited,
        Self::RateLimitInvalid,
        Self::Revoked,
        Self::RouteInvalid,
    ];

    /// Every reason, the target faults last.
    pub fn all() -> impl Iterator<Item = Denied> {
        Self::PLAIN.into_iter().chain(TargetFault::ALL.into_iter().map(Self::Target))
    }

    /// The reason whose stable name this is; `None`: a reason this version does not know.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.as_str() == name)
    }

    /// The reason as logs, metrics and the API write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoRoute => "no_route",
            Self::Unauthorized => "unauthorized",
            Self::CannotTell => "cannot_tell",
            Self::Target(fault) => fault.as_str(),
            Self::TlsRequired => "tls_required",
            Self::ProtocolMismatch => "protocol_mismatch",
            Self::ServerInvalid => "server_invalid",
            Self::RoutesInvalid => "routes_invalid",
            Self::RouteInvalid => "route_invalid",
            Self::ProxyUnsupported => "proxy_unsupported",
            Self::NotDelegated => "not_delegated",
            Self::PortUndeclared => "port_undeclared",
            Self::PolicyPending => "policy_pending",
            Self::PolicyExpired => "policy_expired",
            Self::RateLimited => "rate_limited",
            Self::RateLimitInvalid => "rate_limit_invalid",
            Self::Revoked => "revoked",
        }
    }
}

impl TargetFault {
    /// Every fault, for tables and tests.
    pub const ALL: [TargetFault; 19] = [
        Self::Malformed,
        Self::DotSegment,
        Self::EmptySegment,
        Self::EncodedSlash,
        Self::Backslash,
        Self::Control,
        Self::BadEncoding,
        Self::PathParameter,
        Self::NonAscii,
        Self::NotCanonical,
        Self::LessThan,
        Self::GreaterThan,
        Self::GraveAccent,
        Self::DuplicateHost,
        Self::AuthorityMismatch,
        Self::InvalidHost,
        Self::MissingHost,
        Self::ObsText,
        Self::OuterBlanks,
    ];

    /// The fault as logs, metrics and the API write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "target_malformed",
            Self::DotSegment => "target_dot_segment",
            Self::EmptySegment => "target_empty_segment",
            Self::EncodedSlash => "target_encoded_slash",
            Self::Backslash => "target_backslash",
            Self::Control => "target_control",
            Self::BadEncoding => "target_bad_encoding",
            Self::PathParameter => "target_path_parameter",
            Self::NonAscii => "target_non_ascii",
            Self::NotCanonical => "target_not_canonical",
            Self::LessThan => "target_less_than",
            Self::GreaterThan => "target_greater_than",
            Self::GraveAccent => "target_grave_accent",
            Self::DuplicateHost => "host_duplicate",
            Self::AuthorityMismatch => "host_mismatch",
            Self::InvalidHost => "host_invalid",
            Self::MissingHost => "host_missing",
            Self::ObsText => "header_obs_text",
            Self::OuterBlanks => "header_outer_blanks",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Index of a reason in `PLAIN`. A new reason fails to compile here until it is added.
    fn in_table(reason: Denied) -> Option<usize> {
        let at = match reason {
            Denied::Target(_) => return None,
            Denied::NoRoute => 0,
            Denied::Unauthorized => 1,
            Denied::CannotTell => 2,
            Denied::TlsRequired => 3,
            Denied::ProtocolMismatch => 4,
            Denied::ServerInvalid => 5,
            Denied::RoutesInvalid => 6,
            Denied::ProxyUnsupported => 7,
            Denied::NotDelegated => 8,
            Denied::PortUndeclared => 9,
            Denied::PolicyPending => 10,
            Denied::PolicyExpired => 11,
            Denied::RateLimited => 12,
            Denied::RateLimitInvalid => 13,
            Denied::Revoked => 14,
            Denied::RouteInvalid => 15,
        };
        Some(at)
    }

    #[test]
    fn every_reason_reads_back_by_its_name() {
        for reason in Denied::all() {
            assert_eq!(Denied::parse(reason.as_str()), Some(reason));
        }
        let places: Vec<usize> = Denied::all().filter_map(in_table).collect();
        assert_eq!(places, Vec::from_iter(0..16), "each once, in order");
        assert_eq!(Denied::parse("no-route"), None);
        assert_eq!(Denied::parse(""), None);
    }
}
