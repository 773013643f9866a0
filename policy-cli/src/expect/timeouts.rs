//! The bounds on the exchange of a permitted request.

use policy_core::effect::EffectsExplanation;
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
    /// The bounds that the evaluator tells.
    pub(super) fn found(effects: &EffectsExplanation) -> Self {
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
