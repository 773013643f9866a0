//! What a valid manifest means where that may surprise its author. Nothing here changes policy.

use crate::object::{Body, FieldError, Object};
use crate::reader::quote;
use crate::resource::{
    AuthorizationPolicy, PortRef, RateLimitPolicy, Resource, RouteResource, Server,
    ServerAuthorization, WorkloadSelector,
};
use crate::selector::LabelSelector;
use policy_core::matching::Segment;
use policy_core::{PathPattern, match_form};

/// Remarks about a valid object; none for an invalid one, whose errors say more.
pub fn remarks(object: &Object) -> Vec<FieldError> {
    let Body::Valid(resource) = &object.body else { return Vec::new() };
    if let Resource::Server(server) = resource {
        of_server(server)
    } else if let Resource::ServerAuthorization(authorization) = resource {
        of_server_authorization(authorization)
    } else if let Resource::AuthorizationPolicy(policy) = resource {
        of_authorization_policy(policy)
    } else if let Resource::RateLimit(limit) = resource {
        of_rate_limit(limit)
    } else if let Resource::Route(route) = resource {
        of_route(route)
    } else {
        Vec::new()
    }
}

fn remark(field: &str, message: impl Into<String>) -> FieldError {
    FieldError { field: field.to_owned(), message: message.into() }
}

fn of_server(server: &Server) -> Vec<FieldError> {
    let everything = |selector: &LabelSelector| *selector == LabelSelector::default();
    let mut remarks = Vec::new();
    match &server.workloads {
        WorkloadSelector::Pods(selector) if everything(selector) => {
            remarks
                .push(remark("spec.podSelector", "is empty: selects every pod of the namespace"));
        }
        WorkloadSelector::ExternalWorkloads(selector) if everything(selector) => {
            let message = "is empty: selects every ExternalWorkload of the namespace";
            remarks.push(remark("spec.externalWorkloadSelector", message));
        }
        WorkloadSelector::Pods(_) | WorkloadSelector::ExternalWorkloads(_) => {}
    }
    if let PortRef::Name(name) = &server.port
        && name.bytes().all(|b| b.is_ascii_digit())
    {
        let message = format!(
            "{} in quotes is the name of a port, which no container can have: nothing is selected; \
             leave the quotes out for the number",
            quote(name)
        );
        remarks.push(remark("spec.port", message));
    }
    remarks
}

fn of_server_authorization(authorization: &ServerAuthorization) -> Vec<FieldError> {
    if authorization.networks.is_some() {
        return Vec::new();
    }
    let message = "absent or empty: only clients in the cluster's networks are admitted; \
                   `0.0.0.0/0` and `::/0` stand for every network";
    vec![remark("spec.client.networks", message)]
}

fn of_authorization_policy(policy: &AuthorizationPolicy) -> Vec<FieldError> {
    if policy.identity.is_some() || policy.network.is_some() {
        return Vec::new();
    }
    let message = "is empty: asks for nothing, every client is admitted";
    vec![remark("spec.requiredAuthenticationRefs", message)]
}

fn of_rate_limit(limit: &RateLimitPolicy) -> Vec<FieldError> {
    if limit.total.is_some() || limit.identity.is_some() || !limit.overrides.is_empty() {
        return Vec::new();
    }
    vec![remark("spec", "none of `total`, `identity` and `overrides` is set: limits nothing")]
}

fn of_route(route: &RouteResource) -> Vec<FieldError> {
    let mut remarks = Vec::new();
    if route.parents.is_empty() {
        remarks.push(remark("spec.parentRefs", "names no parent: the route has no effect"));
    }
    for (i, rule) in route.rules.iter().enumerate() {
        for (j, request) in rule.matches.iter().enumerate() {
            let field = || format!("spec.rules[{i}].matches[{j}].path.value");
            if has_star(&request.path) {
                let message = "`*` is an ordinary character here, not a wildcard";
                remarks.push(remark(&field(), message));
            }
            if let Some((written, form)) = never_written(&request.path) {
                let message = format!(
                    "has `{written}`, which the paths that expressions are matched on write as `{form}`"
                );
                remarks.push(remark(&field(), message));
            }
            if let Some((written, encoded)) = never_plain(&request.path) {
                let message = format!(
                    "has `{written}`, which is always percent-encoded in the paths that expressions \
                     are matched on; write `{encoded}`"
                );
                remarks.push(remark(&field(), message));
            }
        }
    }
    remarks
}

/// A percent-encoding in a regular expression that no match form of a path has, and what stands in its
/// place (see [`policy_core::match_form`]).
fn never_written(path: &PathPattern) -> Option<(&str, String)> {
    let PathPattern::Regex(pattern) = path else { return None };
    let source = pattern.source();
    source.match_indices('%').find_map(|(at, _)| {
        let written = source.get(at..at.saturating_add(3))?;
        let is_encoding = written.bytes().skip(1).all(|digit| digit.is_ascii_hexdigit());
        let form = match_form(written);
        (is_encoding && form != written).then(|| (written, form.into_owned()))
    })
}

/// A character, written as itself in a regular expression, that no match form of a path has (see
/// [`policy_core::match_form`]).
fn never_plain(path: &PathPattern) -> Option<(&'static str, &'static str)> {
    let PathPattern::Regex(pattern) = path else { return None };
    let source = pattern.source();
    NEVER_PLAIN.into_iter().find(|(written, _)| source.contains(written))
}

/// Characters that are no syntax as they stand here, and their encoding.
const NEVER_PLAIN: [(&str, &str); 9] = [
    (" ", "%20"),
    ("\"", "%22"),
    ("`", "%60"),
    ("\\[", "%5B"),
    ("\\]", "%5D"),
    ("\\^", "%5E"),
    ("\\{", "%7B"),
    ("\\|", "%7C"),
    ("\\}", "%7D"),
];

fn has_star(path: &PathPattern) -> bool {
    match path {
        PathPattern::Segments { segments, .. } => segments.iter().any(|segment| match segment {
            Segment::Literal(text) => text.contains('*'),
            Segment::Parameter(_) => false,
        }),
        PathPattern::Regex(_) => false,
    }
}
