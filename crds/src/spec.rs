//! The columns of the table of kinds.

use crate::kind::Kind;
use crate::object::{Claims, FieldError, Object, ObjectKey};
use crate::parse::input::{Draft, Input};
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::resource::{NamespacedName, Resource};
use policy_core::IdentityMatch;
use std::sync::Arc;

/// A kind: what is known of it before any object of it is seen.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// What it is called.
    pub names: Names,
    /// Versions that are read, preferred first.
    pub versions: &'static [&'static str],
    /// Where its objects live.
    pub scope: Scope,
    /// Whether a cluster is asked for its objects.
    pub watched: Watched,
    /// The part of an object that is kept while it is read from a cluster.
    pub projection: Projection,
    /// Its reference fields.
    pub references: &'static [ReferenceField],
    /// Whether a policy names its objects among those that it is made from.
    pub contributes: bool,
    /// Whether nothing certain can be said of the ports of a namespace whose objects of this kind
    /// are not known. Authentications are found by reference instead.
    pub of_ports: bool,
    /// Which conditions its objects have.
    pub conditions: Conditions,
    /// How conditions are written to the status; absent: Events tell them alone.
    pub status: Option<StatusStyle>,
    /// Which of its objects are judged at admission.
    pub admission: Admission,
    /// The annotations of its objects that policy depends on, or that are checked.
    pub annotations: &'static [&'static str],
    /// The part of its name in the metric by which Linkerd counts its objects by namespace.
    pub linkerd_metric: Option<&'static str>,
    /// Reads an object.
    pub(crate) read: fn(&Input<'_>) -> Draft,
    /// What an object claims once its grants are withdrawn; without a resource, nothing could be
    /// read of the object but its name, and it claims as much as it might.
    pub(crate) claims: fn(Option<&Resource>) -> Claims,
    /// The objects that an object names, as far as they can be read.
    pub(crate) references_of: fn(&Object) -> Vec<ObjectReference>,
    /// The clients that an object names, each with its field.
    pub(crate) clients: fn(&Resource) -> Vec<ClientReference>,
    /// What an object means where that may surprise its author. Nothing here changes policy.
    pub(crate) remarks: fn(&Resource) -> Vec<FieldError>,
    /// What is to be said of an object of this namespace that no policy of a port is made from.
    pub(crate) idle: fn(&Resource, &str) -> Option<FieldError>,
    /// Its definition, where this project installs it.
    pub(crate) definition: Option<fn(Profile) -> Definition>,
}

impl KindSpec {
    /// What an object of this kind claims once its grants are withdrawn; without a resource, nothing
    /// could be read of the object but its name, and it claims as much as it might.
    pub fn claims(&self, resource: Option<&Resource>) -> Claims {
        (self.claims)(resource)
    }

    /// Whether this project installs its definition.
    pub fn is_defined_here(&self) -> bool {
        self.definition.is_some()
    }

    /// Whether its conditions are about the object as a whole, not about each of its parents.
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

/// What a kind is called.
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

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// Whether a cluster is asked for objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Always: while it cannot be listed the controller is not ready.
    Required,
    /// If the cluster has it. Its definition may be installed and removed while the controller
    /// runs; absent counts as empty.
    IfPresent,
    /// Never: it means something in manifests only (a Deployment stands for its pods there), or is
    /// its owner's concern.
    Never,
}

/// The part of an object that is kept while it is read from a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// All of it.
    Whole,
    /// Everything but `metadata.managedFields` and `status`, so that a field that means nothing is
    /// still found and named.
    Policy,
    /// `metadata` alone.
    Metadata,
    /// The parts of a Pod that policy depends on.
    Pod,
    /// The parts of a Node that policy depends on.
    Node,
}

/// Which conditions objects of a kind have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// None.
    None,
    /// `AnnotationsValid` alone, and only where an annotation cannot be read.
    OfAnnotations,
    /// `Accepted` at least.
    Always,
}

/// How the status of a kind is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusStyle {
    /// `status.conditions` by server-side apply: they are a map by type, of which ours are ours.
    Apply,
    /// The same, with the `status.targetRef` that the schema asks for.
    ApplyWithTarget,
    /// `status.conditions` as a whole: they are a list that others write too.
    Replace,
    /// `status.parents` as a whole: a list in which every controller has entries.
    Parents,
}

/// Which objects of a kind are judged at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Every object.
    Policy,
    /// Objects with a Server among their parents. Others belong to whoever owns their parents.
    Route,
    /// Objects that open a kind of policy to other namespaces.
    Grant,
    /// None is refused: the author is told of annotations that cannot be read, and of a namespace's
    /// about injection.
    Workload,
    /// None.
    Foreign,
}

/// A field that names other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceField {
    /// Which field.
    pub field: Field,
    /// Its path, for messages.
    pub path: &'static str,
    /// The kinds it may name.
    pub to: &'static [Kind],
    /// What a name in another namespace needs.
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
}

/// What a reference into another namespace needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRule {
    /// It cannot be written: the field names objects of its own namespace only.
    Local,
    /// A ReferenceGrant there, always.
    Grant,
    /// A ReferenceGrant there, unless that namespace is shared or grants are only warned about.
    GrantUnlessShared,
    /// Nothing: naming a client grants it access to us, and reads nothing of it.
    Exempt,
}

/// What an object names in one of its reference fields. Clients are not among them: nothing of them
/// is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// The field.
    pub field: Field,
    /// What it names.
    pub what: ReferenceTarget,
}

/// One object that is named, or all of a namespace that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceTarget {
    /// This one.
    One(ObjectKey),
    /// Any of this kind in this namespace: by label, or because the reference cannot be read.
    AnyOf(Kind, Arc<str>),
}

/// A client that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientReference {
    /// The path of the field, for messages.
    pub field: String,
    /// Who it is.
    pub client: Client,
}

/// A way to name a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// By the ServiceAccount that it runs as.
    Account(NamespacedName),
    /// By what its certificate proves.
    Identity(IdentityMatch),
}

impl ClientReference {
    pub(crate) fn account(field: impl Into<String>, name: &NamespacedName) -> Self {
        Self { field: field.into(), client: Client::Account(name.clone()) }
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
