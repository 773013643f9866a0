//! AuthorizationPolicies: rules that allow and deny.

use super::operation::{IstioOperation, RuleEffect, operation};
use super::policy::IstioPolicy;
use super::source::{clients, identities};
use crate::file::SourceNode;
use crate::mesh::{
    ClientCondition, DeniedClients, IdentityCondition, MeshDenial, MeshGrant, MeshPolicies,
    NamedClients, NetworkCondition,
};
use crate::report::Fidelity;
use policy_crds::quote;

/// Reads an AuthorizationPolicy.
///
/// # Errors
/// It has another form than its definition says.
pub(super) fn read(
    policy: &IstioPolicy<'_>,
    spec: Option<&SourceNode<'_>>,
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    let action = spec.and_then(|spec| spec.get("action"));
    let action_text = action.as_ref().map(|it| it.text()).transpose()?.unwrap_or("ALLOW");
    let rules = match spec {
        Some(spec) => spec.list_of("rules")?,
        None => Vec::new(),
    };
    match action_text {
        "ALLOW" => {
            let row = policies.row(policy.object.place(), &policy.subject);
            policies.closures.push((row, policy.selection.clone()));
            policies.closed_namespaces.extend(policy.whole_namespace.clone());
            for (number, rule) in (1_usize..).zip(&rules) {
                let row = policies.row(rule.place(), &format!("{} rule {number}", policy.subject));
                if let Err(reason) = allow(policy, rule, row, policies)? {
                    policies.worsen(row, Fidelity::Omitted, &reason);
                }
            }
            Ok(())
        }
        "DENY" => {
            for (number, rule) in (1_usize..).zip(&rules) {
                let row = policies.row(rule.place(), &format!("{} rule {number}", policy.subject));
                deny(policy, rule, row, policies)?;
            }
            if rules.is_empty() {
                let row = policies.row(policy.object.place(), &policy.subject);
                policies.worsen(row, Fidelity::Exact, "without rules it denies nothing");
            }
            Ok(())
        }
        "CUSTOM" => {
            policy.withhold(policies, "what another service decides cannot be said");
            Ok(())
        }
        "AUDIT" => {
            policies.omit(policy.object.place(), &policy.subject, "it decides nothing");
            Ok(())
        }
        other => {
            let node = action.unwrap_or_else(|| policy.object.clone());
            let allowed = "`ALLOW`, `DENY`, `AUDIT` and `CUSTOM` are allowed";
            Err(node.error(format!("{}: {allowed}", quote(other))))
        }
    }
}

/// A part of a rule; or why it cannot be said.
type RulePart<'a> = Result<SourceNode<'a>, String>;

/// The sources or operations of a rule, one of which is enough. What stands beside one, as by a wrong
/// indentation, may have been meant to narrow it.
fn parts<'a>(rule: &SourceNode<'a>, list: &str, part: &str) -> Result<Vec<RulePart<'a>>, String> {
    let read = |node: &SourceNode<'a>| {
        let found = node.require(part)?;
        Ok(match node.unknown(&[part]) {
            Some((other, _)) => Err(format!("`{}` does not belong beside `{part}`", other.key())),
            None => Ok(found),
        })
    };
    rule.list_of(list)?.iter().map(read).collect()
}

/// What `read` makes of a part; or why it cannot be said.
///
/// # Errors
/// Those of `read`.
fn said<'a, T>(
    part: RulePart<'a>,
    read: impl FnOnce(&SourceNode<'a>) -> Result<Result<T, String>, String>,
) -> Result<Result<T, String>, String> {
    part.map_or_else(|reason| Ok(Err(reason)), |node| read(&node))
}

/// Adds the grants of a rule; or the reason why there is none.
fn allow(
    policy: &IstioPolicy<'_>,
    rule: &SourceNode<'_>,
    row: usize,
    policies: &mut MeshPolicies,
) -> Result<Result<(), String>, String> {
    rule.entries()?;
    if let Some(message) = rule.untranslated(&["from", "to"], &["when"]) {
        return Ok(Err(message));
    }
    if let Some(message) = rule.empty_list(&["from", "to"]) {
        return Ok(Err(format!("{message}, which Istio refuses")));
    }
    let mut left_out = Vec::new();
    let mut senders = Vec::new();
    for source in parts(rule, "from", "source")? {
        match said(source, |node| clients(node, policy, Some(&mut left_out)))? {
            Ok(clients) => senders.push(clients),
            Err(reason) => lost(policies, row, &reason),
        }
    }
    let mut operations: Vec<IstioOperation> = Vec::new();
    for node in parts(rule, "to", "operation")? {
        match said(node, |node| operation(node, RuleEffect::Allow, &mut left_out))? {
            Ok(found) => operations.push(found),
            Err(reason) => lost(policies, row, &reason),
        }
    }
    left_out.iter().for_each(|reason| lost(policies, row, reason));
    // Without a list anybody may send anything; a list that cannot be said is none.
    if rule.list_of("from")?.is_empty() {
        senders.push(ClientCondition::anyone());
    }
    if rule.list_of("to")?.is_empty() {
        operations.push((None, None));
    }
    if senders.is_empty() || operations.is_empty() {
        return Ok(Err("nothing of it is granted".to_owned()));
    }
    for clients in united(senders) {
        for (ports, requests) in &operations {
            policies.grants.push(MeshGrant {
                row,
                name: policy.name.clone(),
                selection: policy.selection.clone(),
                ports: ports.clone(),
                clients: clients.clone(),
                requests: requests.clone(),
            });
        }
    }
    Ok(Ok(()))
}

fn lost(policies: &mut MeshPolicies, row: usize, reason: &str) {
    policies.worsen(row, Fidelity::Narrower, reason);
}

/// Alternatives with names alone as one.
fn united(senders: Vec<ClientCondition>) -> Vec<ClientCondition> {
    let mut names = NamedClients::default();
    let mut all = Vec::new();
    for clients in senders {
        match (clients.identity, clients.networks) {
            (IdentityCondition::Named(more), NetworkCondition::Anywhere) => {
                names.accounts.extend(more.accounts);
                names.namespaces.extend(more.namespaces);
            }
            (identity, networks) => all.push(ClientCondition { identity, networks }),
        }
    }
    if !names.is_empty() {
        all.push(ClientCondition::with(IdentityCondition::Named(names)));
    }
    all
}

/// Adds the denials of a rule. A part that cannot be said is of everything.
fn deny(
    policy: &IstioPolicy<'_>,
    rule: &SourceNode<'_>,
    row: usize,
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    rule.entries()?;
    if let Some(message) = rule.untranslated(&["from", "to"], &["when"]) {
        lost(policies, row, &format!("{message}: denied under any condition"));
    }
    let mut senders = Vec::new();
    for source in parts(rule, "from", "source")? {
        senders.push(match said(source, |node| denied(node, policy))? {
            Ok(clients) => clients,
            Err(reason) => {
                lost(policies, row, &format!("{reason}: denied from everybody"));
                DeniedClients::All
            }
        });
    }
    if senders.is_empty() {
        senders.push(DeniedClients::All);
    }
    let mut operations: Vec<IstioOperation> = Vec::new();
    for node in parts(rule, "to", "operation")? {
        let read = said(node, |node| operation(node, RuleEffect::Deny, &mut Vec::new()))?;
        operations.push(match read {
            Ok(found) => found,
            Err(reason) => {
                lost(policies, row, &format!("{reason}: every request is denied"));
                (None, None)
            }
        });
    }
    if operations.is_empty() {
        operations.push((None, None));
    }
    for clients in &senders {
        for (ports, requests) in &operations {
            policies.denials.push(MeshDenial {
                row,
                selection: policy.selection.clone(),
                ports: ports.clone(),
                clients: clients.clone(),
                requests: requests.clone(),
            });
        }
    }
    Ok(())
}

/// The clients that a source of a denial is about. `notPrincipals` and its kin are about all others.
fn denied(
    source: &SourceNode<'_>,
    policy: &IstioPolicy<'_>,
) -> Result<Result<DeniedClients, String>, String> {
    let keys: Vec<&str> = source.entries()?.into_iter().map(|(key, _)| key).collect();
    let (inverse, positive) = match keys[..] {
        ["notPrincipals"] => ("notPrincipals", "principals"),
        ["notNamespaces"] => ("notNamespaces", "namespaces"),
        ["notServiceAccounts"] => ("notServiceAccounts", "serviceAccounts"),
        _ => return Ok(clients(source, policy, None)?.map(DeniedClients::These)),
    };
    Ok(identities(positive, &source.texts_of(inverse)?, policy).map(DeniedClients::AllBut))
}
