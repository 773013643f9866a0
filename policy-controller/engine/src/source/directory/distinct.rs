//! Names of the pods that workloads stand for. Workloads of different kinds may have the same name, and so
//! would their pods.

use super::manifest::{DeclaredObject, Standing};
use policy_crds::{Body, Object, ObjectKey, Resource, name_with_kind};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the objects, each pod of a template under a name of its own: where another workload or a pod
/// has the name, the kind is part of it (`web-rollout-0`). A pod of a StatefulSet keeps its name before
/// other templates' pods, because it has the name in a cluster. Of a pod that is written beside its workload, as
/// `kubectl get all` prints them, the template's copy is left out.
pub(super) fn distinct<'a>(
    objects: impl Iterator<Item = &'a DeclaredObject> + Clone,
) -> Vec<Cow<'a, DeclaredObject>> {
    let is_pod = |item: &&DeclaredObject| pod_owner(&item.object).is_some();
    let written = objects.clone().filter(|item| !item.is_of_template).filter(is_pod);
    let (present, earlier): (Vec<_>, Vec<_>) =
        written.partition(|item| item.standing == Standing::Present);
    // Of two the present one counts.
    let written = earlier.into_iter().chain(present);
    let written: BTreeMap<&ObjectKey, Option<&str>> =
        written.map(|item| (&item.object.meta.key, pod_owner(&item.object).flatten())).collect();
    let of_templates = objects.clone().filter(|item| item.is_of_template);
    let stateful = of_templates.filter_map(|item| {
        let owner = pod_owner(&item.object).flatten()?;
        owner.starts_with("statefulset/").then_some((&item.object.meta.key, Some(owner)))
    });
    let mut taken: BTreeMap<&ObjectKey, Option<&str>> = stateful.collect();
    let name = |item: &'a DeclaredObject| {
        let Some(owner) = pod_owner(&item.object).filter(|_| item.is_of_template) else {
            return Some(Cow::Borrowed(item));
        };
        let key = &item.object.meta.key;
        match written.get(key) {
            Some(other) if *other == owner => return None,
            Some(_) => return Some(renamed(item, owner)),
            None => {}
        }
        match taken.get(key) {
            Some(other) if *other != owner => Some(renamed(item, owner)),
            Some(_) => Some(Cow::Borrowed(item)),
            None => {
                taken.insert(key, owner);
                Some(Cow::Borrowed(item))
            }
        }
    };
    objects.filter_map(name).collect()
}

/// The owner of a pod, such as `rollout/web`, if it has one; `None` for other objects.
fn pod_owner(object: &Object) -> Option<Option<&str>> {
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => Some(pod.owner.as_deref()),
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The pod with the kind of its owner in its name.
fn renamed<'a>(item: &'a DeclaredObject, owner: Option<&str>) -> Cow<'a, DeclaredObject> {
    let key = &item.object.meta.key;
    let Some(name) = owner.and_then(|owner| name_with_kind(owner, &key.name)) else {
        return Cow::Borrowed(item);
    };
    let mut object = Object::clone(&item.object);
    object.meta.key.name = name.into();
    // Workloads of kinds that are not read themselves have no other key.
    let is_own = item.declared == *key;
    let declared = if is_own { &object.meta.key } else { &item.declared }.clone();
    Cow::Owned(DeclaredObject { object: Arc::new(object), declared, ..item.clone() })
}
