//! `parentRefs`: each is read on its own, so that an invalid route keeps its Servers route-bound.

use super::dialect::Dialect;
use crate::kind::Kind;
use crate::parse::name::{namespace, object_name};
use crate::reader::{Fields, JsonNode, quote, shared};
use crate::resource::{ParentRef, UnreadParent};
use policy_core::suggest::nearest;
use std::sync::Arc;

/// The parents that can be read, and of each other one what can. `own`: the namespace of the route.
pub(super) fn parents(
    spec: &Fields<'_>,
    dialect: Dialect,
    own: &Arc<str>,
) -> (Vec<ParentRef>, Vec<UnreadParent>) {
    let Some(node) = spec.get("parentRefs") else { return (Vec::new(), Vec::new()) };
    let Some(list) = node.list() else { return (Vec::new(), vec![UnreadParent::default()]) };
    if list.len() > 32 {
        node.error(format!("{} elements, at most 32 are allowed", list.len()));
    }
    let (mut parents, mut unread) = (Vec::new(), Vec::new());
    for node in &list {
        match parent(node, dialect, own) {
            Ok(parent) => parents.push(parent),
            Err(parent) => unread.push(parent),
        }
    }
    (parents, unread)
}

/// A parent, if at least its name and namespace can be read, otherwise what can be read of these; all
/// other errors are reported. One whose group or kind cannot be read, or that names a Server of another
/// group, counts as a Server.
fn parent(
    node: &JsonNode<'_>,
    dialect: Dialect,
    own: &Arc<str>,
) -> Result<ParentRef, UnreadParent> {
    let names = &["group", "kind", "name", "namespace", "port", "sectionName"];
    let fields = node.fields(dialect.growing(names)).ok_or_else(UnreadParent::default)?;
    // An unknown field may be the misspelt name of one that is absent.
    let is_misspelt = dialect.is_misspelt(&fields, names);
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
    let name = fields.require("name").and_then(|node| match is_of_policy(&group) {
        true => object_name(&node),
        false => node.text_up_to(253).map(shared),
    });
    // Without it, the parent would be one of another namespace than the one that was meant.
    let namespace = namespace.filter(|_| !absent("namespace"));
    let (Some(name), Some(namespace)) = (name.clone(), namespace.clone()) else {
        let namespace = namespace.map(|stated| stated.unwrap_or_else(|| own.clone()));
        return Err(UnreadParent { namespace, name });
    };
    let port = port.and_then(|port| u16::try_from(port).ok());
    let mut parent = ParentRef { group, kind, namespace, name, port, section };
    check(&fields, &parent, dialect);
    if is_misplaced(&parent) {
        // The route is invalid because of it. It was meant for a Server, which must stay bound.
        parent.group = shared(Kind::Server.group());
    }
    if let Some(meant) = meant_kind(&parent) {
        let (found, meant) = (quote(&parent.kind), meant.as_str());
        fields.error_at("kind", format!("{found} is no kind of parent, expected `{meant}`"));
        parent.kind = shared(meant);
    } else if is_misplaced_delegator(&parent, dialect) {
        parent.group = shared(Kind::InboundRoute.group());
    }
    Ok(parent)
}

/// The kind that is meant by one of a group of policy that no parent has: the route is invalid, and the
/// parent must stay bound.
fn meant_kind(parent: &ParentRef) -> Option<Kind> {
    let meant = [Kind::Server, Kind::InboundRoute].into_iter();
    let mut of_group = meant.filter(|kind| kind.group().eq_ignore_ascii_case(&parent.group));
    let meant = of_group.next()?;
    let known = parent.is_server() || is_egress(parent) || parent.inbound_kind().is_some();
    (!known).then_some(meant)
}

/// True if the kinds of the group are read here. No object of them has a name that is none.
fn is_of_policy(group: &str) -> bool {
    [Kind::Server, Kind::InboundRoute].iter().any(|kind| kind.group().eq_ignore_ascii_case(group))
}

/// A Server of another group than its own.
fn is_misplaced(parent: &ParentRef) -> bool {
    parent.kind.eq_ignore_ascii_case(Kind::Server.as_str()) && !parent.is_server()
}

/// An InboundRoute of the default group, or of one that is nearly its own.
fn is_misplaced_delegator(parent: &ParentRef, dialect: Dialect) -> bool {
    let is_near = || nearest(&parent.group, &[Kind::InboundRoute.group()]).is_some();
    parent.kind.eq_ignore_ascii_case(Kind::InboundRoute.as_str())
        && parent.inbound_kind().is_none()
        && (parent.group.eq_ignore_ascii_case(dialect.group()) || is_near())
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
        if !is_misplaced_delegator(parent, dialect) {
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
