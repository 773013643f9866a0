//! InboundRoute (docs/spec/delegation.md).

mod allowed;
mod claims;
mod definition;
mod delegate;
mod fields;
mod virtual_host;

use super::consent;
use crate::kind::Kind;
use crate::object::{Body, Claims, FieldError, Invalid, Object};
use crate::parse::input::{Draft, Input};
use crate::parse::name::object_name;
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote};
use crate::resource::{
    AllowedFilter, Consent, Delegate, InboundAction, InboundRoute, InboundRule, PathPrefix,
    Resource, VirtualHost,
};
use crate::spec::{Field, ObjectReference, ReferenceTarget};
use fields::{ACTIONS, MAX_RULES, MAX_SERVERS, RULE, SPEC};
use std::sync::Arc;

pub(super) use claims::claims;
pub(super) use definition::definition;

pub(super) fn read(input: &Input<'_>) -> Draft {
    let claims = claims::of(input.root.get("spec").map(|spec| spec.value()));
    let route = input.spec(AllowedFields::Only(SPEC)).and_then(|spec| {
        let own = spec.get("virtualhost");
        let is_root = own.is_some();
        let virtual_host = match &own {
            Some(node) => virtual_host::read(node).map(Some),
            None => Some(None),
        };
        let delegated_from = consents(&spec, is_root);
        let routes = rules(&spec, &input.meta.key.namespace, is_root);
        let route = InboundRoute {
            virtual_host: virtual_host?,
            delegated_from: delegated_from?,
            routes: routes?,
        };
        check_target(&spec, &route)?;
        Some(Resource::InboundRoute(route))
    });
    (route, claims)
}

/// The objects that it delegates to, and the Servers that it names, as far as they can be read.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let key = &object.meta.key;
    let serving = |name| ObjectReference {
        field: Field::Serving,
        what: ReferenceTarget::One(key.beside(Kind::Server, name)),
    };
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => {
            let target = route.virtual_host.iter().filter_map(|own| own.target.as_ref());
            let mut named: Vec<ObjectReference> = target.map(serving).collect();
            for rule in &route.routes {
                match &rule.action {
                    InboundAction::Servers(servers) => named.extend(servers.iter().map(serving)),
                    InboundAction::Serve => {}
                    InboundAction::Delegate(delegate) => {
                        let what = match delegate {
                            Delegate::One(child) => ReferenceTarget::One(child.clone()),
                            Delegate::Selected { namespace, labels: _ } => {
                                ReferenceTarget::AnyOf(Kind::InboundRoute, namespace.clone())
                            }
                        };
                        named.push(ObjectReference { field: Field::Delegate, what });
                    }
                }
            }
            named
        }
        Body::Invalid(Invalid { claims: Claims::InboundRoute { servers, unread, .. }, .. }) => {
            let any = unread.then(|| ObjectReference {
                field: Field::Serving,
                what: ReferenceTarget::AnyOf(Kind::Server, key.namespace.clone()),
            });
            servers.iter().map(serving).chain(any).collect()
        }
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::InboundRoute(route) = resource else { return Vec::new() };
    let list = route.virtual_host.as_ref().and_then(|own| own.access_list.as_ref());
    let closed = list
        .filter(|networks| networks.is_empty())
        .map(|_| FieldError::new("spec.virtualhost.accessList", "is empty: no client is admitted"));
    let starred =
        route.routes.iter().enumerate().filter(|(_, rule)| rule.path.as_str().contains('*'));
    let starred = starred.map(|(i, _)| {
        let message = "`*` is an ordinary character here, not a wildcard: a match holds for everything \
                       below it";
        FieldError::new(format!("spec.routes[{i}].match"), message)
    });
    closed.into_iter().chain(starred).collect()
}

pub(super) fn idle(resource: &Resource, _: &str) -> Option<FieldError> {
    let Resource::InboundRoute(_) = resource else { return None };
    let message = "answers nothing: no tree that reaches it is answered by a Server that owns a port of \
                   any workload";
    Some(FieldError::new("spec.routes", message))
}

/// `serve` in a root is answered by the root's own Server.
fn check_target(spec: &Fields<'_>, route: &InboundRoute) -> Option<()> {
    let Some(VirtualHost { target: None, .. }) = route.virtual_host else { return Some(()) };
    if !route.routes.iter().any(|rule| rule.action == InboundAction::Serve) {
        return Some(());
    }
    let own = spec.get("virtualhost")?.fields(AllowedFields::Any)?;
    own.error_at("targetRef", "is required where a route of the same object has `serve`");
    None
}

/// `delegatedFrom`: a vertex has one, a root has none.
fn consents(spec: &Fields<'_>, is_root: bool) -> Option<Vec<Consent>> {
    let node = spec.get("delegatedFrom");
    let Some(node) = node else {
        if is_root {
            return Some(Vec::new());
        }
        let rule = "is required where `virtualhost` is absent";
        spec.error_at("delegatedFrom", format!("{rule}: it names the hosts to be delegated"));
        return None;
    };
    if is_root {
        let rule = "must be absent where `virtualhost` is present";
        node.error(format!("{rule}: nothing is delegated to a root"));
        return None;
    }
    consent::list(&node)
}

fn rules(spec: &Fields<'_>, namespace: &Arc<str>, is_root: bool) -> Option<Vec<InboundRule>> {
    let node = spec.require("routes")?;
    let list = node.list_up_to(MAX_RULES)?;
    if list.is_empty() {
        node.error("must not be empty: an object without routes answers nothing");
        return None;
    }
    node.clean(|_| {
        let mut rules: Vec<InboundRule> = Vec::new();
        for item in &list {
            let Some(rule) = rule(item, namespace) else { continue };
            if !is_root && !rule.allowed_filters.is_empty() {
                let words = "`delegate.allowFilters` is for the owner of a host: it must be absent where \
                             `virtualhost` is absent";
                item.error(words);
            }
            if rules.iter().any(|other| other.path == rule.path) {
                let path = quote(rule.path.as_str());
                item.error(format!("`match` {path} appears twice, every path may only once"));
            }
            rules.push(rule);
        }
        Some(rules)
    })
}

fn rule(node: &JsonNode<'_>, namespace: &Arc<str>) -> Option<InboundRule> {
    let fields = node.fields(AllowedFields::Only(RULE))?;
    let path = fields.require("match").and_then(|node| prefix(&node));
    let (action, allowed_filters) = action(&fields, namespace).unzip();
    let inherits_server = match fields.get("serverAuthorizations") {
        Some(node) => node.choice(&[("Inherit", true), ("Ignore", false)]),
        None => Some(true),
    };
    let action = action?;
    if let (InboundAction::Delegate(_), Some(node)) = (&action, fields.get("serverAuthorizations"))
    {
        node.error("must be absent with `delegate`: the objects below say it of their own routes");
    }
    let allowed_filters = allowed_filters.unwrap_or_default();
    Some(InboundRule { path: path?, action, inherits_server: inherits_server?, allowed_filters })
}

fn prefix(node: &JsonNode<'_>) -> Option<PathPrefix> {
    let text = node.text()?;
    match PathPrefix::parse(text) {
        Ok(path) => Some(path),
        Err(reason) => {
            let is_expression = text.contains(['[', '^', '|', '\\', '{']);
            let hint =
                if is_expression { "; a match is a path, no regular expression" } else { "" };
            node.error(format!("{} {reason}{hint}", quote(text)));
            None
        }
    }
}

/// The action of a rule, and the filters that it allows where it delegates.
fn action(
    fields: &Fields<'_>,
    namespace: &Arc<str>,
) -> Option<(InboundAction, Vec<AllowedFilter>)> {
    let alone = |action| (action, Vec::new());
    let servers =
        fields.get("servers").map(|node| servers(&node).map(InboundAction::Servers).map(alone));
    let serve = fields.get("serve").map(|node| {
        node.fields(AllowedFields::Only(&[]))?;
        Some(alone(InboundAction::Serve))
    });
    let delegate = fields.get("delegate");
    let delegate = delegate.map(|node| {
        let (delegate, filters) = delegate::read(&node, namespace)?;
        Some((InboundAction::Delegate(delegate), filters))
    });
    let mut actions = [servers, serve, delegate].into_iter().flatten();
    match (actions.next(), actions.next()) {
        (Some(action), None) => action,
        (Some(_), Some(_)) => {
            fields.error(format!("only {} is allowed in one route", one_of(ACTIONS)));
            None
        }
        (None, _) => {
            fields.error(format!("{} is required", one_of(ACTIONS)));
            None
        }
    }
}

/// Servers of the object's own namespace.
fn servers(node: &JsonNode<'_>) -> Option<Vec<Arc<str>>> {
    let list = node.list_up_to(MAX_SERVERS)?;
    if list.is_empty() {
        node.error("must not be empty, name at least one Server");
        return None;
    }
    node.clean(|_| {
        let mut names: Vec<Arc<str>> = Vec::new();
        for item in list {
            let Some(fields) = item.fields(AllowedFields::Only(&["name"])) else { continue };
            let Some(name) = fields.require("name").and_then(|node| object_name(&node)) else {
                continue;
            };
            if names.contains(&name) {
                fields.error_at("name", format!("{} appears twice", quote(&name)));
            }
            names.push(name);
        }
        Some(names)
    })
}
