//! RouteAdmissionPolicy (docs/spec/delegation.md, *Claims*): the object `default` alone counts.

use crate::kind::Kind;
use crate::object::{Claims, FieldError};
use crate::parse::input::{Draft, Input};
use crate::parse::name::is_dns_label;
use crate::reader::{AllowedFields, Fields, JsonNode, quote, shared};
use crate::render::conditions::conditions;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{LABEL, at_most, list_of, matching, object, set, text};
use crate::resource::{NamespaceOwnership, Resource, RouteAdmission, UnknownValue};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of the object that counts.
const NAME: &str = "default";
/// The most namespaces of roots.
const MAX_NAMESPACES: usize = 256;

const OWNERSHIP: [(&str, NamespaceOwnership); 2] = [
    ("Strict", NamespaceOwnership::Strict),
    ("InterNamespaceAllowed", NamespaceOwnership::InterNamespaceAllowed),
];
const WILDCARDS: [(&str, bool); 2] = [("WildcardsDisallowed", false), ("WildcardsAllowed", true)];

pub(super) fn read(input: &Input<'_>) -> Draft {
    (rules(input), Claims::RouteAdmission(recorded(input)))
}

/// The rules of an object whose file can no longer be read: those that it stated.
pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    Claims::RouteAdmission(match resource {
        Some(Resource::RouteAdmission(rules)) => rules.clone(),
        Some(_) | None => RouteAdmission { recorded_only: true, ..RouteAdmission::default() },
    })
}

/// The rules that the status records. An object that becomes invalid keeps them, because the strict ones
/// would hand the paths of some namespaces to others, and every namespace would have roots.
fn recorded(input: &Input<'_>) -> RouteAdmission {
    let status = input.root.get("status").and_then(|status| status.value().get("routeAdmission"));
    let is = |field: &str, lax: &str| {
        status.and_then(|rules| rules.get(field)).and_then(Value::as_str) == Some(lax)
    };
    let [(_, strict), (lax, shared)] = OWNERSHIP;
    let [_, (allowed, _)] = WILDCARDS;
    RouteAdmission {
        ownership: if is("namespaceOwnership", lax) { shared } else { strict },
        wildcards: is("wildcardPolicy", allowed),
        root_namespaces: Vec::new(),
        recorded_only: true,
        unknown: Vec::new(),
    }
}

fn rules(input: &Input<'_>) -> Option<Resource> {
    let name = &input.meta.key.name;
    if **name != *NAME {
        let rule = format!("the one that counts is named `{NAME}`");
        input.root.errors().add("metadata.name", format!("{} has no effect: {rule}", quote(name)));
    }
    let known = &["namespaceOwnership", "wildcardPolicy", "rootNamespaces"];
    let spec = input.spec(AllowedFields::Only(known))?;
    let mut unknown = Vec::new();
    let ownership = (&spec, "namespaceOwnership", "spec.namespaceOwnership");
    let ownership = value(ownership, OWNERSHIP, &mut unknown);
    let wildcards = (&spec, "wildcardPolicy", "spec.wildcardPolicy");
    let wildcards = value(wildcards, WILDCARDS, &mut unknown);
    let root_namespaces = match spec.get("rootNamespaces") {
        Some(node) => namespaces(&node),
        None => Some(Vec::new()),
    };
    Some(Resource::RouteAdmission(RouteAdmission {
        ownership: ownership?,
        wildcards: wildcards?,
        root_namespaces: root_namespaces?,
        recorded_only: false,
        unknown,
    }))
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::RouteAdmission(admission) = resource else { return Vec::new() };
    let unknown = admission.unknown.iter().map(|UnknownValue { field, value, instead }| {
        let value = quote(value);
        FieldError::new(*field, format!("unknown value {value}, `{instead}` is in effect"))
    });
    unknown.collect()
}

/// One of two values, the stricter one first. It counts where the field is absent or its value is
/// not known.
fn value<T: Copy>(
    (spec, name, field): (&Fields<'_>, &str, &'static str),
    [(strict, of_strict), (lax, of_lax)]: [(&'static str, T); 2],
    unknown: &mut Vec<UnknownValue>,
) -> Option<T> {
    let Some(node) = spec.get(name) else { return Some(of_strict) };
    let text = node.text()?;
    if text == lax {
        return Some(of_lax);
    }
    if !text.is_empty() && text != strict {
        unknown.push(UnknownValue { field, value: shared(text), instead: strict });
    }
    Some(of_strict)
}

fn namespaces(node: &JsonNode<'_>) -> Option<Vec<Arc<str>>> {
    node.clean(|node| {
        let mut names = Vec::new();
        for node in node.list_up_to(MAX_NAMESPACES)? {
            let Some(text) = node.text_up_to(63) else { continue };
            if !is_dns_label(text) {
                node.error(format!("{} is not a namespace", quote(text)));
            }
            names.push(shared(text));
        }
        Some(names)
    })
}

pub(super) fn definition(_: Profile) -> Definition {
    let mut namespace = matching("A namespace.", LABEL);
    set(&mut namespace, "minLength", json!(1));
    set(&mut namespace, "maxLength", json!(63));
    let about = "Namespaces whose roots count; empty: every one.";
    let namespaces = list_of(about, namespace, None, at_most(MAX_NAMESPACES));
    let mut fields = values().to_vec();
    fields.push(("rootNamespaces", namespaces));
    let in_effect = object("The rules in effect.", &values(), &[]);
    Definition {
        kind: Kind::RouteAdmissionPolicy,
        short_names: Kind::RouteAdmissionPolicy.spec().names.short,
        categories: &[],
        versions: vec![Version {
            name: "v1alpha1",
            storage: true,
            deprecated: None,
            columns: &[
                ("Ownership", "string", ".status.routeAdmission.namespaceOwnership"),
                ("Wildcards", "string", ".status.routeAdmission.wildcardPolicy"),
            ],
            spec: object("Rules of who holds a host.", &fields, &[]),
            status: Status::Always(object(
                "Status of this object.",
                &[("conditions", conditions(true)), ("routeAdmission", in_effect)],
                &[],
            )),
        }],
    }
}

/// The schema has no lists of values: an unknown one means the stricter one, and is reported.
fn values() -> [(&'static str, Value); 2] {
    let ownership = "`Strict`: the first namespace with a claim holds the host. \
                     `InterNamespaceAllowed`: the first claim on a path holds it.";
    let wildcards = "`WildcardsAllowed`: hosts such as `*.example.com` may be claimed; else \
                     `WildcardsDisallowed`.";
    [("namespaceOwnership", text(ownership)), ("wildcardPolicy", text(wildcards))]
}
