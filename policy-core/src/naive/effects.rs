//! The effects on a permitted request.

use super::conditions::{affects_segment, is_met};
use crate::decision::Permit;
use crate::filter::{EffectiveTimeouts, Filter, FilterKind, Streams};
use crate::match_form;
use crate::policy::ServerPolicy;
use crate::request::RequestView;
use std::time::Duration;

/// The effects that apply to a permitted request, in order. `request` is as it was received.
pub fn effects<'a>(
    policy: &'a ServerPolicy,
    permit: &Permit,
    request: &RequestView<'_>,
) -> Vec<&'a Filter> {
    let path = match_form::matched(request.path, policy.paths);
    let request = &RequestView { path: &path, ..*request };
    let mut all: Vec<&Filter> = Vec::new();
    if let Some(id) = permit.route
        && let (Ok(route), Ok(rule)) = (usize::try_from(id.route), usize::try_from(id.rule))
        && let Some(rule) = policy.routes.routes.get(route).and_then(|own| own.rules.get(rule))
    {
        all.extend(&rule.effects);
    }
    all.extend(&policy.effects);
    all.retain(|effect| applies(&effect.kind, request));
    all
}

fn applies(kind: &FilterKind, request: &RequestView<'_>) -> bool {
    match kind {
        FilterKind::Timeouts(timeouts) => {
            let unmet = timeouts.when.iter().find(|one| !affects_segment(one, request.path));
            unmet.is_none()
        }
        FilterKind::Rewrite(rewrite) => {
            let unmet = rewrite.when.iter().find(|one| !is_met(one, request));
            unmet.is_none()
        }
        FilterKind::RequestHeaders(_)
        | FilterKind::ResponseHeaders(_)
        | FilterKind::Redirect(_)
        | FilterKind::Failure(_)
        | FilterKind::Timeout(_) => true,
    }
}

/// The bounds that the effects of a request come to.
pub fn timeouts(effects: &[&Filter]) -> EffectiveTimeouts {
    let (mut complete, mut head) = (Vec::new(), Vec::new());
    let (mut response, mut idle) = (Vec::new(), Vec::new());
    for effect in effects {
        match &effect.kind {
            FilterKind::Timeout(bound) => complete.push(*bound),
            FilterKind::Timeouts(bounds) => {
                match bounds.streams {
                    Streams::Bounded => complete.extend(bounds.request),
                    Streams::Unbounded => head.extend(bounds.request),
                }
                response.extend(bounds.response);
                idle.extend(bounds.idle);
            }
            FilterKind::RequestHeaders(_)
            | FilterKind::ResponseHeaders(_)
            | FilterKind::Redirect(_)
            | FilterKind::Failure(_)
            | FilterKind::Rewrite(_) => {}
        }
    }
    let least = |bounds: Vec<Duration>| bounds.into_iter().reduce(Duration::min);
    EffectiveTimeouts {
        complete: least(complete),
        head: least(head),
        response: least(response),
        idle: least(idle),
    }
}
