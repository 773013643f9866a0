//! All that follows from what was read.

use super::accounts::accounts;
use super::answers::answers;
use super::authority::{authority, certificate};
use super::configured::configured;
use super::facts::Facts;
use super::leader::leader;
use super::ready::ready;
use super::refused::refused;
use super::replica::replicas;
use super::roots::{in_namespaces, roots};
use super::sidecars::{missing, not_ready};
use super::versions::{of_all_sidecars, versions};
use crate::diagnostics::check::Check;
use crate::diagnostics::clock::clock;
use crate::diagnostics::definitions::{definitions, gateway_api};
use crate::diagnostics::fetch::FetchError;
use crate::diagnostics::result::CheckResult;
use crate::diagnostics::security::{pod_security, requests_injection};
use crate::diagnostics::server;
use serde_json::Value;

/// Every finding.
pub(crate) fn findings(facts: &Facts) -> Vec<CheckResult> {
    let mut all = vec![
        server::version(&facts.server.version),
        clock(facts.server.date, facts.local),
        gateway_api(&facts.kinds),
    ];
    all.extend(definitions(&facts.kinds));
    control_plane(facts, &mut all);
    webhooks(facts, &mut all);
    certificates(facts, &mut all);
    if facts.has_injector() {
        let requests_injection = |namespace: &Value| requests_injection(namespace, &facts.home);
        all.extend(pod_security(&facts.namespaces, &[], &facts.home, requests_injection));
        all.extend(refused(&facts.refused, &facts.created, &facts.namespaces, &facts.home));
    } else {
        all.push(CheckResult::pass(Check::PodSecurity, "the controller is told to inject nothing"));
    }
    all.push(missing(&facts.namespaces, &facts.pods, &facts.home));
    all.push(not_ready(&facts.pods));
    all.extend(of_all_sidecars(&facts.pods, &facts.controllers));
    all
}

fn control_plane(facts: &Facts, all: &mut Vec<CheckResult>) {
    let Facts { deployments, controllers, issuers, .. } = facts;
    all.push(ready(Check::Controller, "policy-controller", deployments, controllers));
    if facts.has_issuer() {
        all.push(ready(Check::Issuer, "portcullis-issuer", deployments, issuers));
    } else {
        all.push(CheckResult::pass(Check::Issuer, "identities come from another service"));
    }
    all.extend(replicas(&facts.replicas));
    all.push(leader(&facts.lease, controllers, facts.now()));
    all.push(versions(controllers, issuers));
    all.extend(accounts(&facts.accounts));
    // What flags decide is looked at as the chart has it by default.
    let unknown =
        [("controller", facts.controller.as_ref().err()), ("issuer", issuer_error(facts))];
    all.extend(unknown.into_iter().filter_map(|(what, words)| {
        let words = format!(
            "what the {what} is told, so that the chart's defaults are assumed: {}",
            words?
        );
        Some(CheckResult::unknown(Check::Replicas, &FetchError::Failed(words)))
    }));
}

/// Why the flags of an issuer are not known that ought to be there.
fn issuer_error(facts: &Facts) -> Option<&String> {
    facts.issuer.as_ref().err().filter(|_| facts.has_issuer())
}

fn webhooks(facts: &Facts, all: &mut Vec<CheckResult>) {
    all.extend(configured(&facts.webhooks));
    all.extend(authority(&facts.webhooks, facts.secret.as_ref()));
    all.extend(facts.refusal.as_ref().map(|tried| match tried {
        Ok(tried) => answers(tried),
        Err(why) => CheckResult::unknown(Check::WebhookAnswers, why),
    }));
}

fn certificates(facts: &Facts, all: &mut Vec<CheckResult>) {
    all.extend(certificate(&facts.webhooks, facts.secret.as_ref(), facts.now()));
    all.push(roots(&facts.roots, facts.now()));
    if facts.has_issuer() {
        let Facts { roots, all_roots, namespaces, home, .. } = facts;
        all.extend(in_namespaces(roots, all_roots, namespaces, home));
    }
}
