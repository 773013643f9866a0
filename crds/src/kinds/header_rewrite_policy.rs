//! HeaderRewritePolicy (docs/spec/requests.md): changes of the headers of requests.

mod condition;
mod definition;
mod fields;

use super::target;
use crate::object::{Body, Claims, FieldError, Invalid, Object};
use crate::parse::header::{frames, header_value, named_header};
use crate::parse::input::{Draft, Input};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of};
use crate::resource::{HeaderRewritePolicy, HeaderRewriteRule, PolicyTarget, Resource};
use crate::spec::ObjectReference;
use fields::{CHANGES, MAX_HEADERS, MAX_RULES, RULE, SPEC};
use http::{HeaderName, HeaderValue};
use serde_json::Value;

pub(super) use definition::definition;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let required = may_be_required(input.root.get("spec").map(|spec| spec.value()));
    let Some(spec) = input.spec(AllowedFields::Only(SPEC)) else {
        return (None, Claims::HeaderRewrite { target: None, required });
    };
    let target = spec.require("targetRef").and_then(|node| target::policy_target(&node));
    let claims = Claims::HeaderRewrite { target: target.clone(), required };
    (policy(&spec, target), claims)
}

fn policy(spec: &Fields<'_>, target: Option<PolicyTarget>) -> Option<Resource> {
    let rules = spec.require("rules").and_then(|node| rules(&node));
    let required = match spec.get("failure") {
        Some(node) => node.choice(&[("Ignore", false), ("Deny", true)]),
        None => Some(false),
    };
    Some(Resource::HeaderRewritePolicy(HeaderRewritePolicy {
        target: target?,
        rules: rules?,
        required: required?,
    }))
}

/// True if a spec says, or may say, that requests must not be forwarded without its changes. A field
/// whose name is not known may be a misspelt `failure`.
fn may_be_required(spec: Option<&Value>) -> bool {
    let Some(Value::Object(spec)) = spec else { return spec.is_some() };
    let ignores = match spec.get("failure") {
        Some(Value::String(text)) => text == "Ignore",
        Some(value) => value.is_null(),
        None => true,
    };
    !ignores || spec.keys().any(|name| !SPEC.contains(&name.as_str()))
}

/// The claims of a valid policy, or without one, of an object that cannot be read.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::HeaderRewritePolicy(policy)) = resource else {
        return Claims::HeaderRewrite { target: None, required: true };
    };
    Claims::HeaderRewrite { target: Some(policy.target.clone()), required: policy.required }
}

/// Its target, valid or not.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let target = match &object.body {
        Body::Valid(Resource::HeaderRewritePolicy(policy)) => Some(&policy.target),
        Body::Invalid(Invalid { claims: Claims::HeaderRewrite { target, .. }, .. }) => {
            target.as_ref()
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    };
    target.into_iter().map(|target| target::reference(target.key(&object.meta.key))).collect()
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::HeaderRewritePolicy(policy) = resource else { return None };
    Some(target::idle("changes nothing", &policy.target, namespace))
}

fn rules(node: &JsonNode<'_>) -> Option<Vec<HeaderRewriteRule>> {
    let list = node.list_up_to(MAX_RULES)?;
    if list.is_empty() {
        node.error("must not be empty: a policy without rules changes nothing");
        return None;
    }
    let read: Vec<Option<HeaderRewriteRule>> = list.iter().map(rule).collect();
    read.into_iter().collect()
}

fn rule(node: &JsonNode<'_>) -> Option<HeaderRewriteRule> {
    node.clean(|node| {
        let fields = node.fields(AllowedFields::Only(RULE))?;
        let when = condition::conditions(&fields);
        let clear = names(&fields);
        let (set, add) = (values(&fields, "set"), values(&fields, "add"));
        let rule = HeaderRewriteRule { when: when?, clear: clear?, set: set?, add: add? };
        if rule.clear.is_empty() && rule.set.is_empty() && rule.add.is_empty() {
            fields.error(format!("changes nothing: {} is required", one_of(CHANGES)));
        }
        Some(rule)
    })
}

/// `clear`.
fn names(fields: &Fields<'_>) -> Option<Vec<HeaderName>> {
    let Some(node) = fields.get("clear") else { return Some(Vec::new()) };
    node.clean(|node| {
        let mut names: Vec<HeaderName> = Vec::new();
        for node in node.list_up_to(MAX_HEADERS)? {
            let Some(name) = node.text().and_then(|text| changeable(&node, text)) else { continue };
            if names.contains(&name) {
                node.error(format!("`{name}` appears twice"));
            }
            names.push(name);
        }
        Some(names)
    })
}

/// `set` or `add`: values by name.
fn values(fields: &Fields<'_>, field: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let Some(node) = fields.get(field) else { return Some(Vec::new()) };
    node.clean(|node| {
        let headers = node.fields(AllowedFields::Any)?;
        let count = headers.entries().count();
        if count > MAX_HEADERS {
            node.error(format!("{count} headers, at most {MAX_HEADERS} are allowed"));
            return None;
        }
        let mut values: Vec<(HeaderName, HeaderValue)> = Vec::new();
        for (name, node) in headers.entries() {
            let (name, value) = (changeable(&node, name), header_value(&node));
            let (Some(name), Some(value)) = (name, value) else { continue };
            if values.iter().any(|(other, _)| *other == name) {
                let rule = "upper and lower case are the same header";
                node.error(format!("`{name}` appears twice: {rule}"));
            }
            values.push((name, value));
        }
        Some(values)
    })
}

/// A header that a policy may change.
fn changeable(node: &JsonNode<'_>, text: &str) -> Option<HeaderName> {
    if let Some(fault) = condition::reserved(text) {
        node.error(fault);
        return None;
    }
    let name = named_header(node, text)?;
    if frames(&name) {
        node.error(format!("`{name}` belongs to the connection and cannot be changed"));
        return None;
    }
    if name == http::header::FORWARDED {
        node.error("`forwarded` says who the client is and cannot be changed");
        return None;
    }
    Some(name)
}
