//! Sources of rules: who sends.

use super::policy::IstioPolicy;
use crate::file::SourceNode;
use crate::mesh::{ClientCondition, IdentityCondition, NamedClients, NetworkCondition};
use policy_crds::quote;

/// The fields that are translated.
const FIELDS: &[&str] = &["principals", "namespaces", "serviceAccounts", "ipBlocks", "notIpBlocks"];

/// The other fields of a source.
const OTHERS: &[&str] = &[
    "notPrincipals",
    "requestPrincipals",
    "notRequestPrincipals",
    "notNamespaces",
    "notServiceAccounts",
    "trustDomains",
    "notTrustDomains",
    "remoteIpBlocks",
    "notRemoteIpBlocks",
];

/// The clients of a source, all of whose fields must hold; or why they cannot be said. Where `left_out` takes the
/// reasons, as for a rule that allows, names that cannot be said are left out beside others.
///
/// # Errors
/// It has another form than its definition says.
pub(super) fn clients(
    source: &SourceNode<'_>,
    policy: &IstioPolicy<'_>,
    mut left_out: Option<&mut Vec<String>>,
) -> Result<Result<ClientCondition, String>, String> {
    if let Some(message) = source.untranslated_lists(FIELDS, OTHERS)? {
        return Ok(Err(message));
    }
    let mut identity = IdentityCondition::Anyone;
    for field in ["principals", "namespaces", "serviceAccounts"] {
        let mut texts = source.texts_of(field)?;
        if texts.is_empty() {
            continue;
        }
        if let Some(left_out) = &mut left_out {
            let reason = |text: &&str| identities(field, &[text], policy).err();
            let reasons: Vec<String> = texts.iter().filter_map(reason).collect();
            if reasons.len() < texts.len() {
                texts.retain(|text| reason(text).is_none());
                left_out.extend(reasons);
            }
        }
        match identities(field, &texts, policy) {
            Ok(own) => match identity.met(&own) {
                Some(both) => identity = both,
                None => return Ok(Err("no client has all of its fields".to_owned())),
            },
            Err(reason) => return Ok(Err(reason)),
        }
    }
    let blocks = source.texts_of("ipBlocks")?;
    let except = source.texts_of("notIpBlocks")?;
    let networks = match (blocks.is_empty(), except.is_empty()) {
        (true, true) => NetworkCondition::Anywhere,
        (false, true) => NetworkCondition::Listed(
            blocks.into_iter().map(|block| (network(block), Vec::new())).collect(),
        ),
        (_, false) => return Ok(Err("`notIpBlocks`: use `ipBlocks` of what is meant".to_owned())),
    };
    Ok(Ok(ClientCondition { identity, networks }))
}

/// An address as a network.
fn network(text: &str) -> String {
    match (text.contains('/'), text.contains(':')) {
        (true, _) => text.to_owned(),
        (false, true) => format!("{text}/128"),
        (false, false) => format!("{text}/32"),
    }
}

/// The identities that a field lists, one of which is enough; or why they cannot be said.
pub(super) fn identities(
    field: &str,
    texts: &[&str],
    policy: &IstioPolicy<'_>,
) -> Result<IdentityCondition, String> {
    let read = |text: &str, clients: &mut NamedClients| match field {
        "principals" => principal(text, &policy.trust_domain, clients),
        "serviceAccounts" => account(text, &policy.namespace, clients),
        _ => namespace(text, clients),
    };
    let mut clients = NamedClients::default();
    for text in texts {
        match read(text, &mut clients) {
            // Any verified identity: the others of the list add nothing.
            Some(true) => return Ok(IdentityCondition::Verified),
            Some(false) => {}
            None => return Err(format!("{} names nobody here", quote(text))),
        }
    }
    Ok(IdentityCondition::Named(clients))
}

/// The name by which a principal means the trust domain of its own mesh.
const OWN_DOMAIN: &str = "cluster.local";

/// Adds the ServiceAccount or the namespace of a principal; true: any is meant. `None`: neither, such as one of
/// another trust domain, whose ServiceAccounts are not those of this cluster.
fn principal(text: &str, trust_domain: &str, clients: &mut NamedClients) -> Option<bool> {
    if text == "*" {
        return Some(true);
    }
    let is_own = |domain: &str| domain == trust_domain || domain == OWN_DOMAIN;
    match text.split('/').collect::<Vec<_>>()[..] {
        [domain, "ns", namespace, "sa", "*"] if is_own(domain) && is_plain(namespace) => {
            clients.namespaces.insert(namespace.to_owned());
        }
        [domain, "ns", namespace, "*"] if is_own(domain) && is_plain(namespace) => {
            clients.namespaces.insert(namespace.to_owned());
        }
        [domain, "ns", namespace, "sa", name]
            if is_own(domain) && is_plain(namespace) && is_plain(name) =>
        {
            clients.accounts.insert((namespace.to_owned(), name.to_owned()));
        }
        _ => return None,
    }
    Some(false)
}

/// Adds a ServiceAccount: `NAMESPACE/NAME`, or a name in the namespace of the policy. Istio takes no patterns.
fn account(text: &str, own: &str, clients: &mut NamedClients) -> Option<bool> {
    let (namespace, name) = text.split_once('/').unwrap_or((own, text));
    (is_plain(namespace) && is_plain(name) && !name.contains('/')).then(|| {
        clients.accounts.insert((namespace.to_owned(), name.to_owned()));
        false
    })
}

fn namespace(text: &str, clients: &mut NamedClients) -> Option<bool> {
    if text == "*" {
        return Some(true);
    }
    is_plain(text).then(|| {
        clients.namespaces.insert(text.to_owned());
        false
    })
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains('*')
}
