//! The client of a question, as people name it.

use super::target::pod;
use crate::authz::select::{WorkloadSelection, WorkloadTarget, pods};
use crate::inventory::Inventory;
use anyhow::bail;
use policy_core::Identity;
use policy_engine::ControllerConfig;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A client: by its ServiceAccount, its identity or its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientArgument {
    /// The ServiceAccount of a namespace.
    Account(String, String),
    /// An identity as certificates carry it.
    Identity(Identity),
    /// An address, without mesh TLS.
    Address(IpAddr),
}

impl ClientArgument {
    /// The identity that the client proves; none of an address.
    pub(crate) fn identity(&self, config: &ControllerConfig) -> Option<Identity> {
        match self {
            Self::Account(namespace, name) => {
                Some(Identity::Dns(config.service_account_identity(namespace, name)))
            }
            Self::Identity(identity) => Some(identity.clone()),
            Self::Address(_) => None,
        }
    }

    /// The ServiceAccount, as namespace and name, where the identity is one of this mesh.
    pub(crate) fn account(&self, config: &ControllerConfig) -> Option<(String, String)> {
        match self {
            Self::Account(namespace, name) => Some((namespace.clone(), name.clone())),
            Self::Identity(Identity::Dns(identity)) => {
                let suffix = format!(".serviceaccount.identity.{}", config.identity_suffix());
                let (name, namespace) = identity.strip_suffix(&*suffix)?.rsplit_once('.')?;
                Some((namespace.to_owned(), name.to_owned()))
            }
            Self::Identity(Identity::Spiffe(_)) | Self::Address(_) => None,
        }
    }
}

impl FromStr for ClientArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('*') {
            return Err(format!(
                "`{text}` is no client: a question is about one client, not a pattern"
            ));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if text.starts_with("spiffe://") {
            return Ok(Self::Identity(Identity::Spiffe(text.into())));
        }
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["sa" | "serviceaccount" | "serviceaccounts", namespace, name]
                if !namespace.is_empty() && !name.is_empty() =>
            {
                Ok(Self::Account((*namespace).to_owned(), (*name).to_owned()))
            }
            [name] if name.contains('.') && !name.contains(char::is_whitespace) => {
                Ok(Self::Identity(Identity::Dns(name.to_ascii_lowercase().into())))
            }
            _ => Err(format!(
                "`{text}` is no client: sa/NAMESPACE/NAME, a workload such as deploy/NAME, an identity as \
                 certificates carry it, or an address"
            )),
        }
    }
}

/// The client of `--from`: as above, by the short name that answers print, or a workload with the ServiceAccount of
/// its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WhyClient {
    /// A client.
    Client(ClientArgument),
    /// A workload, with its text.
    Workload(WorkloadTarget, String),
}

impl FromStr for WhyClient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = match text.parse::<ClientArgument>() {
            Ok(ClientArgument::Identity(Identity::Dns(name))) => {
                return Ok(Self::Client(match name.split('.').collect::<Vec<_>>()[..] {
                    // Answers print the identity of an account so. No identity of a mesh is that short.
                    [name, namespace] if !name.is_empty() && !namespace.is_empty() => {
                        ClientArgument::Account(namespace.to_owned(), name.to_owned())
                    }
                    _ => ClientArgument::Identity(Identity::Dns(name)),
                }));
            }
            Ok(client) => return Ok(Self::Client(client)),
            Err(error) => error,
        };
        let parts: Vec<&str> = text.split('/').collect();
        let target = text.parse::<WorkloadTarget>();
        match (parts.as_slice(), target) {
            ([_, _], Ok(target @ (WorkloadTarget::Workload(..) | WorkloadTarget::Other(..)))) => {
                Ok(Self::Workload(target, text.to_owned()))
            }
            _ => match text.split(':').collect::<Vec<_>>()[..] {
                ["system", "serviceaccount", namespace, name] => {
                    Err(format!("{error}; is it sa/{namespace}/{name}?"))
                }
                _ => Err(error),
            },
        }
    }
}

impl WhyClient {
    /// The client, by the ServiceAccount of a workload's pods.
    ///
    /// # Errors
    /// There is no such workload, or its pods have several ServiceAccounts.
    pub(crate) async fn found(self, inventory: &Inventory) -> anyhow::Result<ClientArgument> {
        let (target, text) = match self {
            Self::Client(client) => return Ok(client),
            Self::Workload(target, text) => (target, text),
        };
        let workloads = match (pods(inventory, &target).await, text.split_once('/')) {
            (Ok(WorkloadSelection::These(workloads)), _) => workloads,
            (Ok(WorkloadSelection::All), _) => bail!("`{text}` names no workload"),
            // The word may be a namespace.
            (Err(error), Some((namespace, name)))
                if matches!(target, WorkloadTarget::Other(..)) =>
            {
                bail!("{error}; or is it sa/{namespace}/{name}?")
            }
            (Err(error), _) => return Err(error),
        };
        let account = |key| {
            let pod = pod(inventory, key)?;
            Some((key.namespace.to_string(), pod.service_account.to_string()))
        };
        let accounts: BTreeSet<(String, String)> = workloads.iter().filter_map(account).collect();
        let mut accounts = accounts.into_iter();
        match (accounts.next(), accounts.next()) {
            (Some((namespace, name)), None) => Ok(ClientArgument::Account(namespace, name)),
            _ => bail!("`{text}` is not of one ServiceAccount: name one as sa/NAMESPACE/NAME"),
        }
    }
}

impl fmt::Display for ClientArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(namespace, name) => write!(f, "sa/{namespace}/{name}"),
            Self::Identity(identity) => f.write_str(identity.as_str()),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_clients_is_no_client() {
        let config = ControllerConfig::default();
        let all = config.service_account_identity("shop", "*").to_string();
        for pattern in ["*", "*.example", "sa/shop/*", "sa/*/cart", "spiffe://a/*", &all] {
            assert!(pattern.parse::<ClientArgument>().is_err(), "{pattern}");
        }
    }

    #[test]
    fn the_short_name_that_answers_print_is_the_account() {
        let read = |text: &str| text.parse::<WhyClient>();
        let account = ClientArgument::Account("shop".to_owned(), "cart".to_owned());
        assert_eq!(read("cart.shop"), Ok(WhyClient::Client(account.clone())));
        assert_eq!(read("sa/shop/cart"), Ok(WhyClient::Client(account)));
        let other = ClientArgument::Identity(Identity::Dns("a.b.example".into()));
        assert_eq!(read("a.b.example"), Ok(WhyClient::Client(other)));
        for workload in ["deploy/cart", "cronjob/nightly", "statefulset.apps/db"] {
            assert!(matches!(read(workload), Ok(WhyClient::Workload(..))), "{workload}");
        }
        for (wrong, hint) in [
            ("system:serviceaccount:shop:cart", "is it sa/shop/cart?"),
            ("cart", "sa/NAMESPACE/NAME"),
            ("deploy/shop/cart", "sa/NAMESPACE/NAME"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn clients_are_named_by_account_identity_or_address() {
        let read = |text: &str| text.parse::<ClientArgument>();
        let account = ClientArgument::Account("shop".to_owned(), "cart".to_owned());
        assert_eq!(read("sa/shop/cart"), Ok(account.clone()));
        assert_eq!(read("serviceaccount/shop/cart"), Ok(account.clone()));
        assert_eq!(read("10.1.2.3"), Ok(ClientArgument::Address([10, 1, 2, 3].into())));
        let spiffe = Identity::Spiffe("spiffe://a/b".into());
        assert_eq!(read("spiffe://a/b"), Ok(ClientArgument::Identity(spiffe)));
        let config = ControllerConfig::default();
        let name = config.service_account_identity("shop", "cart");
        let whole = read(&name);
        assert_eq!(whole, Ok(ClientArgument::Identity(Identity::Dns(name.clone()))));
        let whole = whole.unwrap();
        assert_eq!(whole.account(&config), account.account(&config));
        assert_eq!(whole.identity(&config), account.identity(&config));
        for wrong in ["cart", "sa/cart", "sa//cart", "sa/shop/", "deploy/shop/cart", "", "a.b c"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
