//! Clients that an object names and that do not exist.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use policy_core::IdentityMatch;
use policy_crds::resource::NamespacedName;
use policy_crds::spec::Client;
use policy_crds::{Body, Kind, Object, ObjectKey, Resource, nearest};
use std::collections::BTreeSet;

/// The ServiceAccount that Kubernetes makes in every namespace, and a Namespace of every cluster.
const DEFAULT: &str = "default";

impl Finder<'_> {
    /// ServiceAccounts and Namespaces that the object names as clients and that do not exist.
    pub(super) fn clients(&self, object: &Object) -> Vec<Finding> {
        let named = self.named(object).into_iter();
        named.filter_map(|(field, client)| self.missing(&object.meta.key, &field, client)).collect()
    }

    /// The finding about a client that does not exist.
    fn missing(&self, key: &ObjectKey, field: &str, client: ObjectKey) -> Option<Finding> {
        let is_namespace = client.kind == Kind::Namespace;
        let exists = match is_namespace {
            true => self.has_namespace(&client),
            false => *client.name == *DEFAULT || self.index.object(&client).is_some(),
        };
        if exists {
            return None;
        }
        let suggestion = match is_namespace {
            true => self.suggest_client_namespace(&client),
            false => self.suggest_account(key, &client),
        };
        let kind = match client.namespace == key.namespace {
            true => FindingKind::ClientMissing,
            false => FindingKind::ForeignClientMissing,
        };
        let message = format!("{client} does not exist{suggestion}");
        Some(Finding { other: Some(client), ..finding(key, kind, field, message) })
    }

    /// True if a Namespace is known, by itself or by an account or a pod in it.
    fn has_namespace(&self, namespace: &ObjectKey) -> bool {
        let inside = |kind| self.index.list(kind, &namespace.name).next().is_some();
        self.index.object(namespace).is_some()
            || inside(Kind::ServiceAccount)
            || inside(Kind::Pod)
            || *namespace.name == *DEFAULT
    }

    /// The Namespace that was probably meant.
    fn suggest_client_namespace(&self, namespace: &ObjectKey) -> String {
        if !self.may_search_namespaces() {
            return String::new();
        }
        let all = self.index.all(Kind::Namespace).take(self.examined);
        let names: Vec<&str> = all.map(|object| &*object.meta.key.name).collect();
        let near = nearest(&namespace.name, &names);
        near.map(|near| format!("; is `{near}` meant?")).unwrap_or_default()
    }

    /// The ServiceAccount that was probably meant by the object with this key.
    fn suggest_account(&self, key: &ObjectKey, account: &ObjectKey) -> String {
        let inside = self.index.list(Kind::ServiceAccount, &account.namespace);
        let names: Vec<&str> =
            inside.take(self.examined).map(|object| &*object.meta.key.name).collect();
        if let Some(near) = nearest(&account.name, &names) {
            return format!("; is `{near}` meant?");
        }
        let is_own = account.namespace == key.namespace;
        // Another namespace that has some is no mistyped one.
        if !(is_own || names.is_empty()) || self.runs_as(account) || !self.may_search_namespaces() {
            return String::new();
        }
        let elsewhere = self.namespaces_of(Kind::ServiceAccount, &account.name);
        let elsewhere: Vec<&str> = elsewhere.into_iter().collect();
        let near = match elsewhere.as_slice() {
            // A reference without a namespace is about the object's own, which is easily overlooked.
            [only] if is_own => Some(*only),
            several => nearest(&account.namespace, several),
        };
        near.map(|near| format!("; is that of namespace `{near}` meant?")).unwrap_or_default()
    }

    /// True if a pod runs as an account, which is then declared elsewhere.
    fn runs_as(&self, account: &ObjectKey) -> bool {
        let mut pods = self.index.list(Kind::Pod, &account.namespace).take(self.examined);
        pods.any(|object| match &object.body {
            Body::Valid(Resource::Pod(pod)) => pod.service_account == account.name,
            Body::Valid(_) | Body::Invalid(_) => false,
        })
    }

    /// The namespaces that have an object of this kind and name.
    pub(super) fn namespaces_of(&self, kind: Kind, name: &str) -> BTreeSet<&str> {
        let all = self.index.all(kind).take(self.examined);
        all.filter(|object| *object.meta.key.name == *name)
            .map(|object| &*object.meta.key.namespace)
            .collect()
    }

    /// The ServiceAccounts and Namespaces that an object names, by name or by identities of this mesh.
    fn named(&self, object: &Object) -> Vec<(String, ObjectKey)> {
        let key = &object.meta.key;
        let account = |name| key.elsewhere(Kind::ServiceAccount, &name);
        let namespace = |name| ObjectKey { kind: Kind::Namespace, namespace: "".into(), name };
        let named = object.clients().into_iter().filter_map(|named| {
            let client = match named.client {
                Client::Account(name) => account(name),
                Client::Namespace(name) => namespace(name),
                Client::Identity(IdentityMatch::Exact(identity)) => {
                    let (name, of) = self.config.service_account_of(&identity)?;
                    account(NamespacedName { namespace: Some(of.into()), name: name.into() })
                }
                Client::Identity(IdentityMatch::Suffix(suffix)) => {
                    namespace(self.config.namespace_of_suffix(&suffix)?.into())
                }
                Client::Identity(IdentityMatch::Any) => return None,
            };
            Some((named.field, client))
        });
        named.collect()
    }
}
