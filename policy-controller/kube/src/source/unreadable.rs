//! Reports of objects that outbound discovery cannot read. No status and no finding is about them.

use policy_crds::{Body, FieldError, Object, ObjectKey};
use policy_engine::source::Change;
use std::collections::BTreeSet;

/// The objects of one watch that cannot be read.
#[derive(Debug, Default)]
pub(super) struct UnreadableObjects {
    known: BTreeSet<ObjectKey>,
}

impl UnreadableObjects {
    /// Logs each object that has become unreadable, once.
    pub(super) fn note(&mut self, changes: &[Change]) {
        for (key, error) in self.appeared(changes) {
            tracing::warn!(object = %key, %error, "cannot be read, so no endpoint of it is used");
        }
    }

    /// The objects of discovery that have become unreadable, each with its first error.
    fn appeared<'a>(&mut self, changes: &'a [Change]) -> Vec<(&'a ObjectKey, &'a FieldError)> {
        let mut new = Vec::new();
        for change in changes {
            let (key, error) = match change {
                Change::Apply(object) => (&object.meta.key, error_of(object)),
                Change::Delete(key) | Change::Keep(key) => (key, None),
                Change::Synced => continue,
            };
            match error {
                Some(error) if self.known.insert(key.clone()) => new.push((key, error)),
                Some(_) => {}
                None => _ = self.known.remove(key),
            }
        }
        new
    }
}

fn error_of(object: &Object) -> Option<&FieldError> {
    match &object.body {
        Body::Invalid(invalid) if object.meta.key.kind.is_for_discovery() => invalid.errors.first(),
        Body::Invalid(_) | Body::Valid(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn object(kind: &str, spec: &serde_json::Value) -> Change {
        let metadata = json!({"name": "web", "namespace": "shop"});
        let value = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec});
        Change::Apply(Arc::new(policy_crds::parse(&value).unwrap()))
    }

    #[test]
    fn an_object_is_reported_when_it_becomes_unreadable_and_not_while_it_stays_so() {
        let wrong = object("Service", &json!({"ports": [{"port": 0}]}));
        let right = object("Service", &json!({"ports": [{"port": 80}]}));
        let Change::Apply(service) = &right else { panic!("no object") };
        let gone = Change::Delete(service.meta.key.clone());
        let mut unreadable = UnreadableObjects::default();
        let mut note = |changes: &[Change]| -> Vec<String> {
            let new = unreadable.appeared(changes);
            new.iter().map(|(key, error)| format!("{key}: {}", error.field)).collect()
        };
        let reported = ["Service shop/web: spec.ports[0].port"];
        assert_eq!(note(std::slice::from_ref(&wrong)), reported);
        assert_eq!(note(std::slice::from_ref(&wrong)), [""; 0]);
        assert_eq!(note(&[right, wrong.clone()]), reported);
        assert_eq!(note(&[gone, Change::Synced, wrong]), reported);
        assert_eq!(note(&[object("Pod", &json!({"containers": 7}))]), [""; 0]);
    }
}
