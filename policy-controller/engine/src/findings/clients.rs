//! Clients that an object names and that do not exist.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use policy_core::IdentityMatch;
use policy_crds::resource::{
    ClientRequirement, IdentityRef, IdentityRequirement, MeshTlsAuthentication, NamespacedName,
};
use policy_crds::{Kind, ObjectKey, Resource, nearest};

/// The ServiceAccount that Kubernetes makes in every namespace.
const DEFAULT: &str = "default";

impl Finder<'_> {
    /// ServiceAccounts that the object names and that do not exist.
    pub(super) fn clients(&self, key: &ObjectKey, resource: &Resource) -> Vec<Finding> {
        let missing = self.named(resource).into_iter().filter_map(|(field, client)| {
            let account = key.elsewhere(Kind::ServiceAccount, &client);
            if *account.name == *DEFAULT || self.index.object(&account).is_some() {
                return None;
            }
            let kind = match account.namespace == key.namespace {
                true => FindingKind::ClientMissing,
                false => FindingKind::ForeignClientMissing,
            };
            let message = format!("{account} does not exist{}", self.near_account(&account));
            Some(Finding { other: Some(account), ..finding(key, kind, &field, message) })
        });
        missing.collect()
    }

    /// The ServiceAccount that was probably meant.
    fn near_account(&self, account: &ObjectKey) -> String {
        let inside = self.index.list(Kind::ServiceAccount, &account.namespace);
        let names: Vec<&str> =
            inside.take(self.examined).map(|object| &*object.meta.key.name).collect();
        let near = nearest(&account.name, &names);
        near.map(|near| format!("; is `{near}` meant?")).unwrap_or_default()
    }

    /// The ServiceAccounts that an object names, each with its field.
    fn named(&self, resource: &Resource) -> Vec<(String, NamespacedName)> {
        if let Resource::AuthorizationPolicy(policy) = resource
            && let Some(IdentityRequirement::ServiceAccount(name)) = &policy.identity
        {
            vec![("spec.requiredAuthenticationRefs".to_owned(), name.clone())]
        } else if let Resource::MeshTlsAuthentication(authentication) = resource {
            let MeshTlsAuthentication { identities, identity_refs } = authentication;
            let mut named = self.by_identity("spec.identities", identities);
            named.extend(identity_refs.iter().enumerate().filter_map(|(i, reference)| {
                let IdentityRef::ServiceAccount(name) = reference else { return None };
                Some((format!("spec.identityRefs[{i}].name"), name.clone()))
            }));
            named
        } else if let Resource::ServerAuthorization(authorization) = resource
            && let ClientRequirement::Identities { identities, service_accounts } =
                &authorization.client
        {
            let mut named = self.by_identity("spec.client.meshTLS.identities", identities);
            named.extend(service_accounts.iter().enumerate().map(|(i, name)| {
                (format!("spec.client.meshTLS.serviceAccounts[{i}].name"), name.clone())
            }));
            named
        } else {
            Vec::new()
        }
    }

    /// The ServiceAccounts of this mesh whose identities are listed in a field.
    fn by_identity(
        &self,
        field: &str,
        identities: &[IdentityMatch],
    ) -> Vec<(String, NamespacedName)> {
        let accounts = identities.iter().enumerate().filter_map(|(i, identity)| {
            let IdentityMatch::Exact(identity) = identity else { return None };
            let (name, namespace) = self.config.service_account_of(identity)?;
            let name = NamespacedName { namespace: Some(namespace.into()), name: name.into() };
            Some((format!("{field}[{i}]"), name))
        });
        accounts.collect()
    }
}
