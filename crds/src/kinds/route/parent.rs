//! `parentRefs`: each is read on its own, so that an invalid route keeps its Servers route-bound.

use super::dialect::Dialect;
use crate::kind::Kind;
use crate::parse::name::namespace;
use crate::reader::{Fields, JsonNode, shared};
use crate::resource::ParentRef;

/// The parents that can be read, and whether there is one that cannot.
pub(super) fn parents(spec: &Fields<'_>, dialect: Dialect) -> (Vec<ParentRef>, bool) {
    let Some(node) = spec.get("parentRefs") else { return (Vec::new(), false) };
    let Some(list) = node.list() else { return (Vec::new(), true) };
    if list.len() > 32 {
        node.error(format!("{} elements, at most 32 are allowed", list.len()));
    }
    let parents: Vec<ParentRef> = list.iter().filter_map(|node| parent(node, dialect)).collect();
    let unread = parents.len() < list.len();
    (parents, unread)
}

/// A parent, if at least its name and namespace can be read; all other errors are reported. One whose group or
/// kind cannot be read, or that names a Server of another group, counts as a Server.
fn parent(node: &JsonNode<'_>, dialect: Dialect) -> Option<ParentRef> {
    let names = &["group", "kind", "name", "namespace", "port", "sectionName"];
    let fields = node.fields(dialect.growing(names))?;
    // An unknown field may be the misspelt name of one that is absent.
    let is_misspelt = dialect.refuses_unknown() && fields.has_unknown(names);
    let absent = |name: &str| is_misspelt && fields.get(name).is_none();
    let text = |name: &str, default: &str| match fields.get(name) {
        Some(node) => node.text().map(shared),
        None => Some(shared(default)),
    };
    let (group, kind) = match (text("group", dialect.group()), text("kind", "Gateway")) {
        (Some(group), Some(kind)) if !absent("group") && !absent("kind") => (group, kind),
        _ => (shared(Kind::Server.group()), shared(Kind::Server.as_str())),
    };
    let namespace = match fields.get("namespace") {
        Some(node) => namespace(&node),
        None => Some(None),
    };
    let port = fields.get("port").and_then(|node| node.integer(1, 65535));
    let section = fields.get("sectionName").and_then(|node| node.text_up_to(253)).map(shared);
    let name = shared(fields.require("name")?.text_up_to(253)?);
    // Without it, the parent would be one of another namespace than the one that was meant.
    let namespace = namespace.filter(|_| !absent("namespace"))?;
    let port = port.and_then(|port| u16::try_from(port).ok());
    let mut parent = ParentRef { group, kind, namespace, name, port, section };
    check(&fields, &parent, dialect);
    if is_misplaced(&parent) {
        // The route is invalid because of it. It was meant for a Server, which must stay bound.
        parent.group = shared(Kind::Server.group());
    }
    Some(parent)
}

/// A Server of another group than its own.
fn is_misplaced(parent: &ParentRef) -> bool {
    parent.kind.eq_ignore_ascii_case(Kind::Server.as_str()) && !parent.is_server()
}

fn check(fields: &Fields<'_>, parent: &ParentRef, dialect: Dialect) {
    if parent.is_server() {
        for name in ["port", "sectionName"] {
            if fields.get(name).is_some() {
                fields.error_at(name, "must be absent for a Server, which is one port already");
            }
        }
    }
    if parent.kind.eq_ignore_ascii_case(Kind::InboundRoute.as_str()) {
        check_delegator(fields, parent, dialect);
    }
    if is_misplaced(parent) {
        let right = Kind::Server.group();
        let message = if fields.get("group").is_none() {
            format!("is required for Server, write `group: {right}`")
        } else {
            format!("has no Server, write `group: {right}`")
        };
        fields.error_at("group", message);
    }
    if is_egress(parent) && parent.port.is_none() {
        fields.error_at("port", "is required where the parent is an EgressNetwork");
    }
}

/// Checks a parent that is an InboundRoute.
fn check_delegator(fields: &Fields<'_>, parent: &ParentRef, dialect: Dialect) {
    let right = Kind::InboundRoute.group();
    if parent.inbound_kind().is_none() {
        if !parent.group.eq_ignore_ascii_case(dialect.group()) {
            // Another project's kind.
            return;
        }
        fields.error_at("group", format!("has no InboundRoute, write `group: {right}`"));
    }
    if matches!(dialect, Dialect::Policy { .. }) {
        let group = Kind::GatewayHttpRoute.group();
        let message =
            format!("an InboundRoute delegates to an HTTPRoute of {group}, not to this one");
        fields.error_at("kind", message);
    }
    for name in ["port", "sectionName"] {
        if fields.get(name).is_some() {
            fields
                .error_at(name, "must be absent for an InboundRoute: its `delegate` says the path");
        }
    }
}

fn is_egress(parent: &ParentRef) -> bool {
    Kind::find(&parent.group, &parent.kind) == Some(Kind::EgressNetwork)
}

impl ParentRef {
    /// True if the parent is of a kind that no controller of this API reads, such as a Gateway.
    pub fn is_of_others(&self) -> bool {
        let ours = [Kind::Server.group(), Kind::InboundRoute.group()];
        let is_ours = ours.iter().any(|group| group.eq_ignore_ascii_case(&self.group));
        !is_ours && !self.is_outbound()
    }

    /// True if the parent makes the route count for outbound traffic: a Service or an EgressNetwork.
    pub fn is_outbound(&self) -> bool {
        let core = self.group.is_empty() || self.group.eq_ignore_ascii_case("core");
        is_egress(self) || (core && self.kind.eq_ignore_ascii_case("Service"))
    }
}
