//! Clients that an object names and that do not exist.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use policy_core::IdentityMatch;
use policy_crds::resource::NamespacedName;
use policy_crds::spec::Client;
use policy_crds::{Kind, Object, ObjectKey, nearest};
use std::collections::BTreeSet;

/// The ServiceAccount that Kubernetes makes in every namespace.
const DEFAULT: &str = "default";

impl Finder<'_> {
    /// ServiceAccounts that the object names and that do not exist.
    pub(super) fn clients(&self, object: &Object) -> Vec<Finding> {
        let key = &object.meta.key;
        let missing = self.named(object).into_iter().filter_map(|(field, client)| {
            let account = key.elsewhere(Kind::ServiceAccount, &client);
            if *account.name == *DEFAULT || self.index.object(&account).is_some() {
                return None;
            }
            let kind = match account.namespace == key.namespace {
                true => FindingKind::ClientMissing,
                false => FindingKind::ForeignClientMissing,
            };
            let message = format!("{account} does not exist{}", self.suggest_account(&account));
            Some(Finding { other: Some(account), ..finding(key, kind, &field, message) })
        });
        missing.collect()
    }

    /// The ServiceAccount that was probably meant.
    fn suggest_account(&self, account: &ObjectKey) -> String {
        let inside = self.index.list(Kind::ServiceAccount, &account.namespace);
        let names: Vec<&str> =
            inside.take(self.examined).map(|object| &*object.meta.key.name).collect();
        if let Some(near) = nearest(&account.name, &names) {
            return format!("; is `{near}` meant?");
        }
        // A namespace that has some is no mistyped one.
        if !names.is_empty() || !self.may_search_namespaces() {
            return String::new();
        }
        let elsewhere = self.namespaces_of_account(&account.name);
        let elsewhere: Vec<&str> = elsewhere.into_iter().collect();
        let near = nearest(&account.namespace, &elsewhere);
        near.map(|near| format!("; is that of namespace `{near}` meant?")).unwrap_or_default()
    }

    /// The namespaces that have a ServiceAccount of this name.
    fn namespaces_of_account(&self, name: &str) -> BTreeSet<&str> {
        let all = self.index.all(Kind::ServiceAccount).take(self.examined);
        all.filter(|object| *object.meta.key.name == *name)
            .map(|object| &*object.meta.key.namespace)
            .collect()
    }

    /// The ServiceAccounts that an object names, by name or by an identity of this mesh.
    fn named(&self, object: &Object) -> Vec<(String, NamespacedName)> {
        let named = object.clients().into_iter().filter_map(|named| match named.client {
            Client::Account(name) => Some((named.field, name)),
            Client::Identity(IdentityMatch::Exact(identity)) => {
                let (name, namespace) = self.config.service_account_of(&identity)?;
                let name = NamespacedName { namespace: Some(namespace.into()), name: name.into() };
                Some((named.field, name))
            }
            Client::Identity(IdentityMatch::Any | IdentityMatch::Suffix(_)) => None,
        });
        named.collect()
    }
}
