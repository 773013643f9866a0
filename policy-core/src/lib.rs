//! The policy model and the one evaluator that decides by it.
//!
//! A [`ServerPolicy`] is everything in force on one port of one workload. It is plain data: it can be
//! compared, encoded and printed. [`Evaluator`] is the same policy arranged for deciding; [`naive`]
//! reads like the specification, shares no rule with it, and exists to check
//! the evaluator against; the one effect that depends on a match is taken from it, too.
//!
//! **Invariants.** This crate does no I/O, reads no clock, logs nothing, spawns nothing and knows
//! neither Kubernetes nor protobuf. An empty list never means "everything": each type says what its
//! empty list means. Deciding does not allocate, with the exceptions that
//! [`Evaluator::decide_request`] names.

pub mod address;
pub mod authorization;
pub mod change;
pub mod compact_list;
pub mod condition;
pub mod decision;
pub mod decision_id;
pub mod destination;
pub mod effect;
pub mod evaluator;
pub mod explain;
mod explanation_fields;
mod expression_texts;
pub mod feature;
pub mod filter;
pub mod host;
pub mod identity;
mod index;
pub mod limit;
pub mod logs;
mod match_form;
pub mod match_result;
pub mod matching;
mod memo;
pub mod metric;
pub mod naive;
pub mod name;
pub mod network;
mod objects;
mod path_expression;
mod path_form;
mod path_handling;
pub mod pattern;
pub mod policy;
pub mod precedence;
pub mod request;
pub mod revision;
pub mod suggest;
pub mod symbols;
pub mod target;
#[cfg(feature = "testing")]
pub mod testing;
mod words;
pub mod workload;

pub use authorization::{
    Authorization, AuthorizationSet, Condition, Predicate, Requirement, Scope, UnresolvedGrant,
};
pub use change::RouteChange;
pub use compact_list::{OneOrMany, ThinVec};
pub use condition::{
    EffectCondition, HeaderCondition, HeaderOperator, SegmentCondition, SegmentOperator,
};
pub use decision::{AuthorizationId, Decision, Denial, Denied, Permit, RuleId, TargetFault};
pub use decision_id::{DecisionId, PodPart};
pub use destination::{
    AddressFamily, Destination, Endpoint, EndpointMesh, MeshEndpoint, PlaintextReason,
    ServiceDestination, ServiceName,
};
pub use evaluator::{BuildError, Evaluator, Memo};
pub use feature::Feature;
pub use filter::{EffectiveTimeouts, Filter, FilterKind, HeaderRewrite, Streams, Timeouts};
pub use identity::{Identity, IdentityMatch};
pub use limit::{LimitOverride, RateLimit};
pub use logs::{AccessLogs, Logs};

pub use matching::{
    HeaderMatch, HostPattern, PathPattern, QueryMatch, RequestMatch, ValueMatch, WrittenMatch,
};
pub use name::{DelegatedPath, ObjectRef, Origin, Source};
pub use network::{Facts, NetworkMatch, NetworkSymbol, NetworkTerm, fold_mapped};
pub use path_expression::PathExpressionError;
pub use path_form::match_form;
pub use pattern::{Pattern, PatternError};
pub use policy::{
    DefaultPolicy, Exemption, InformationalHeaders, Owner, PathHandling, Protocol, Route,
    RouteKind, RouteLabel, RouteTable, Rule, ServerPolicy, Undeclared, Unmatched, UpstreamReuse,
    WorkloadPolicy,
};
pub use request::{Connection, RequestView, Subject, Tls};
pub use revision::Revision;
pub use target::{Target, canonical_path, canonical_target};
pub use workload::{UndeclaredPorts, WorkloadKey, WorkloadKind};
