//! Matches of a GRPCRoute.

use crate::parse::name::is_protobuf_name;
use crate::parse::values::headers;
use crate::reader::{AllowedFields, Fields, JsonNode, quote};
use policy_core::RequestMatch;

pub(super) fn request_match(node: &JsonNode<'_>) -> Option<RequestMatch> {
    let fields = node.fields(AllowedFields::Only(&["method", "headers"]))?;
    let call = call(&fields);
    let headers = headers(&fields);
    let (service, method) = call?;
    Some(RequestMatch::grpc(service, method).with_headers(headers?))
}

type Call<'a> = (Option<&'a str>, Option<&'a str>);

/// Service and method; absent means any.
fn call<'a>(fields: &Fields<'a>) -> Option<Call<'a>> {
    let Some(node) = fields.get("method") else { return Some((None, None)) };
    let fields = node.fields(AllowedFields::Only(&["type", "service", "method"]))?;
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
    let part = |name: &str, dotted: bool| match fields.get(name) {
        None => Some(None),
        Some(node) => {
            let text = node.text()?;
            if !text.is_empty() && !is_protobuf_name(text, dotted) {
                node.error(format!("{} is not the name of a gRPC {name}", quote(text)));
                return None;
            }
            Some((!text.is_empty()).then_some(text))
        }
    };
    let (service, method) = (part("service", true), part("method", false));
    let (service, method) = (service?, method?);
    if service.is_none() && method.is_none() {
        fields.error("at least one of `service` and `method` is required");
        return None;
    }
    exact.then_some((service, method))
}
