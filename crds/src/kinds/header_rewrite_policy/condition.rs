//! `match`: the conditions of a rule on the headers of a request as it was received.

use crate::parse::header::{as_read, header_name, header_value};
use crate::parse::label::{OperatorName, operator};
use crate::reader::{AllowedFields, Fields, JsonNode, every, quote, shared};
use crate::selector::Operator;
use http::HeaderName;
use http::header::HOST;
use policy_core::host::canonical_host;
use policy_core::{HeaderCondition, HeaderOperator};
use std::sync::Arc;

/// The most conditions of a rule, and values of a condition.
pub(super) const MAX_CONDITIONS: usize = 16;
pub(super) const MAX_VALUES: usize = 64;

/// `match`; absent and empty: every request.
pub(super) fn conditions(rule: &Fields<'_>) -> Option<Vec<HeaderCondition>> {
    let Some(node) = rule.get("match") else { return Some(Vec::new()) };
    let list = node.list_up_to(MAX_CONDITIONS)?;
    every(&list, condition)
}

fn condition(node: &JsonNode<'_>) -> Option<HeaderCondition> {
    let fields = node.fields(AllowedFields::Only(&["header"]))?;
    let fields = fields.require("header")?.fields(AllowedFields::Only(&["key", "op", "values"]))?;
    let name = fields.require("key").and_then(|node| name(&node));
    let named = fields.require("op").and_then(|node| OperatorName::read(&node));
    let name = name?;
    let values = match fields.get("values") {
        Some(node) => {
            let list = node.list_up_to(MAX_VALUES)?;
            every(&list, |node| value(&name, node))
        }
        None => Some(Vec::new()),
    };
    let operator = match operator(&fields, named?, values?)? {
        Operator::In(values) => HeaderOperator::In(values),
        Operator::NotIn(values) => HeaderOperator::NotIn(values),
        Operator::Exists => HeaderOperator::Exists,
        Operator::DoesNotExist => HeaderOperator::DoesNotExist,
    };
    Some(HeaderCondition { name: name.as_str().into(), operator })
}

/// The reason why no policy can look at or change a header of this name.
pub(super) fn reserved(text: &str) -> Option<String> {
    let read = as_read(text);
    if read.starts_with("l5d-") {
        return Some(format!("{} is the mesh's own: it is removed from requests", quote(text)));
    }
    if read == ":authority" {
        return Some(format!("{} is a pseudo-header: match `host` instead", quote(text)));
    }
    text.starts_with(':').then(|| format!("{} is a pseudo-header, not a header", quote(text)))
}

fn name(node: &JsonNode<'_>) -> Option<HeaderName> {
    if let Some(fault) = reserved(node.text()?) {
        node.error(fault);
        return None;
    }
    header_name(node)
}

/// A value in the form in which it is compared: that of `host` is a host without a port.
fn value(name: &HeaderName, node: &JsonNode<'_>) -> Option<Arc<str>> {
    header_value(node)?;
    let text = node.text()?;
    if *name != HOST {
        return Some(shared(text));
    }
    match canonical_host(text) {
        Ok(host) if host.port.is_none() => Some(shared(&host.name)),
        Ok(_) => {
            node.error(format!("{} has a port, hosts are matched without it", quote(text)));
            None
        }
        Err(_) => {
            node.error(format!("{} is not a host name", quote(text)));
            None
        }
    }
}
