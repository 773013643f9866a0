//! The APIs that routes are written in, and where they differ.

use crate::kind::Kind;
use crate::parse::input::{Form, Input};
use crate::reader::{AllowedFields, Fields};
use crate::unknown::{UNUSED_IN_RULES, UNUSED_IN_SPEC};
use policy_core::RequestMatch;

/// The API that a route is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `policy.linkerd.io` HTTPRoute; whether its version has timeouts.
    Policy { timeouts: bool },
    /// `gateway.networking.k8s.io` HTTPRoute.
    Gateway(Form),
    /// `gateway.networking.k8s.io` GRPCRoute.
    Grpc(Form),
}

impl Dialect {
    pub(super) fn of(input: &Input<'_>) -> Self {
        let kind = input.meta.key.kind;
        if kind == Kind::GrpcRoute {
            Self::Grpc(input.form)
        } else if kind == Kind::PolicyHttpRoute {
            Self::Policy { timeouts: input.version == "v1beta3" }
        } else {
            Self::Gateway(input.form)
        }
    }

    /// True for a GRPCRoute.
    pub(super) fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc(_))
    }

    /// The fields allowed where the Gateway API may gain some. In a manifest, one that is nearly a known
    /// field is misspelt: an API server drops it, and the route would match more than its author wrote.
    pub(super) fn growing(self, names: &'static [&'static str]) -> AllowedFields {
        match self {
            Self::Policy { .. } => AllowedFields::Only(names),
            Self::Gateway(Form::Written) | Self::Grpc(Form::Written) => {
                AllowedFields::NoneNear(names)
            }
            Self::Gateway(Form::Stored) | Self::Grpc(Form::Stored) => AllowedFields::Any,
        }
    }

    /// True if a field beside `names` may be the misspelt name of one of them that is absent.
    pub(super) fn is_misspelt(self, fields: &Fields<'_>, names: &[&str]) -> bool {
        match self {
            Self::Policy { .. } => fields.has_unknown(names),
            Self::Gateway(Form::Written) | Self::Grpc(Form::Written) => fields.has_near(names),
            Self::Gateway(Form::Stored) | Self::Grpc(Form::Stored) => false,
        }
    }

    /// True if `name`, without which everything matches, may be meant by a field beside `names`: by any
    /// that the Gateway API does not have. An error says so.
    pub(super) fn lacks(self, fields: &Fields<'_>, names: &[&str], name: &str) -> bool {
        if fields.get(name).is_some() {
            return false;
        }
        match self {
            Self::Policy { .. } => fields.has_unknown(names),
            Self::Gateway(Form::Written) | Self::Grpc(Form::Written) => {
                let known = [names, &["name"], &UNUSED_IN_SPEC, &UNUSED_IN_RULES].concat();
                if fields.has_unknown(&known) && !fields.has_near(names) {
                    fields.error_at(name, "is required beside an unknown field, which may mean it");
                }
                fields.has_unknown(&known)
            }
            Self::Gateway(Form::Stored) | Self::Grpc(Form::Stored) => false,
        }
    }

    /// The match of a rule without matches.
    pub(super) fn everything(self) -> RequestMatch {
        match self {
            Self::Policy { .. } | Self::Gateway(_) => RequestMatch::everything(),
            Self::Grpc(_) => RequestMatch::grpc(None, None),
        }
    }

    pub(super) fn group(self) -> &'static str {
        match self {
            Self::Policy { .. } => "policy.linkerd.io",
            Self::Gateway(_) | Self::Grpc(_) => "gateway.networking.k8s.io",
        }
    }

    /// Alternatives allowed in one rule.
    pub(super) fn max_matches(self) -> usize {
        match self {
            Self::Policy { .. } => 8,
            Self::Gateway(_) | Self::Grpc(_) => 64,
        }
    }
}
