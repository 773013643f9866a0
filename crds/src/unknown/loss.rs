//! The effect on an object that is stored without a field that its author misspelt, where policy depends
//! on the field.

use crate::kind::Kind;

/// The effect of the lack of the field `known` of the mapping at `path`, which states `stated` fields.
pub(super) fn of(
    kind: Option<Kind>,
    path: &str,
    stated: usize,
    known: &str,
) -> Option<&'static str> {
    let place = without_indices(path);
    if place == "metadata" {
        return of_metadata(known);
    }
    let Some(kind) = kind else { return of_pods(&place, known) };
    if kind.is_route() {
        of_route(&place, known, kind)
    } else if kind == Kind::ReferenceGrant {
        of_grant(&place, known)
    } else if kind.spec().is_defined_here() {
        of_policy(kind, stated, &place, known)
    } else if kind == Kind::Service {
        of_service(&place, known)
    } else {
        of_pods(&place, known)
    }
}

/// A path without the numbers of elements: `spec.rules[].matches[]`.
fn without_indices(path: &str) -> String {
    path.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn of_metadata(known: &str) -> Option<&'static str> {
    match known {
        "namespace" => Some("it goes to the namespace that is current when it is applied"),
        "labels" => Some("no selector finds it by these labels"),
        "annotations" => Some("these annotations say nothing"),
        _ => None,
    }
}

fn of_route(place: &str, known: &str, kind: Kind) -> Option<&'static str> {
    Some(match (place, known) {
        ("spec", "rules") if kind == Kind::GrpcRoute => "the route then matches no request",
        ("spec", "rules") => "the route then matches every request",
        ("spec", "hostnames") => "the route is then for every host",
        ("spec", "parentRefs") => "the route is then attached to nothing",
        ("spec.rules[]", "matches") => "the rule then matches every request",
        ("spec.rules[]", "filters") => "requests then pass without these filters",
        ("spec.rules[]", "timeouts") => "requests then have no limit of time",
        ("spec.rules[].matches[]", "path") => "the match is then for every path",
        ("spec.rules[].matches[]", "method") => "the match is then for every method",
        ("spec.rules[].matches[]", "headers") => "the match then asks for no header",
        ("spec.rules[].matches[]", "queryParams") => "the match then asks for no parameter",
        ("spec.rules[].matches[].path", "value") => "the match is then for every path",
        ("spec.rules[].matches[].path", "type") => "the path is then a prefix",
        ("spec.rules[].matches[].method", "service") => "the match is then for every service",
        ("spec.rules[].matches[].method", "method") => "the match is then for every method",
        ("spec.parentRefs[]", "namespace") => "the parent is then one of the route's namespace",
        ("spec.parentRefs[]", "group" | "kind") => "the parent is then another object",
        _ => return None,
    })
}

fn of_grant(place: &str, known: &str) -> Option<&'static str> {
    let all = "the grant then offers every object of the kind";
    (place == "spec.to[]" && known == "name").then_some(all)
}

fn of_service(place: &str, known: &str) -> Option<&'static str> {
    let none = "the Service then selects no pods";
    (place == "spec" && known == "selector").then_some(none)
}

/// Of pods and of the templates that they are made from.
fn of_pods(place: &str, known: &str) -> Option<&'static str> {
    Some(match (place, known) {
        (place, "labels") if place.ends_with("template.metadata") => {
            "no selector then finds the pods by these labels"
        }
        (place, "annotations") if place.ends_with("template.metadata") => {
            "these annotations then say nothing"
        }
        (place, "serviceAccountName") if place.ends_with("spec") => {
            "the pods then run as the ServiceAccount `default`"
        }
        (place, "hostNetwork") if place.ends_with("spec") => {
            "the pods then have addresses of their own"
        }
        (place, "ports") if place.ends_with("ontainers[]") => {
            "the container then declares no ports"
        }
        (place, "name" | "protocol") if place.ends_with("ontainers[].ports[]") => {
            "no Server or Service then finds the port by it"
        }
        _ => return None,
    })
}

/// Of kinds of policy, whose schemas are this project's.
fn of_policy(kind: Kind, stated: usize, place: &str, known: &str) -> Option<&'static str> {
    Some(match known {
        "matchLabels" | "matchExpressions" if stated <= 1 => {
            "the selector is then empty and selects everything"
        }
        "matchLabels" | "matchExpressions" => "the selector then selects more",
        "except" if place.ends_with(']') => "the whole network then counts",
        "networks" if place == "spec.client" => "the networks of the cluster then count",
        "accessPolicy" if kind == Kind::Server => "the default policy then decides",
        "methods" if place == "spec.routes[]" => "the route then matches every method",
        "headers" if kind == Kind::HttpRouteGroup => "the match then asks for no header",
        "queryParams" if kind == Kind::HttpRouteGroup => "the match then asks for no parameter",
        "accessList" => "clients of every network may then connect",
        "tls" => "connections then need no mesh TLS",
        "namespace" => "it is then of the object's own namespace",
        _ => return None,
    })
}
