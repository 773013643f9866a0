//! Matches of a GRPCRoute.

use crate::parse::name::is_protobuf_name;
use crate::parse::values::readable_headers;
use crate::reader::{AllowedFields, Fields, JsonNode, quote};
use policy_core::RequestMatch;

/// The match.
///
/// # Errors
/// The conditions that can be read, if some cannot.
pub(super) fn request_match(node: &JsonNode<'_>) -> Result<RequestMatch, RequestMatch> {
    let (request, whole) = node.examined(|node| {
        let known = AllowedFields::Only(&["method", "headers"]);
        let Some(fields) = node.fields(known) else { return RequestMatch::grpc(None, None) };
        let (service, method) = call(&fields).unwrap_or((None, None));
        let (headers, _) = readable_headers(&fields);
        RequestMatch::grpc(service, method).with_headers(headers)
    });
    if whole { Ok(request) } else { Err(request) }
}

type Call<'a> = (Option<&'a str>, Option<&'a str>);

/// Service and method, as far as they can be read; absent means any. `None` if their type cannot.
fn call<'a>(fields: &Fields<'a>) -> Option<Call<'a>> {
    let Some(node) = fields.get("method") else { return Some((None, None)) };
    const KNOWN: &[&str] = &["type", "service", "method"];
    let fields = node.fields(AllowedFields::Only(KNOWN))?;
    if fields.has_unknown(KNOWN) {
        return None;
    }
    let exact = match fields.get("type") {
        Some(node) => {
            let regex = node.choice(&[("Exact", false), ("RegularExpression", true)])?;
            if regex {
                node.error("`RegularExpression` is not supported for gRPC calls, only `Exact` is");
            }
            !regex
        }
        None => true,
    };
    let part = |name: &str, dotted: bool| {
        let node = fields.get(name)?;
        let text = node.text()?;
        if !text.is_empty() && !is_protobuf_name(text, dotted) {
            node.error(format!("{} is not the name of a gRPC {name}", quote(text)));
            return None;
        }
        (!text.is_empty()).then_some(text)
    };
    let named = |name: &str| fields.get(name).is_some_and(|node| node.value() != "");
    let (service, method) = (part("service", true), part("method", false));
    if !named("service") && !named("method") {
        fields.error("at least one of `service` and `method` is required");
        return None;
    }
    exact.then_some((service, method))
}
