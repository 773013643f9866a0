//! Manifests of ReferenceGrants that would permit references.

use policy_core::ObjectRef;
use policy_crds::{Kind, ObjectKey};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The version of ReferenceGrant that every release of the Gateway API serves.
const API_VERSION: &str = "gateway.networking.k8s.io/v1beta1";

/// The longest name of an object that Kubernetes takes.
const MAX_NAME: usize = 253;

/// A ReferenceGrant, as manifests have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantManifest {
    api_version: &'static str,
    kind: &'static str,
    metadata: ManifestMetadata,
    spec: ManifestSpec,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ManifestMetadata {
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ManifestSpec {
    from: [ManifestFrom; 1],
    to: [ManifestTo; 1],
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct ManifestFrom {
    group: &'static str,
    kind: &'static str,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ManifestTo {
    group: String,
    kind: String,
    name: String,
}

/// The manifests made so far. One permits every reference of the same kind and namespace to the same
/// object, and none has the name of a grant that exists: applied, it would replace that one.
pub(crate) struct GrantManifests {
    taken: BTreeSet<(String, String)>,
    made: BTreeMap<(ManifestFrom, ObjectRef), GrantManifest>,
}

impl GrantManifests {
    /// No manifest yet, beside these ReferenceGrants.
    pub(crate) fn new(existing: impl Iterator<Item = ObjectKey>) -> Self {
        let taken = existing.map(|key| (key.namespace.to_string(), key.name.to_string()));
        Self { taken: taken.collect(), made: BTreeMap::new() }
    }

    /// The manifest that permits a reference, and no more than the object that it names.
    pub(crate) fn permitting(&mut self, from: &ObjectKey, to: &ObjectRef) -> GrantManifest {
        let plural = from.kind.plural();
        let from = ManifestFrom {
            group: from.kind.group(),
            kind: from.kind.as_str(),
            namespace: from.namespace.to_string(),
        };
        let place = (from.clone(), to.clone());
        if let Some(made) = self.made.get(&place) {
            return made.clone();
        }
        let stem = format!("{plural}-of-{}-to-{}", from.namespace, to.name());
        let namespace = to.namespace().to_owned();
        let manifest = GrantManifest {
            api_version: API_VERSION,
            kind: Kind::ReferenceGrant.as_str(),
            metadata: ManifestMetadata { name: self.name(&namespace, &stem), namespace },
            spec: ManifestSpec {
                from: [from],
                to: [ManifestTo {
                    group: to.group().to_owned(),
                    kind: to.kind().to_owned(),
                    name: to.name().to_owned(),
                }],
            },
        };
        self.made.insert(place, manifest.clone());
        manifest
    }

    /// A name that no ReferenceGrant of the namespace has.
    fn name(&mut self, namespace: &str, stem: &str) -> String {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
        // Room for a number.
        let stem: String = stem
            .to_ascii_lowercase()
            .chars()
            .map(|c| if fits(c) { c } else { '-' })
            .take(MAX_NAME.saturating_sub(10))
            .collect();
        let stem = stem.trim_end_matches(['.', '-']);
        let numbered = (2_u32..).map(|number| format!("{stem}-{number}"));
        for name in std::iter::once(stem.to_owned()).chain(numbered) {
            if self.taken.insert((namespace.to_owned(), name.clone())) {
                return name;
            }
        }
        stem.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { kind, namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn a_manifest_replaces_no_grant_that_exists() {
        let policy = |name: &str| key(Kind::AuthorizationPolicy, "shop", name);
        let all = ObjectRef::new("policy.linkerd.io", "MeshTLSAuthentication", "auth", "all");
        let existing = key(Kind::ReferenceGrant, "auth", "authorizationpolicies-of-shop-to-all");
        let mut manifests = GrantManifests::new([existing].into_iter());
        let first = manifests.permitting(&policy("a"), &all);
        assert_eq!(first.metadata.name, "authorizationpolicies-of-shop-to-all-2");
        assert_eq!(manifests.permitting(&policy("b"), &all), first, "one for both");
        let networks = ObjectRef::new("policy.linkerd.io", "NetworkAuthentication", "auth", "all");
        let third = manifests.permitting(&policy("a"), &networks);
        assert_eq!(third.metadata.name, "authorizationpolicies-of-shop-to-all-3");
    }

    #[test]
    fn names_of_any_object_become_names_that_kubernetes_takes() {
        let mut manifests = GrantManifests::new(std::iter::empty());
        let route = key(Kind::GrpcRoute, "shop", "r");
        for name in ["Web_1", "a: b", &"x".repeat(300), "-"] {
            let to = ObjectRef::new("", "Service", "bank", name);
            let manifest = manifests.permitting(&route, &to);
            let made = &manifest.metadata.name;
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(made.len() <= MAX_NAME && made.chars().all(fits), "{made}");
            assert!(made.starts_with("grpcroutes-of-shop-to") && !made.ends_with('-'), "{made}");
            assert_eq!(manifest.spec.to[0].name, name);
        }
    }
}
