//! The effects on a permitted request as the evaluator tells them: bounds on parts of the exchange, and
//! headers that are changed.

use super::header_values::{ExpectedHeaders, differences};
use super::received::ExpectedArrival;
use http::HeaderMap;
use policy_core::effect::{EffectsExplanation, HeaderAction, HeaderOperation, explain_effects};
use policy_core::{Decision, FilterKind, RequestView, ServerPolicy};
use serde::Deserialize;
use std::time::Duration;

/// The bounds on a permitted request, such as `3s` or `500ms`; an absent one: there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedTimeouts {
    /// From the request to the end of the response.
    pub complete: Option<String>,
    /// From the request to the head of the response.
    pub head: Option<String>,
    /// From the end of the request to the head of the response.
    pub response: Option<String>,
    /// Without a byte of either body.
    pub idle: Option<String>,
}

impl ExpectedTimeouts {
    fn found(effects: &EffectsExplanation) -> Self {
        use policy_core::effect::TimeoutBound::{Complete, Head, Idle, Response};
        let written = |part| {
            let bound = effects.timeouts.iter().find(|bound| bound.bound == part);
            bound.map(|bound| written(bound.after))
        };
        Self {
            complete: written(Complete),
            head: written(Head),
            response: written(Response),
            idle: written(Idle),
        }
    }
}

fn written(time: Duration) -> String {
    format!("{time:?}")
}

/// Differences of the effects on a request from those expected; empty if there are none, and for what is
/// denied.
pub(super) fn contradictions(
    (timeouts, received): (Option<&ExpectedTimeouts>, Option<&ExpectedArrival>),
    policy: &ServerPolicy,
    decision: &Decision,
    request: &RequestView<'_>,
) -> Vec<String> {
    let Decision::Permit(permit) = decision else { return Vec::new() };
    let effects = explain_effects(policy, permit, request);
    let mut all = Vec::new();
    if let Some(expected) = timeouts {
        let found = ExpectedTimeouts::found(&effects);
        if found != *expected {
            all.push(format!("timeouts are {found:?}, expected {expected:?}"));
        }
    }
    if let Some((_, answer)) = received.zip(effects.answer.as_ref()) {
        // Whether a redirect leads elsewhere is not looked for: one to the same place has no effect.
        if !matches!(answer.kind, FilterKind::Redirect(_)) {
            all.push(format!("the application receives nothing: {} answers", answer.source));
        }
    } else if let Some(received) = received {
        let headers = changed(request.headers, &effects.headers);
        all.extend(differences(&of_policies(&received.headers), |name| {
            let lines = headers.get_all(name).iter();
            lines.filter_map(|line| line.to_str().ok()).collect()
        }));
    }
    all
}

/// The headers after all changes.
fn changed(received: &HeaderMap, operations: &[HeaderOperation]) -> HeaderMap {
    let mut headers = received.clone();
    for HeaderOperation { source: _, name, action } in operations {
        match action {
            HeaderAction::Clear => drop(headers.remove(name)),
            HeaderAction::Set(value) => drop(headers.insert(name, value.clone())),
            HeaderAction::Add(value) => drop(headers.append(name, value.clone())),
        }
    }
    headers
}

/// The headers that policies decide on. Those about the client are the sidecar's own.
fn of_policies(headers: &ExpectedHeaders) -> ExpectedHeaders {
    let own = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("l5d") || name == "forwarded"
    };
    let of_policies = headers.iter().filter(|(name, _)| !own(name));
    of_policies.map(|(name, lines)| (name.clone(), lines.clone())).collect()
}
