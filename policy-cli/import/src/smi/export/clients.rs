//! The ServiceAccounts of grants.

use policy_core::{
    Authorization, AuthorizationSet, Condition, IdentityMatch, NetworkMatch, NetworkTerm,
    Predicate, Requirement,
};
use std::collections::BTreeSet;

/// A ServiceAccount: its namespace and name.
pub(super) type Account = (String, String);

/// The ServiceAccount of an identity of the mesh: its namespace and name.
pub type AccountOfIdentity<'a> = &'a dyn Fn(&str) -> Option<(String, String)>;

/// The clients of grants, as far as SMI can name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SmiClients {
    /// The ServiceAccounts.
    pub(super) accounts: BTreeSet<Account>,
    /// Grants that cannot be said.
    pub(super) lost: BTreeSet<String>,
}

impl SmiClients {
    /// Adds the clients of grants.
    pub(super) fn add(&mut self, grants: &AuthorizationSet, account_of: AccountOfIdentity<'_>) {
        for grant in grants.iter() {
            match accounts(grant, account_of) {
                Ok((accounts, others)) => {
                    self.accounts.extend(accounts);
                    self.lost.extend(others.iter().map(|name| {
                        format!("{}: `{name}` is no ServiceAccount of this mesh", grant.source)
                    }));
                }
                Err(reason) => {
                    self.lost.insert(format!("{}: {reason}", grant.source));
                }
            }
        }
    }
}

/// The accounts of a grant and the identities that are no accounts, or the reason why it cannot be said.
fn accounts(
    grant: &Authorization,
    account_of: AccountOfIdentity<'_>,
) -> Result<(BTreeSet<Account>, BTreeSet<String>), &'static str> {
    let conditions = match &grant.requirement {
        Requirement::Nothing => return Err("it grants to everybody"),
        Requirement::All(conditions) => conditions,
    };
    let mut names: Option<BTreeSet<&str>> = None;
    for Condition { source: _, test } in conditions.iter() {
        match test {
            Predicate::Identity(matches) => {
                if matches.contains(&IdentityMatch::Any) {
                    continue;
                }
                let own = exact_names(matches)?;
                names = Some(match names {
                    Some(known) => known.intersection(&own).copied().collect(),
                    None => own,
                });
            }
            Predicate::Network(networks) if is_everywhere(networks) => {}
            Predicate::Network(_) => return Err("networks of clients cannot be said"),
            Predicate::MeshTls => {}
            Predicate::TlsPassthrough => return Err("TLS of the application cannot be said"),
            Predicate::Segment(_) => return Err("conditions on segments of paths cannot be said"),
        }
    }
    let names = names.ok_or("it names no ServiceAccounts")?;
    let (mut accounts, mut others) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        match account_of(name) {
            Some(account) => {
                accounts.insert(account);
            }
            None => {
                others.insert(name.to_owned());
            }
        }
    }
    Ok((accounts, others))
}

fn exact_names(matches: &[IdentityMatch]) -> Result<BTreeSet<&str>, &'static str> {
    let names = matches.iter().map(|it| match it {
        IdentityMatch::Exact(name) => Ok(&**name),
        IdentityMatch::Any | IdentityMatch::Suffix(_) => {
            Err("all ServiceAccounts of a namespace cannot be said")
        }
    });
    names.collect()
}

/// True for networks that have every address.
fn is_everywhere(networks: &[NetworkMatch]) -> bool {
    let whole = |is_v4: bool| {
        networks.iter().any(|network| match network.term {
            NetworkTerm::Net(net) => {
                network.except.is_empty() && net.prefix_len() == 0 && net.addr().is_ipv4() == is_v4
            }
            NetworkTerm::Symbol(_) => false,
        })
    };
    whole(true) && whole(false)
}
