//! The fields of the Gateway API's kinds, of its versions 1.0 to 1.5 and of both of its channels. Values
//! are not described: an empty schema admits every one.

use crate::kind::Kind;
use serde_json::{Map, Value, json};

/// Fields of a route that nothing here acts on.
pub(crate) const UNUSED_IN_SPEC: [&str; 1] = ["useDefaultGateways"];

/// Fields of a rule that nothing here acts on.
pub(crate) const UNUSED_IN_RULES: [&str; 2] = ["retry", "sessionPersistence"];

const CONDITION: &[&str] =
    &["type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"];
const REFERENCE: &[&str] = &["group", "kind", "namespace", "name", "port"];
const PARENT: &[&str] = &["group", "kind", "namespace", "name", "sectionName", "port"];

/// The fields of a kind; `None` if it is not of the Gateway API.
pub(super) fn schema(kind: Kind) -> Option<Value> {
    let status = Some(route_status());
    let (spec, status) = if kind == Kind::GatewayHttpRoute {
        (route(http_rule()), status)
    } else if kind == Kind::GrpcRoute {
        (route(grpc_rule()), status)
    } else if kind == Kind::ReferenceGrant {
        (grant(), None)
    } else {
        return None;
    };
    let mut inside = vec![("spec", spec)];
    inside.extend(status.map(|status| ("status", status)));
    Some(object(&["apiVersion", "kind", "metadata"], inside))
}

/// A mapping of plain fields, and of those with fields inside.
fn object(plain: &[&str], inside: Vec<(&str, Value)>) -> Value {
    let plain = plain.iter().map(|name| ((*name).to_owned(), json!({})));
    let inside = inside.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    let properties: Map<String, Value> = plain.chain(inside).collect();
    json!({ "properties": properties })
}

fn plain(names: &[&str]) -> Value {
    object(names, Vec::new())
}

fn list(items: Value) -> Value {
    json!({ "items": items })
}

fn grant() -> Value {
    let from = list(plain(&["group", "kind", "namespace"]));
    let to = list(plain(&["group", "kind", "name"]));
    object(&[], vec![("from", from), ("to", to)])
}

fn route(rule: Value) -> Value {
    let inside = vec![("parentRefs", list(plain(PARENT))), ("rules", list(rule))];
    object(&["hostnames", "useDefaultGateways"], inside)
}

fn route_status() -> Value {
    let conditions = list(plain(CONDITION));
    let inside = vec![("parentRef", plain(PARENT)), ("conditions", conditions)];
    object(&[], vec![("parents", list(object(&["controllerName"], inside)))])
}

fn http_rule() -> Value {
    let pairs = || list(plain(&["type", "name", "value"]));
    let path = plain(&["type", "value"]);
    let request_match = vec![("path", path), ("headers", pairs()), ("queryParams", pairs())];
    let inside = vec![
        ("matches", list(object(&["method"], request_match))),
        ("filters", list(http_filter())),
        ("backendRefs", list(backend(http_filter()))),
        ("timeouts", plain(&["request", "backendRequest"])),
        ("retry", plain(&["codes", "attempts", "backoff"])),
        ("sessionPersistence", session()),
    ];
    object(&["name"], inside)
}

fn grpc_rule() -> Value {
    let headers = list(plain(&["type", "name", "value"]));
    let method = plain(&["type", "service", "method"]);
    let request_match = object(&[], vec![("method", method), ("headers", headers)]);
    let inside = vec![
        ("matches", list(request_match)),
        ("filters", list(grpc_filter())),
        ("backendRefs", list(backend(grpc_filter()))),
        ("sessionPersistence", session()),
    ];
    object(&["name"], inside)
}

fn backend(filter: Value) -> Value {
    let names = ["group", "kind", "namespace", "name", "port", "weight"];
    object(&names, vec![("filters", list(filter))])
}

/// Its fields of earlier versions among them.
fn session() -> Value {
    let inside = vec![
        ("cookie", plain(&["name", "lifetimeType"])),
        ("cookieConfig", plain(&["name", "lifetimeType"])),
        ("header", plain(&["name"])),
    ];
    object(&["sessionName", "absoluteTimeout", "idleTimeout", "type"], inside)
}

fn grpc_filter() -> Value {
    object(&["type"], common_filters())
}

fn http_filter() -> Value {
    let path = || plain(&["type", "replaceFullPath", "replacePrefixMatch"]);
    let redirect = ["scheme", "hostname", "port", "statusCode"];
    let cors = [
        "allowOrigins",
        "allowCredentials",
        "allowMethods",
        "allowHeaders",
        "exposeHeaders",
        "maxAge",
    ];
    let mut inside = common_filters();
    inside.extend([
        ("requestRedirect", object(&redirect, vec![("path", path())])),
        ("urlRewrite", object(&["hostname"], vec![("path", path())])),
        ("cors", plain(&cors)),
        ("externalAuth", external_auth()),
        ("directResponse", object(&["statusCode", "body"], Vec::new())),
    ]);
    object(&["type"], inside)
}

fn common_filters() -> Vec<(&'static str, Value)> {
    let pairs = || list(plain(&["name", "value"]));
    let headers = || object(&["remove"], vec![("set", pairs()), ("add", pairs())]);
    let fraction = plain(&["numerator", "denominator"]);
    let mirror = vec![("backendRef", plain(REFERENCE)), ("fraction", fraction)];
    vec![
        ("requestHeaderModifier", headers()),
        ("responseHeaderModifier", headers()),
        ("requestMirror", object(&["percent"], mirror)),
        ("extensionRef", plain(&["group", "kind", "name"])),
    ]
}

fn external_auth() -> Value {
    let inside = vec![
        ("backendRef", plain(REFERENCE)),
        ("grpc", plain(&["allowedHeaders"])),
        ("http", plain(&["path", "allowedHeaders", "allowedResponseHeaders"])),
        ("forwardBody", plain(&["maxSize"])),
    ];
    object(&["protocol"], inside)
}
