//! The APIs that routes are written in, and where they differ.

use crate::kind::Kind;
use crate::parse::input::Input;
use crate::reader::AllowedFields;
use policy_core::RequestMatch;

/// The API that a route is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `policy.linkerd.io` HTTPRoute; whether its version has timeouts.
    Policy { timeouts: bool },
    /// `gateway.networking.k8s.io` HTTPRoute.
    Gateway,
    /// `gateway.networking.k8s.io` GRPCRoute.
    Grpc,
}

impl Dialect {
    pub(super) fn of(input: &Input<'_>) -> Self {
        let kind = input.meta.key.kind;
        if kind == Kind::GrpcRoute {
            Self::Grpc
        } else if kind == Kind::PolicyHttpRoute {
            Self::Policy { timeouts: input.version == "v1beta3" }
        } else {
            Self::Gateway
        }
    }

    /// The fields allowed where the Gateway API may gain some.
    pub(super) fn growing(self, names: &'static [&'static str]) -> AllowedFields {
        match self {
            Self::Policy { .. } => AllowedFields::Only(names),
            Self::Gateway | Self::Grpc => AllowedFields::Any,
        }
    }

    /// True if an unknown field outside matches and filters is an error, too.
    pub(super) fn refuses_unknown(self) -> bool {
        matches!(self, Self::Policy { .. })
    }

    /// The match of a rule without matches.
    pub(super) fn everything(self) -> RequestMatch {
        match self {
            Self::Policy { .. } | Self::Gateway => RequestMatch::everything(),
            Self::Grpc => RequestMatch::grpc(None, None),
        }
    }

    pub(super) fn group(self) -> &'static str {
        match self {
            Self::Policy { .. } => "policy.linkerd.io",
            Self::Gateway | Self::Grpc => "gateway.networking.k8s.io",
        }
    }

    /// Alternatives allowed in one rule.
    pub(super) fn max_matches(self) -> usize {
        match self {
            Self::Policy { .. } => 8,
            Self::Gateway | Self::Grpc => 64,
        }
    }
}
