//! Lookups of kinds and references in the table of kinds.

use crate::kind::Kind;
use crate::object::{Body, FieldError, Object};
use crate::resource::{ClaimedFrom, GrantClaims, GrantFrom, GrantTo, Resource};
use crate::spec::{
    ClientReference, Conditions, Field, KindSpec, ObjectReference, ReferenceField, Scope, Watched,
};

impl Kind {
    /// API group; empty for the core group.
    pub fn group(self) -> &'static str {
        self.spec().names.group
    }

    /// The kind as manifests spell it.
    pub fn as_str(self) -> &'static str {
        self.spec().names.kind
    }

    /// The kind in messages: with its group, if another group has a kind of this name.
    pub fn in_full(self) -> String {
        match self.namesakes().next() {
            Some(_) => format!("{}.{}", self.as_str(), self.group()),
            None => self.as_str().to_owned(),
        }
    }

    /// The kinds of this name in other groups.
    pub fn namesakes(self) -> impl Iterator<Item = Self> {
        let same = move |kind: &Self| *kind != self && kind.as_str() == self.as_str();
        Self::ALL.into_iter().filter(same)
    }

    /// The resource as URLs and RBAC rules spell it.
    pub fn plural(self) -> &'static str {
        self.spec().names.plural
    }

    /// Versions that are read, preferred first.
    pub fn versions(self) -> &'static [&'static str] {
        self.spec().versions
    }

    /// True if all kinds of a group are read.
    pub(crate) fn is_of_this_project(group: &str) -> bool {
        let mut of_group = Self::ALL.into_iter().filter(|kind| kind.group() == group);
        of_group.any(|kind| kind.spec().is_defined_here())
    }

    /// True if objects of this kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        self.spec().scope == Scope::Namespaced
    }

    /// True if it is a kind of route.
    pub fn is_route(self) -> bool {
        self.spec().reference(&[Field::Parent]).is_some()
    }

    /// True if `word` is one of its names: the kind, its plural or an abbreviation, without case.
    pub fn is_called(self, word: &str) -> bool {
        let names = self.spec().names;
        [names.kind, names.plural]
            .iter()
            .chain(names.short)
            .any(|own| own.eq_ignore_ascii_case(word))
    }

    /// The kind of this group and name; group and kind compare without case, `core` is the empty
    /// group (docs/spec/controller.md 2.14).
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        let group = if group.eq_ignore_ascii_case("core") { "" } else { group };
        Self::ALL.into_iter().find(|k| {
            k.group().eq_ignore_ascii_case(group) && k.as_str().eq_ignore_ascii_case(kind)
        })
    }

    /// The kinds whose objects are watched in a cluster, whatever the controller is to do.
    pub fn watched() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| match kind.spec().watched {
            Watched::Required | Watched::IfPresent => true,
            Watched::ForDiscovery | Watched::Never => false,
        })
    }

    /// The kinds whose objects are watched besides while outbound discovery is on.
    pub fn watched_for_discovery() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_for_discovery())
    }

    /// True if it is watched for outbound discovery. No policy refers to it; names of Services cannot be
    /// claimed, so that claims read them.
    pub fn is_for_discovery(self) -> bool {
        self.spec().watched == Watched::ForDiscovery
    }

    /// True if a CustomResourceDefinition defines it, which can be removed while its objects are in use.
    pub fn is_custom(self) -> bool {
        !matches!(self.group(), "" | "apps" | "batch" | "discovery.k8s.io")
    }

    /// True if its objects make pods of a template.
    pub fn makes_pods(self) -> bool {
        let kinds = [Self::Deployment, Self::StatefulSet, Self::DaemonSet, Self::ReplicaSet];
        kinds.contains(&self) || [Self::Job, Self::CronJob].contains(&self)
    }

    /// The kinds whose objects always have conditions.
    pub fn conditioned() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.spec().conditions == Conditions::Always)
    }

    /// The kinds of routes.
    pub fn routes() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_route())
    }

    /// True if it is a kind of binding, which brings routes of groups or services to a Server.
    pub fn is_binding(self) -> bool {
        matches!(self, Self::HttpRouteBinding | Self::GrpcServiceBinding)
    }

    /// The kinds of objects by which a Server is decided route by route: routes and bindings. An
    /// InboundRoute does so on the hosts of its tree.
    pub fn attached() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_route() || kind.is_binding())
    }

    /// The kind of this group and name as a ReferenceGrant spells them: groups compare without case,
    /// kinds byte by byte. A Service counts as a kind that is not read: a reference to one is a
    /// backend, of which the permission alone is known.
    fn granted(group: &str, kind: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter().filter(|own| !own.is_for_discovery());
        kinds.find(|own| own.group().eq_ignore_ascii_case(group) && own.as_str() == kind)
    }

    /// The reference field of a kind that can name another kind; `None` if there is no such field.
    pub fn reference(self, field: Field, to: Kind) -> Option<&'static ReferenceField> {
        let mut references = self.spec().references.iter();
        references.find(|reference| reference.field == field && reference.to.contains(&to))
    }
}

impl GrantFrom {
    /// The kind of the objects that may refer; `None` if it is not read.
    pub fn known_kind(&self) -> Option<Kind> {
        Kind::granted(&self.group, &self.kind)
    }

    /// True if an object of this kind and namespace may refer.
    pub fn admits(&self, kind: Kind, namespace: &str) -> bool {
        self.known_kind() == Some(kind) && *self.namespace == *namespace
    }

    /// The fields that need such a grant to name objects of other namespaces, and that can name
    /// what `to` says. Empty if nothing that is read here can.
    pub fn fields(&self, to: &GrantTo) -> Vec<&'static ReferenceField> {
        let references = self.known_kind().map_or(&[][..], |kind| kind.spec().references);
        let named = to.known_kind();
        let can_name = |reference: &&ReferenceField| match named {
            Some(kind) => reference.to.contains(&kind),
            None => reference.to.is_empty(),
        };
        let granted = references.iter().filter(|reference| reference.grant.takes_grants());
        granted.filter(can_name).collect()
    }
}

impl GrantTo {
    /// The kind of the objects that may be named; `None` if it is not read.
    pub fn known_kind(&self) -> Option<Kind> {
        Kind::granted(&self.group, &self.kind)
    }

    /// True if an object of this group, kind and name may be named.
    pub fn offers(&self, group: &str, kind: &str, name: &str) -> bool {
        self.group.eq_ignore_ascii_case(group)
            && *self.kind == *kind
            && self.name.as_ref().is_none_or(|own| **own == *name)
    }
}

impl ClaimedFrom {
    /// True if a correction of the entry may admit objects of this kind and namespace.
    pub fn may_admit(&self, kind: Kind, namespace: &str) -> bool {
        let Self { of, namespace: own } = self;
        let Some((group, name)) = of else { return **own == *namespace };
        let (group, kind_name) = (group.clone(), name.clone());
        let entry = GrantFrom { group, kind: kind_name, namespace: own.clone() };
        entry.admits(kind, namespace)
    }
}

impl GrantClaims {
    /// True if a correction may offer this object.
    pub fn may_offer(&self, group: &str, kind: &str, name: &str) -> bool {
        self.to_unread || self.to.iter().any(|entry| entry.offers(group, kind, name))
    }
}

impl Object {
    /// The references of an object, as far as they can be read. Clients are not among them.
    pub fn references(&self) -> Vec<ObjectReference> {
        (self.meta.key.kind.spec().references_of)(self)
    }

    /// The clients that a valid object names.
    pub fn clients(&self) -> Vec<ClientReference> {
        self.valid().map_or_else(Vec::new, |(spec, resource)| (spec.clients)(resource))
    }

    /// Remarks about a valid object; none for an invalid one, whose errors say more.
    pub fn remarks(&self) -> Vec<FieldError> {
        self.valid().map_or_else(Vec::new, |(spec, resource)| (spec.remarks)(resource))
    }

    /// The remark on a valid object that is part of no port's policy: it matches nothing. `None` if
    /// that is normal, or reported otherwise.
    pub fn idle(&self) -> Option<FieldError> {
        let (spec, resource) = self.valid()?;
        (spec.idle)(resource, &self.meta.key.namespace)
    }

    fn valid(&self) -> Option<(&'static KindSpec, &Resource)> {
        match &self.body {
            Body::Valid(resource) => Some((self.meta.key.kind.spec(), resource)),
            Body::Invalid(_) => None,
        }
    }
}
