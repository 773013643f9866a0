//! InboundRoute (docs/spec/delegation.md).

mod definition;
mod recorded;

use crate::inbound::{
    Consent, Delegate, InboundAction, InboundRoute, InboundRule, PathPrefix, RequiredTls,
    VirtualHost,
};
use crate::kind::Kind;
use crate::kinds::route::host;
use crate::object::{Body, Claims, FieldError, Invalid, Object, ObjectKey};
use crate::parse::input::{Draft, Input};
use crate::parse::label::labels;
use crate::parse::name::{is_dns_label, namespace, object_name};
use crate::parse::network::networks;
use crate::parse::target::{Reference, Target};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote};
use crate::resource::{NamespacedName, Resource};
use crate::spec::{Field, ObjectReference, ReferenceTarget};
use policy_core::HostPattern;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) use definition::definition;
pub(crate) use recorded::recorded;

const SERVER: &[Target] = &[Target::Kind(Kind::Server)];

/// The kinds that a rule may delegate to. `HTTPRoute` is that of the Gateway API.
const CHILDREN: [(&str, Kind); 3] = [
    ("InboundRoute", Kind::InboundRoute),
    ("HTTPRoute", Kind::GatewayHttpRoute),
    ("GRPCRoute", Kind::GrpcRoute),
];

/// The parts that an invalid object keeps.
#[derive(Default)]
struct Kept {
    hosts: Vec<HostPattern>,
    servers: Vec<Arc<str>>,
    /// True if the name of a Server could not be read.
    unread: bool,
}

pub(super) fn read(input: &Input<'_>) -> Draft {
    let mut kept = Kept { unread: true, ..Kept::default() };
    let spec = input.spec(AllowedFields::Only(&["virtualhost", "delegatedFrom", "routes"]));
    let route = spec.and_then(|spec| {
        kept.unread = false;
        let own = spec.get("virtualhost");
        let root = own.as_ref().map(|node| virtual_host(node, &mut kept));
        let consents = consents(&spec, own.is_some(), &mut kept);
        let routes = rules(&spec, &input.meta.key, &mut kept);
        let root = match root {
            Some(root) => Some(root?),
            None => None,
        };
        let routes = routes?;
        check_target(&spec, root.as_ref(), &routes);
        Some(InboundRoute { virtual_host: root, delegated_from: consents?, routes })
    });
    let Kept { hosts, servers, unread } = kept;
    (route.map(Resource::InboundRoute), Claims::InboundRoute { hosts, servers, unread })
}

pub(super) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::InboundRoute(route)) = resource else {
        return Claims::InboundRoute { hosts: Vec::new(), servers: Vec::new(), unread: true };
    };
    let own = route.virtual_host.iter().flat_map(|own| &own.hosts);
    let consented = route.delegated_from.iter().map(|consent| &consent.host);
    let hosts = own.chain(consented).cloned().collect();
    Claims::InboundRoute { hosts, servers: servers_of(route).cloned().collect(), unread: false }
}

fn servers_of(route: &InboundRoute) -> impl Iterator<Item = &Arc<str>> {
    let target = route.virtual_host.iter().filter_map(|own| own.target.as_ref());
    let named = route.routes.iter().flat_map(|rule| match &rule.action {
        InboundAction::Servers(names) => names.as_slice(),
        InboundAction::Serve | InboundAction::Delegate(_) => &[],
    });
    target.chain(named)
}

/// The Servers that it names, valid or not, and the objects that it delegates to.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let key = &object.meta.key;
    let server = |name: &Arc<str>| key.beside(Kind::Server, name);
    let serving = |key| ObjectReference { field: Field::Serving, what: ReferenceTarget::One(key) };
    match &object.body {
        Body::Valid(Resource::InboundRoute(route)) => {
            let servers: BTreeSet<ObjectKey> = servers_of(route).map(server).collect();
            let delegated = route.routes.iter().filter_map(|rule| match &rule.action {
                InboundAction::Delegate(Delegate::One(key)) => {
                    Some(ReferenceTarget::One(key.clone()))
                }
                InboundAction::Delegate(Delegate::Selected { namespace, .. }) => {
                    Some(ReferenceTarget::AnyOf(Kind::InboundRoute, namespace.clone()))
                }
                InboundAction::Servers(_) | InboundAction::Serve => None,
            });
            let delegated = delegated.map(|what| ObjectReference { field: Field::Delegate, what });
            servers.into_iter().map(serving).chain(delegated).collect()
        }
        Body::Invalid(Invalid { claims: Claims::InboundRoute { servers, unread, .. }, .. }) => {
            let any = ReferenceTarget::AnyOf(Kind::Server, key.namespace.clone());
            let any = unread.then_some(ObjectReference { field: Field::Serving, what: any });
            servers.iter().map(server).map(serving).chain(any).collect()
        }
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::InboundRoute(route) = resource else { return None };
    let server = servers_of(route).next()?;
    let message =
        format!("serves nothing: Server {namespace}/{server} owns no port of any workload");
    Some(FieldError::new("spec", message))
}

fn virtual_host(node: &JsonNode<'_>, kept: &mut Kept) -> Option<VirtualHost> {
    const FIELDS: &[&str] =
        &["fqdn", "aliases", "targetRef", "tls", "accessList", "allowRegexChildren"];
    let Some(fields) = node.fields(AllowedFields::Only(FIELDS)) else {
        kept.unread = true;
        return None;
    };
    let fqdn = fields.require("fqdn").and_then(|node| host_of(&node));
    let aliases = match fields.get("aliases") {
        Some(node) => aliases(&node, fqdn.as_ref()),
        None => Some(Vec::new()),
    };
    let hosts = fqdn.iter().chain(aliases.iter().flatten());
    kept.hosts.extend(hosts.cloned());
    let target = match fields.get("targetRef") {
        Some(node) => {
            let name = Reference::read(&node, &["group", "kind", "name"], SERVER)
                .and_then(|reference| reference.name());
            kept.unread |= name.is_none();
            kept.servers.extend(name.clone());
            Some(name?)
        }
        None => None,
    };
    let tls = match fields.get("tls") {
        Some(node) => node.fields(AllowedFields::Only(&["mode"])).and_then(|tls| tls_mode(&tls)),
        None => Some(RequiredTls::Optional),
    };
    let access_list = match fields.get("accessList") {
        Some(node) => {
            let few = node.list_up_to(32).is_some();
            // Empty means the same as absent.
            networks(&node).filter(|_| few).map(|list| Some(list).filter(|list| !list.is_empty()))
        }
        None => Some(None),
    };
    let allow_regex_children = match fields.get("allowRegexChildren") {
        Some(node) => node.boolean()?,
        None => false,
    };
    let hosts = std::iter::once(fqdn?).chain(aliases?).collect();
    Some(VirtualHost { hosts, target, tls: tls?, access_list: access_list?, allow_regex_children })
}

fn tls_mode(fields: &Fields<'_>) -> Option<RequiredTls> {
    let Some(node) = fields.get("mode") else { return Some(RequiredTls::Optional) };
    node.choice(&[
        ("Optional", RequiredTls::Optional),
        ("Required", RequiredTls::Required),
        ("MutualRequired", RequiredTls::MutualRequired),
    ])
}

fn host_of(node: &JsonNode<'_>) -> Option<HostPattern> {
    let text = node.text_up_to(253)?;
    // Another spelling is the same host.
    let canonical = text.to_ascii_lowercase();
    let canonical = canonical.strip_suffix('.').unwrap_or(&canonical);
    match host::check(canonical) {
        Ok(()) => Some(HostPattern::parse(canonical)),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

fn aliases(node: &JsonNode<'_>, fqdn: Option<&HostPattern>) -> Option<Vec<HostPattern>> {
    let mut seen: BTreeSet<HostPattern> = fqdn.into_iter().cloned().collect();
    let read = |node: &JsonNode<'_>| {
        let host = host_of(node)?;
        if !seen.insert(host.clone()) {
            node.error(format!("`{host}` is named twice"));
            return None;
        }
        Some(host)
    };
    let hosts: Vec<Option<HostPattern>> = node.list_up_to(16)?.iter().map(read).collect();
    hosts.into_iter().collect()
}

fn consents(spec: &Fields<'_>, is_root: bool, kept: &mut Kept) -> Option<Vec<Consent>> {
    let node = spec.get("delegatedFrom");
    let list = match &node {
        Some(node) => node.list_up_to(16)?,
        None => Vec::new(),
    };
    let read: Vec<Option<Consent>> = list.iter().map(consent).collect();
    kept.hosts.extend(read.iter().flatten().map(|consent| consent.host.clone()));
    if is_root && !list.is_empty() {
        let message = "must be absent: an object with `virtualhost` is a root, and nobody delegates \
                       to it";
        spec.error_at("delegatedFrom", message);
        return None;
    }
    if !is_root && list.is_empty() {
        let message = "is required without `virtualhost`: name the hosts that others may have this \
                       object serve";
        spec.error_at("delegatedFrom", message);
        return None;
    }
    read.into_iter().collect()
}

fn consent(node: &JsonNode<'_>) -> Option<Consent> {
    let fields = node.fields(AllowedFields::Only(&["fqdn", "parent"]))?;
    let host = fields.require("fqdn").and_then(|node| host_of(&node));
    let parent = match fields.get("parent") {
        Some(node) => {
            let parent = node.fields(AllowedFields::Only(&["namespace", "name"]))?;
            let own = parent.require("namespace").and_then(|node| namespace(&node)).flatten();
            if own.is_none() && parent.get("namespace").is_some_and(|it| it.text() == Some("")) {
                parent.error_at("namespace", "must not be empty");
            }
            let name = parent.require("name").and_then(|node| object_name(&node));
            Some(NamespacedName { namespace: Some(own?), name: name? })
        }
        None => None,
    };
    Some(Consent { host: host?, parent })
}

fn rules(spec: &Fields<'_>, key: &ObjectKey, kept: &mut Kept) -> Option<Vec<InboundRule>> {
    let list = spec.require("routes").and_then(|node| {
        let list = node.list();
        if list.as_ref().is_some_and(Vec::is_empty) {
            node.error("must not be empty: name at least one path");
        }
        node.list_up_to(64)
    });
    let Some(list) = list else {
        kept.unread = true;
        return None;
    };
    let mut seen = BTreeSet::new();
    let rules: Vec<Option<InboundRule>> = list
        .iter()
        .map(|node| {
            let rule = rule(node, key, kept)?;
            if !seen.insert(rule.path.clone()) {
                node.error(format!("`{}` is the match of another route already", rule.path));
                return None;
            }
            Some(rule)
        })
        .collect();
    rules.into_iter().collect::<Option<Vec<_>>>().filter(|rules| !rules.is_empty())
}

fn rule(node: &JsonNode<'_>, key: &ObjectKey, kept: &mut Kept) -> Option<InboundRule> {
    const FIELDS: &[&str] = &["match", "servers", "serve", "delegate", "serverAuthorizations"];
    let Some(fields) = node.fields(AllowedFields::Only(FIELDS)) else {
        kept.unread = true;
        return None;
    };
    let servers = fields.get("servers").map(|node| servers(&node, kept));
    let path = fields.require("match").and_then(|node| path(&node));
    let serve = fields.get("serve").map(|node| node.fields(AllowedFields::Only(&[])).is_some());
    let delegate = fields.get("delegate").map(|node| delegate(&node, key));
    let inherits_server = match fields.get("serverAuthorizations") {
        Some(node) => node.choice(&[("Inherit", true), ("Ignore", false)])?,
        None => true,
    };
    let action = match (servers, serve, delegate) {
        (Some(servers), None, None) => InboundAction::Servers(servers?),
        (None, Some(true), None) => InboundAction::Serve,
        (None, Some(false), None) => return None,
        (None, None, Some(delegate)) => InboundAction::Delegate(delegate?),
        (None, None, None) => {
            fields.error("one of `servers`, `serve` and `delegate` is required");
            return None;
        }
        _ => {
            fields.error("only one of `servers`, `serve` and `delegate` is allowed");
            return None;
        }
    };
    Some(InboundRule { path: path?, action, inherits_server })
}

fn path(node: &JsonNode<'_>) -> Option<PathPrefix> {
    let text = node.text()?;
    match PathPrefix::parse(text) {
        Ok(path) => Some(path),
        Err(reason) => {
            node.error(format!("{} {reason}", quote(text)));
            None
        }
    }
}

fn servers(node: &JsonNode<'_>, kept: &mut Kept) -> Option<Vec<Arc<str>>> {
    let Some(list) = node.list() else {
        kept.unread = true;
        return None;
    };
    let name = |node: &JsonNode<'_>| {
        let fields = node.fields(AllowedFields::Only(&["name"]))?;
        object_name(&fields.require("name")?)
    };
    let names: Vec<Option<Arc<str>>> = list.iter().map(name).collect();
    kept.unread |= names.iter().any(Option::is_none);
    kept.servers.extend(names.iter().flatten().cloned());
    if list.is_empty() {
        node.error("must not be empty: name at least one Server");
        return None;
    }
    node.list_up_to(8)?;
    names.into_iter().collect()
}

fn delegate(node: &JsonNode<'_>, key: &ObjectKey) -> Option<Delegate> {
    let fields = node.fields(AllowedFields::Only(&["kind", "name", "selector", "namespace"]))?;
    let kind = match fields.get("kind") {
        Some(node) => {
            let text = node.text_up_to(63)?;
            let found = CHILDREN.iter().find(|(name, _)| *name == text);
            if found.is_none() {
                let names = CHILDREN.map(|(name, _)| name);
                let names = one_of(&names);
                node.error(format!("{} cannot be delegated to, expected {names}", quote(text)));
            }
            found?.1
        }
        None => Kind::InboundRoute,
    };
    let own = match fields.get("namespace") {
        Some(node) => namespace(&node)?,
        None => None,
    };
    if own.as_ref().is_some_and(|own| !is_dns_label(own)) {
        fields.error_at("namespace", "is not a namespace");
        return None;
    }
    let namespace = own.unwrap_or_else(|| key.namespace.clone());
    match (fields.get("name"), fields.get("selector")) {
        (Some(name), None) => {
            let name = object_name(&name)?;
            Some(Delegate::One(ObjectKey { kind, namespace, name }))
        }
        (None, Some(selector)) => {
            if kind != Kind::InboundRoute {
                selector.error("is allowed for InboundRoutes only");
                return None;
            }
            let labels = selected(&selector)?;
            Some(Delegate::Selected { namespace, labels })
        }
        (Some(_), Some(_)) | (None, None) => {
            fields.error("exactly one of `name` and `selector` is required");
            None
        }
    }
}

fn selected(node: &JsonNode<'_>) -> Option<std::collections::BTreeMap<Arc<str>, Arc<str>>> {
    node.clean(|node| {
        let fields = node.fields(AllowedFields::Only(&["matchLabels"]))?;
        let node = fields.require("matchLabels")?;
        let labels = labels(&node);
        if labels.is_empty() {
            node.error("must not be empty: name at least one label");
        }
        Some(labels)
    })
}

/// Checks that the rules of a root that serve have a Server.
fn check_target(spec: &Fields<'_>, root: Option<&VirtualHost>, routes: &[InboundRule]) {
    let Some(root) = root else { return };
    let serves = routes.iter().any(|rule| rule.action == InboundAction::Serve);
    if serves && root.target.is_none() {
        let message = "is required because a route has `serve`: name the Server that answers";
        spec.error_at("virtualhost.targetRef", message);
    }
}
