//! The columns of the table of kinds.

use crate::kind::Kind;
use crate::object::{Claims, FieldError, Object, ObjectKey};
use crate::parse::input::{Draft, Input};
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::resource::{NamespacedName, Resource};
use policy_core::{IdentityMatch, ObjectRef};
use std::sync::Arc;

/// The row of a kind: everything known about it before any object of it is read.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// Its names.
    pub names: Names,
    /// Versions that are read, preferred first.
    pub versions: &'static [&'static str],
    /// Scope of its objects.
    pub scope: Scope,
    /// Its watch in a cluster.
    pub watched: Watched,
    /// The part of an object that is kept while it is read from a cluster.
    pub projection: Projection,
    /// Its reference fields.
    pub references: &'static [ReferenceField],
    /// True if policies list its objects among those that they are made from.
    pub contributes: bool,
    /// True if nothing certain can be said of the ports of a namespace unless all its objects of
    /// this kind are known. Authentications are found by reference instead.
    pub of_ports: bool,
    /// True if its objects only grant. Others deny where they cannot take effect, and that denial is
    /// in force.
    pub only_grants: bool,
    /// The conditions of its objects.
    pub conditions: Conditions,
    /// The way in which conditions are written to the status; absent: only Events report them.
    pub status: Option<StatusStyle>,
    /// The objects that admission validates.
    pub admission: Admission,
    /// The annotations of its objects that policy depends on, or that are checked.
    pub annotations: &'static [&'static str],
    /// The part of its name in the metric by which Linkerd counts its objects by namespace.
    pub linkerd_metric: Option<&'static str>,
    /// Reads an object.
    pub(crate) read: fn(&Input<'_>) -> Draft,
    /// The claims of an object once its grants are withdrawn. Without a resource, only the name of
    /// the object could be read, and it claims as much as it might.
    pub(crate) claims: fn(Option<&Resource>) -> Claims,
    /// The objects that an object names, as far as they can be read.
    pub(crate) references_of: fn(&Object) -> Vec<ObjectReference>,
    /// The clients that an object names, each with its field.
    pub(crate) clients: fn(&Resource) -> Vec<ClientReference>,
    /// Remarks on an object whose meaning may surprise its author. Nothing here changes policy.
    pub(crate) remarks: fn(&Resource) -> Vec<FieldError>,
    /// The remark on an object of this namespace that is part of no port's policy.
    pub(crate) idle: fn(&Resource, &str) -> Option<FieldError>,
    /// Its definition, where this project installs it.
    pub(crate) definition: Option<fn(Profile) -> Definition>,
}

impl KindSpec {
    /// The claims of an object of this kind once its grants are withdrawn. Without a resource, only
    /// the name of the object could be read, and it claims as much as it might.
    pub fn claims(&self, resource: Option<&Resource>) -> Claims {
        (self.claims)(resource)
    }

    /// True if this project installs its definition.
    pub fn is_defined_here(&self) -> bool {
        self.definition.is_some()
    }

    /// True if its conditions are about the object as a whole, not about each of its parents.
    pub fn has_object_conditions(&self) -> bool {
        match self.status {
            Some(StatusStyle::Apply | StatusStyle::ApplyWithTarget | StatusStyle::Replace) => true,
            Some(StatusStyle::Parents) | None => false,
        }
    }

    /// The reference in one of these fields, whatever it may name.
    pub fn reference(&self, fields: &[Field]) -> Option<&'static ReferenceField> {
        self.references.iter().find(|reference| fields.contains(&reference.field))
    }
}

/// The names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// The kind as manifests spell it.
    pub kind: &'static str,
    /// The resource as URLs and RBAC rules spell it.
    pub plural: &'static str,
    /// Abbreviations that commands take.
    pub short: &'static [&'static str],
}

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// The watch of a kind in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Always: while it cannot be listed the controller is not ready.
    Required,
    /// If the cluster has it. Its definition may be installed and removed while the controller
    /// runs; an absent kind counts as empty.
    IfPresent,
    /// While outbound discovery is on: the controller is then not ready while it cannot be listed.
    /// Nothing but discovery reads it.
    ForDiscovery,
    /// Never: it is used in manifests only (a Deployment stands for its pods there), or belongs to
    /// another controller.
    Never,
}

/// The part of an object that is kept while it is read from a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// All of it.
    Whole,
    /// Everything but `metadata.managedFields` and `status`, so that unknown fields are still
    /// reported.
    Policy,
    /// The same with `status`, where later decisions depend on what it records.
    PolicyAndStatus,
    /// `metadata` alone.
    Metadata,
    /// The parts of a Pod that policy depends on.
    Pod,
    /// The parts of a Node that policy depends on.
    Node,
    /// The parts of a Service that outbound discovery depends on.
    Service,
    /// The parts of an EndpointSlice that outbound discovery depends on.
    EndpointSlice,
}

/// The conditions of objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// None.
    None,
    /// `AnnotationsValid` alone, and only where an annotation cannot be read.
    OfAnnotations,
    /// `Accepted` at least.
    Always,
}

/// The way in which the status of a kind is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusStyle {
    /// `status.conditions` by server-side apply: they are a map by type, and we own the types we
    /// write.
    Apply,
    /// The same, with the `status.targetRef` that the schema requires.
    ApplyWithTarget,
    /// `status.conditions` as a whole: they are a list that others write too.
    Replace,
    /// `status.parents` as a whole: a list in which every controller has entries.
    Parents,
}

/// The objects of a kind that admission validates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Every object.
    Policy,
    /// Objects with a Server or an InboundRoute among their parents. Others belong to other
    /// controllers.
    Route,
    /// Objects that open a kind of policy to other namespaces.
    Grant,
    /// Every object, and routes with one among their parents, where admission reviews what Linkerd's
    /// reviews (`--linkerd-compatible`). Otherwise none.
    Outbound,
    /// None is rejected: the author gets warnings about annotations that cannot be read, and about
    /// the injection annotations of a namespace.
    Workload,
    /// None.
    Foreign,
}

/// A field that names other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceField {
    /// The field.
    pub field: Field,
    /// Its path, for messages.
    pub path: &'static str,
    /// The kinds it may name; empty: kinds that are not read, of which the permission alone is
    /// known.
    pub to: &'static [Kind],
    /// Requirement of a name in another namespace.
    pub grant: GrantRule,
}

/// The reference fields there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `parentRefs` of a route.
    Parent,
    /// `targetRef` of a policy.
    Target,
    /// `requiredAuthenticationRefs`, as far as they name authentications.
    Authentication,
    /// References that name a client: they grant it access and read nothing of it.
    Client,
    /// `server` of a ServerAuthorization.
    Server,
    /// `delegate` of the rules of an InboundRoute.
    Delegate,
    /// `virtualhost.targetRef` of an InboundRoute, and `servers` of its rules.
    Serving,
    /// `routeGroupRef` of the routes of an HttpRouteGroup, `routeRefs` and `serviceRefs` of bindings: the
    /// objects whose routes are taken over.
    Include,
    /// `backendRefs` of the rules of a route: enforced by nobody inbound, reported in the status.
    Backend,
}

/// Requirement of a reference into another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRule {
    /// It cannot be written: the field names objects of its own namespace only.
    Local,
    /// A ReferenceGrant there, always.
    Grant,
    /// A ReferenceGrant there, unless that namespace is shared.
    GrantUnlessShared,
    /// The same, unless grants are only warned about, too: a reference that Linkerd follows without one.
    GrantUnlessWarned,
    /// Nothing: naming a client grants it access to us, and reads nothing of it. An InboundRoute that
    /// a route names as its parent agrees by its own `delegate`.
    Exempt,
}

impl GrantRule {
    /// True if a ReferenceGrant can permit such a reference.
    pub fn takes_grants(self) -> bool {
        match self {
            Self::Grant | Self::GrantUnlessShared | Self::GrantUnlessWarned => true,
            Self::Local | Self::Exempt => false,
        }
    }
}

/// A reference of an object. Clients are not among the references: nothing of them is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// The field.
    pub field: Field,
    /// The object or objects that it names.
    pub what: ReferenceTarget,
}

/// One object that is named, or all of a namespace that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceTarget {
    /// This one.
    One(ObjectKey),
    /// Any of this kind in this namespace: by label, or because the reference cannot be read.
    AnyOf(Kind, Arc<str>),
    /// This one, of a kind that is not read.
    Unread(ObjectRef),
}

/// A client that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientReference {
    /// The path of the field, for messages.
    pub field: String,
    /// The client.
    pub client: Client,
}

/// A way to name a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// By the ServiceAccount that it runs as.
    Account(NamespacedName),
    /// Every ServiceAccount of a namespace.
    Namespace(Arc<str>),
    /// By what its certificate proves.
    Identity(IdentityMatch),
}

impl ClientReference {
    pub(crate) fn account(field: impl Into<String>, name: &NamespacedName) -> Self {
        Self { field: field.into(), client: Client::Account(name.clone()) }
    }

    pub(crate) fn namespace(field: impl Into<String>, name: &Arc<str>) -> Self {
        Self { field: field.into(), client: Client::Namespace(name.clone()) }
    }

    /// The identities of a list.
    pub(crate) fn identities<'a>(
        field: &'a str,
        list: &'a [IdentityMatch],
    ) -> impl Iterator<Item = Self> + 'a {
        list.iter().enumerate().map(move |(i, identity)| Self {
            field: format!("{field}[{i}]"),
            client: Client::Identity(identity.clone()),
        })
    }
}
