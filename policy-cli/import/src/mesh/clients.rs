//! Conditions on clients.

use policy_crds::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Clients by name, one of which is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedClients {
    /// ServiceAccounts: namespace and name.
    pub(crate) accounts: BTreeSet<(String, String)>,
    /// Namespaces, all of whose ServiceAccounts are meant.
    pub(crate) namespaces: BTreeSet<String>,
    /// Identities as they are written.
    pub(crate) identities: BTreeSet<String>,
}

/// A condition on the identity of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IdentityCondition {
    /// With an identity or without.
    Anyone,
    /// With any identity that is verified.
    Verified,
    /// With one of these.
    Named(NamedClients),
}

/// A condition on the address of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NetworkCondition {
    /// From anywhere.
    Anywhere,
    /// From the networks of the cluster.
    Cluster,
    /// From one of these networks, each without its exceptions.
    Listed(Vec<(String, Vec<String>)>),
}

/// A condition on clients, both of whose parts must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientCondition {
    /// The identity.
    pub(crate) identity: IdentityCondition,
    /// The address.
    pub(crate) networks: NetworkCondition,
}

impl NamedClients {
    /// True if it names nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.namespaces.is_empty() && self.identities.is_empty()
    }

    /// The clients that both name.
    fn met(&self, other: &Self) -> Self {
        let in_one =
            |(namespace, _): &&(String, String), of: &Self| of.namespaces.contains(namespace);
        let mut accounts: BTreeSet<(String, String)> =
            self.accounts.intersection(&other.accounts).cloned().collect();
        accounts.extend(self.accounts.iter().filter(|it| in_one(it, other)).cloned());
        accounts.extend(other.accounts.iter().filter(|it| in_one(it, self)).cloned());
        Self {
            accounts,
            namespaces: self.namespaces.intersection(&other.namespaces).cloned().collect(),
            identities: self.identities.intersection(&other.identities).cloned().collect(),
        }
    }

    /// These without the others, and whether somebody is left out who is none of the others.
    fn without(&self, other: &Self) -> (Self, bool) {
        let accounts: BTreeSet<_> = self
            .accounts
            .iter()
            .filter(|it| !other.accounts.contains(*it) && !other.namespaces.contains(&it.0))
            .cloned()
            .collect();
        // A namespace without one of its accounts cannot be said.
        let touched = |namespace: &String| other.accounts.iter().any(|(it, _)| it == namespace);
        let namespaces: BTreeSet<_> = self
            .namespaces
            .iter()
            .filter(|it| !other.namespaces.contains(*it) && !touched(it))
            .cloned()
            .collect();
        let more = self.namespaces.iter().any(|it| touched(it) && !other.namespaces.contains(it));
        // An identity that is written out may be that of an account.
        let certain = other.identities.is_empty();
        let identities = self.identities.iter().filter(|_| other.is_empty()).cloned().collect();
        if !certain {
            return (Self::default(), !self.is_empty());
        }
        let lost = !self.identities.is_empty() && !other.is_empty();
        (Self { accounts, namespaces, identities }, more || lost)
    }
}

impl IdentityCondition {
    /// The condition under which both hold; `None`: never.
    pub(crate) fn met(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Anyone, it) | (it, Self::Anyone) => Some(it.clone()),
            (Self::Verified, it) | (it, Self::Verified) => Some(it.clone()),
            (Self::Named(one), Self::Named(other)) => {
                let both = one.met(other);
                (!both.is_empty()).then_some(Self::Named(both))
            }
        }
    }
}

impl ClientCondition {
    /// Every client.
    pub(crate) fn anyone() -> Self {
        Self { identity: IdentityCondition::Anyone, networks: NetworkCondition::Anywhere }
    }

    /// Clients with these identities, from anywhere.
    pub(crate) fn with(identity: IdentityCondition) -> Self {
        Self { identity, networks: NetworkCondition::Anywhere }
    }

    /// These clients without the others, and whether more are left out. `None`: nobody is left.
    pub(crate) fn without(&self, other: &Self) -> (Option<Self>, bool) {
        let by_network = other.networks != NetworkCondition::Anywhere;
        match (&self.identity, &other.identity) {
            // Nobody has no identity and a name. One of another network may be left out with them.
            (IdentityCondition::Named(own), IdentityCondition::Named(denied)) => {
                let (left, more) = own.without(denied);
                let more = more || (by_network && left != *own);
                let left = (!left.is_empty()).then(|| Self {
                    identity: IdentityCondition::Named(left),
                    networks: self.networks.clone(),
                });
                (left, more)
            }
            (
                IdentityCondition::Named(_) | IdentityCondition::Verified,
                IdentityCondition::Anyone,
            )
            | (IdentityCondition::Named(_), IdentityCondition::Verified) => (None, by_network),
            (IdentityCondition::Verified, IdentityCondition::Verified)
            | (IdentityCondition::Anyone, IdentityCondition::Anyone) => (None, by_network),
            (IdentityCondition::Verified, IdentityCondition::Named(_))
            | (
                IdentityCondition::Anyone,
                IdentityCondition::Verified | IdentityCondition::Named(_),
            ) => (None, true),
        }
    }

    /// The requirements of an AuthorizationPolicy for these clients.
    pub(crate) fn requirements(&self) -> Vec<GrantRequirement> {
        let mut found = Vec::new();
        match &self.identity {
            IdentityCondition::Anyone => {}
            IdentityCondition::Verified => {
                let spec = json!({"identities": ["*"]});
                found.push(GrantRequirement::Object(Kind::MeshTlsAuthentication, spec));
            }
            IdentityCondition::Named(named) => found.push(named.requirement()),
        }
        match &self.networks {
            NetworkCondition::Cluster => {
                let reference = json!({
                    "group": "portcullis.dev", "kind": "NetworkSet", "name": "cluster",
                });
                found.push(GrantRequirement::Reference(reference));
            }
            NetworkCondition::Listed(networks) => {
                let network = |(cidr, except): &(String, Vec<String>)| match except.is_empty() {
                    true => json!({"cidr": cidr}),
                    false => json!({"cidr": cidr, "except": except}),
                };
                let networks: Vec<Value> = networks.iter().map(network).collect();
                let spec = json!({"networks": networks});
                found.push(GrantRequirement::Object(Kind::NetworkAuthentication, spec));
            }
            // An empty list of requirements asks for nothing. Written out, nobody takes it for a mistake.
            NetworkCondition::Anywhere if found.is_empty() => {
                let spec = json!({"networks": [{"cidr": "0.0.0.0/0"}, {"cidr": "::/0"}]});
                found.push(GrantRequirement::Object(Kind::NetworkAuthentication, spec));
            }
            NetworkCondition::Anywhere => {}
        }
        found
    }
}

/// One requirement of an AuthorizationPolicy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GrantRequirement {
    /// A reference as it is written.
    Reference(Value),
    /// A reference to an object of this kind and spec.
    Object(Kind, Value),
}

impl NamedClients {
    fn requirement(&self) -> GrantRequirement {
        let account = |(namespace, name): &(String, String)| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
        let others = self.namespaces.is_empty() && self.identities.is_empty();
        if let (true, 1, Some(only)) = (others, self.accounts.len(), self.accounts.first()) {
            return GrantRequirement::Reference(account(only));
        }
        let namespace = |name: &String| json!({"kind": "Namespace", "name": name});
        let mut references: Vec<Value> = self.accounts.iter().map(account).collect();
        references.extend(self.namespaces.iter().map(namespace));
        let mut spec = json!({});
        if let Value::Object(fields) = &mut spec {
            if !references.is_empty() {
                fields.insert("identityRefs".to_owned(), json!(references));
            }
            if !self.identities.is_empty() {
                fields.insert("identities".to_owned(), json!(self.identities));
            }
        }
        GrantRequirement::Object(Kind::MeshTlsAuthentication, spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(accounts: &[(&str, &str)], namespaces: &[&str]) -> IdentityCondition {
        let account =
            |(namespace, name): &(&str, &str)| ((*namespace).to_owned(), (*name).to_owned());
        IdentityCondition::Named(NamedClients {
            accounts: accounts.iter().map(account).collect(),
            namespaces: namespaces.iter().map(|it| (*it).to_owned()).collect(),
            identities: BTreeSet::new(),
        })
    }

    #[test]
    fn both_conditions_hold_for_those_that_both_name() {
        let shop = named(&[], &["shop"]);
        let cart = named(&[("shop", "cart"), ("bank", "ledger")], &[]);
        assert_eq!(shop.met(&cart), Some(named(&[("shop", "cart")], &[])));
        assert_eq!(IdentityCondition::Anyone.met(&shop), Some(shop.clone()));
        assert_eq!(IdentityCondition::Verified.met(&cart), Some(cart.clone()));
        assert_eq!(shop.met(&named(&[], &["bank"])), None);
    }

    #[test]
    fn nobody_who_is_denied_is_left() {
        let of = |identity| ClientCondition::with(identity);
        let both = of(named(&[("shop", "cart"), ("shop", "web")], &[]));
        let cart = of(named(&[("shop", "cart")], &[]));
        assert_eq!(both.without(&cart), (Some(of(named(&[("shop", "web")], &[]))), false));
        assert_eq!(of(named(&[], &["shop"])).without(&cart), (None, true));
        assert_eq!(
            of(named(&[], &["bank"])).without(&cart),
            (Some(of(named(&[], &["bank"]))), false)
        );
        assert_eq!(ClientCondition::anyone().without(&cart), (None, true));
        assert_eq!(cart.without(&ClientCondition::anyone()), (None, false));
        assert_eq!(of(IdentityCondition::Verified).without(&cart), (None, true));
    }
}
