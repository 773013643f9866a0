//! A cause of a decision in words, with the object that set it.

use super::judge::{Judged, Question};
use super::place::place;
use crate::inventory::Inventory;
use policy_core::{ObjectRef, Owner, Source, WorkloadKey};
use policy_crds::{Body, Kind, ObjectKey};
use policy_engine::findings::Finding;
use serde::Serialize;
use std::num::NonZeroU16;

/// A cause, with the object that set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    /// The cause in one sentence.
    pub(crate) summary: String,
    /// The object, as `Kind namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
    /// Its file and line, or how `kubectl` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<String>,
}

impl Cause {
    /// A cause that no object set.
    pub(super) fn of_nothing(summary: String) -> Self {
        Self { summary, object: None, place: None }
    }
}

/// The rank from which on causes count only where there are no nearer ones.
pub(super) const FAR: u8 = 6;

/// Finds the causes of a decision.
pub(super) struct CauseFinder<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) workload: &'a WorkloadKey,
    pub(super) port: NonZeroU16,
    pub(super) question: &'a Question,
    pub(super) judged: &'a Judged,
    /// Findings of the engine about every object; empty where the access is allowed.
    pub(super) findings: &'a [Finding],
}

/// The rank of a cause: the lowest comes first.
pub(super) type Ranked = (u8, Cause);

impl CauseFinder<'_> {
    /// A cause that an object set.
    pub(super) fn by(&self, object: &ObjectKey, field: &str, summary: String) -> Cause {
        let place = place(self.inventory, object, field);
        Cause { summary, object: Some(object.to_string()), place }
    }

    pub(super) fn by_source(&self, source: &Source, summary: String) -> Cause {
        match source {
            Source::Object(object) => match key_of(object) {
                Some(key) => self.by(&key, "", summary),
                None => Cause { summary, object: Some(object.to_string()), place: None },
            },
            Source::Default(_) => self.by_owner(summary),
        }
    }

    /// A cause that the owner of the port set: its Server, or the annotation of the default policy.
    pub(super) fn by_owner(&self, summary: String) -> Cause {
        match &self.judged.policy.owner {
            Owner::Server(server) => match key_of(server) {
                Some(key) => self.by(&key, "", summary),
                None => Cause { summary, object: Some(server.to_string()), place: None },
            },
            Owner::Default(_) => match self.annotated() {
                Some((object, field)) => self.by(&object, &field, summary),
                None => Cause::of_nothing(summary),
            },
        }
    }

    /// The object whose annotation sets the default policy, with the field; `None`: a flag does.
    fn annotated(&self) -> Option<(ObjectKey, String)> {
        const ANNOTATION: &str = "config.linkerd.io/default-inbound-policy";
        let own = super::target::object_key(self.workload);
        let namespace = ObjectKey {
            kind: Kind::Namespace,
            namespace: "".into(),
            name: self.workload.namespace.clone(),
        };
        [own, namespace].into_iter().find_map(|key| {
            let object = self.inventory.object(&key)?;
            let names = object.meta.annotations.keys();
            let name = names
                .into_iter()
                .find(|name| &***name == ANNOTATION || name.ends_with("/default-inbound-policy"))?;
            Some((key, policy_crds::annotation::field(name)))
        })
    }

    /// The owner of the port, as sentences name it.
    pub(super) fn owner(&self) -> String {
        match &self.judged.policy.owner {
            Owner::Server(server) => server.to_string(),
            Owner::Default(default) => format!("the default policy {}", default.as_str()),
        }
    }

    /// The first rule that an object breaks, with its field.
    pub(super) fn error_of(&self, key: &ObjectKey) -> Option<(String, String)> {
        match &self.inventory.object(key)?.body {
            Body::Valid(_) => None,
            Body::Invalid(invalid) => {
                let first = invalid.errors.first()?;
                Some((first.field.clone(), first.to_string()))
            }
        }
    }
}

/// The key of an object that a policy names.
pub(super) fn key_of(object: &ObjectRef) -> Option<ObjectKey> {
    let kind = Kind::find(object.group(), object.kind())?;
    Some(ObjectKey { kind, namespace: object.namespace().into(), name: object.name().into() })
}
