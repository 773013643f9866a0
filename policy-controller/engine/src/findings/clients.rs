//! Clients that an object names and that do not exist.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use policy_crds::resource::{IdentityRef, IdentityRequirement, NamespacedName};
use policy_crds::{Kind, ObjectKey, Resource};

impl Finder<'_> {
    /// ServiceAccounts of the object's own namespace that it names and that do not exist. Of other
    /// namespaces nothing is told to outsiders.
    pub(super) fn clients(&self, key: &ObjectKey, resource: &Resource) -> Vec<Finding> {
        let namespace = &key.namespace;
        let missing = named(resource).into_iter().filter_map(|(field, client)| {
            let own = client.namespace.as_ref().is_none_or(|of| of == namespace);
            let (kind, name) = (Kind::ServiceAccount, client.name.clone());
            let account = ObjectKey { kind, namespace: namespace.clone(), name };
            let missing = own && self.index.object(&account).is_none();
            let message = format!("{account} does not exist");
            missing.then(|| finding(key, FindingKind::ClientMissing, &field, message))
        });
        missing.collect()
    }
}

/// The ServiceAccounts that an object names, each with its field.
fn named(resource: &Resource) -> Vec<(String, &NamespacedName)> {
    if let Resource::AuthorizationPolicy(policy) = resource
        && let Some(IdentityRequirement::ServiceAccount(name)) = &policy.identity
    {
        vec![("spec.requiredAuthenticationRefs".to_owned(), name)]
    } else if let Resource::MeshTlsAuthentication(authentication) = resource {
        let references = authentication.identity_refs.iter().enumerate();
        let accounts = references.filter_map(|(i, reference)| {
            let IdentityRef::ServiceAccount(name) = reference else { return None };
            Some((format!("spec.identityRefs[{i}].name"), name))
        });
        accounts.collect()
    } else {
        Vec::new()
    }
}
