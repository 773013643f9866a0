//! Policy of manifests that states no namespace, beside workloads that all do: it is in `default`, where it
//! finds none of them.

use super::context::CheckContext;
use super::finding::Finding;
use super::locations::Locations;
use policy_crds::spec::Conditions;
use policy_crds::{Body, ObjectKey};
use serde_json::Value;
use std::collections::BTreeSet;

/// The namespace of objects that state none.
const DEFAULT: &str = "default";

/// Returns a warning for each such object.
pub(super) fn findings(context: &CheckContext<'_>, locations: &Locations) -> Vec<Finding> {
    let workloads = context.compiled.workloads.keys();
    let namespaces: BTreeSet<&str> = workloads.map(|key| &*key.namespace).collect();
    if context.whole || namespaces.is_empty() || namespaces.contains(DEFAULT) {
        return Vec::new();
    }
    let unstated = unstated(locations);
    let objects = context.compiled.objects.iter();
    let valid = objects.filter(|object| matches!(object.body, Body::Valid(_)));
    let keys = valid.map(|object| &object.meta.key).filter(|key| unstated.contains(*key));
    let message = format!(
        "states no namespace, so that it is in `{DEFAULT}` unless it is applied with another; the workloads \
         are in {}",
        listed(&namespaces)
    );
    let warning = |key| Finding {
        explains: false,
        ..Finding::warning(key, "metadata".to_owned(), message.clone())
    };
    keys.map(warning).collect()
}

/// The objects of policy that state no namespace, also those in Lists.
fn unstated(locations: &Locations) -> BTreeSet<ObjectKey> {
    let documents = locations.files().flat_map(|(_, file)| &file.documents);
    let values = documents.filter_map(|document| document.value.as_ref().ok());
    let unstated = values.flat_map(policy_crds::parts).filter(|part| {
        let namespace = part.value.pointer("/metadata/namespace").and_then(Value::as_str);
        namespace.is_none_or(str::is_empty)
    });
    let keys = unstated.filter_map(|part| Some(policy_crds::parse(&part.value).ok()?.meta.key));
    keys.filter(|key| key.kind.is_namespaced() && key.kind.spec().conditions == Conditions::Always)
        .collect()
}

/// The first three of these names, and the number of the others.
fn listed(names: &BTreeSet<&str>) -> String {
    let first: Vec<&str> = names.iter().copied().take(3).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(3) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_namespaces_three_are_named_and_the_others_counted() {
        assert_eq!(listed(&["a", "b", "c"].into()), "a, b, c");
        assert_eq!(listed(&["a", "b", "c", "d", "e"].into()), "a, b, c and 2 more");
    }
}
