//! An explanation as fields of text, for programs: the JSON of `portcullis why` and of the sidecar.

use crate::decision::Decision;
use crate::effect::{HeaderAction, TimeoutBound};
use crate::explain::{Explanation, FailedCondition, FailureReason, GrantEvaluation};
use crate::naive::{MatchPart, MatchPrecedence, OtherRule, RuleOutcome};
use crate::policy::{Owner, Protocol};
use serde::{Serialize, Serializer};

/// An object with the fields below. Names of objects are `Kind namespace/name`, or `default name` for what
/// is built in.
impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fields::from(self).serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    /// `allow`, `audit` or `deny`.
    decision: &'static str,
    reason: Option<&'static str>,
    owner: String,
    protocol: &'static str,
    route: Option<RouteFields>,
    others: Vec<OtherFields>,
    authorization: Option<String>,
    considered: Vec<GrantFields>,
    omitted: usize,
    withheld: Vec<WithheldFields>,
    rate_limit: Option<String>,
    effects: Vec<EffectFields>,
}

#[derive(Serialize)]
struct RouteFields {
    origin: String,
    /// The path that was handed down, with every object that it passed through.
    #[serde(skip_serializing_if = "Option::is_none")]
    delegated: Option<String>,
    #[serde(rename = "match")]
    matched: Option<String>,
}

#[derive(Serialize)]
struct OtherFields {
    origin: String,
    #[serde(rename = "match")]
    wanted: String,
    /// The criterion by which another match precedes this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<&'static str>,
    /// The parts that the request does not fulfil.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misses: Vec<String>,
}

#[derive(Serialize)]
struct GrantFields {
    source: String,
    holds: bool,
    failures: usize,
    failed: Option<FailedFields>,
}

#[derive(Serialize)]
struct FailedFields {
    source: Option<String>,
    asked: Option<String>,
    client: String,
    reason: &'static str,
}

#[derive(Serialize)]
struct WithheldFields {
    source: String,
    reason: String,
}

#[derive(Serialize)]
struct EffectFields {
    source: String,
    what: String,
}

impl From<&Explanation> for Fields {
    fn from(explanation: &Explanation) -> Self {
        let Explanation {
            decision,
            owner,
            protocol,
            route,
            matched,
            others,
            considered,
            omitted,
            withheld,
            rate_limit,
            effects,
        } = explanation;
        let (decision, reason) = match decision {
            Decision::Permit(permit) if permit.is_audited() => ("audit", None),
            Decision::Permit(_) => ("allow", None),
            Decision::Deny(denial) => ("deny", Some(denial.reason.as_str())),
        };
        let held = considered.iter().find(|grant| grant.failed.is_none());
        let bounds = effects.timeouts.iter().map(|bound| EffectFields {
            source: bound.source.to_string(),
            what: format!("{} within {} ms", part(bound.bound), bound.after.as_millis()),
        });
        let headers = effects.headers.iter().map(|change| EffectFields {
            source: change.source.to_string(),
            what: format!("{} header {}", verb(&change.action), change.name),
        });
        Self {
            decision,
            reason,
            owner: match owner {
                Owner::Server(server) => server.to_string(),
                Owner::Default(default) => format!("default {}", default.as_str()),
            },
            protocol: word(*protocol),
            route: route.as_ref().map(|origin| RouteFields {
                origin: origin.to_string(),
                delegated: origin.delegated_path().map(ToString::to_string),
                matched: matched.as_ref().map(ToString::to_string),
            }),
            others: others.iter().map(OtherFields::from).collect(),
            authorization: held.map(|grant| grant.source.to_string()),
            considered: considered.iter().map(GrantFields::from).collect(),
            omitted: *omitted,
            withheld: withheld
                .iter()
                .map(|one| WithheldFields {
                    source: one.source.to_string(),
                    reason: one.reason.to_string(),
                })
                .collect(),
            rate_limit: rate_limit.as_ref().map(|limit| limit.source.to_string()),
            effects: bounds.chain(headers).collect(),
        }
    }
}

impl From<&OtherRule> for OtherFields {
    fn from(OtherRule { origin, wanted, outcome }: &OtherRule) -> Self {
        let (lost, misses) = match outcome {
            RuleOutcome::Lost(by) => (Some(by.as_str()), Vec::new()),
            RuleOutcome::Missed(parts) => (None, parts.iter().map(MatchPart::to_string).collect()),
        };
        Self { origin: origin.to_string(), wanted: wanted.to_string(), lost, misses }
    }
}

impl From<&GrantEvaluation> for GrantFields {
    fn from(grant: &GrantEvaluation) -> Self {
        let GrantEvaluation { id: _, source, failed, failures } = grant;
        let condition_of = |failed: &FailedCondition| {
            let FailedCondition { condition, unmet, client } = failed;
            FailedFields {
                source: condition.as_ref().map(|condition| condition.source.to_string()),
                asked: condition.as_ref().map(|condition| condition.test.to_string()),
                client: client.clone(),
                reason: unmet.name(),
            }
        };
        Self {
            source: source.to_string(),
            holds: failed.is_none(),
            // An authorization without any condition fails as a whole.
            failures: if *failures == usize::MAX { 1 } else { *failures },
            failed: failed.as_ref().map(condition_of),
        }
    }
}

impl FailureReason {
    /// Returns the name that programs read.
    pub fn name(self) -> &'static str {
        match self {
            Self::NamesNobody => "names_nobody",
            Self::OutsideNetworks => "outside_networks",
            Self::InException => "in_exception",
            Self::NoMeshTls => "no_mesh_tls",
            Self::NoIdentity => "no_identity",
            Self::IdentityNotNamed => "identity_not_named",
            Self::NoPassthrough => "no_passthrough",
            Self::OtherSegment => "other_segment",
        }
    }
}

impl MatchPrecedence {
    /// Returns the name that programs read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Host => "host",
            Self::Path => "path",
            Self::Method => "method",
            Self::Headers => "headers",
            Self::Query => "query",
            Self::Earlier => "earlier",
        }
    }
}

/// The part as matches call it: `path`, `header x-team`.
impl std::fmt::Display for MatchPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Path => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query {name}"),
        }
    }
}

fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Detect { .. } => "detect",
        Protocol::Http1 => "HTTP/1",
        Protocol::Http2 => "HTTP/2",
        Protocol::Grpc => "gRPC",
        Protocol::Opaque => "opaque",
        Protocol::Tls => "TLS",
    }
}

fn part(bound: TimeoutBound) -> &'static str {
    match bound {
        TimeoutBound::Complete => "complete",
        TimeoutBound::Head => "head",
        TimeoutBound::Response => "response",
        TimeoutBound::Idle => "idle",
    }
}

fn verb(action: &HeaderAction) -> &'static str {
    match action {
        HeaderAction::Clear => "clear",
        HeaderAction::Set(_) => "set",
        HeaderAction::Add(_) => "add",
    }
}
