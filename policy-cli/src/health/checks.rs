//! Evaluation of all checks.

use super::accounts::accounts;
use super::ca_bundle::{ca_bundle, certificate};
use super::failed_create::failed_create;
use super::leader::leader;
use super::ready::ready;
use super::replica::replicas;
use super::roots::{in_namespaces, roots};
use super::sidecars::{missing, not_ready};
use super::snapshot::Snapshot;
use super::versions::{of_all_sidecars, versions};
use super::webhook_configurations::webhook_configurations;
use super::webhook_probe::evaluate;
use crate::diagnostics::check::Check;
use crate::diagnostics::clock::clock;
use crate::diagnostics::definition_owners::definition_owners;
use crate::diagnostics::definitions::{definitions, gateway_api};
use crate::diagnostics::fetch::FetchError;
use crate::diagnostics::pod_networks::pod_networks;
use crate::diagnostics::result::CheckResult;
use crate::diagnostics::security::pod_security;
use crate::diagnostics::server;
use crate::version::pod_version::of_sidecar;
use serde_json::Value;

/// Runs all checks on a snapshot.
pub(crate) fn run_checks(snapshot: &Snapshot) -> Vec<CheckResult> {
    let mut all = vec![
        server::version(&snapshot.server.version),
        clock(snapshot.server.date, snapshot.local),
        gateway_api(&snapshot.kinds),
    ];
    all.extend(definitions(&snapshot.kinds, snapshot.release()));
    all.push(definition_owners(&snapshot.definitions, &snapshot.linkerd_releases));
    control_plane(snapshot, &mut all);
    webhooks(snapshot, &mut all);
    certificates(snapshot, &mut all);
    if snapshot.has_injector() {
        all.extend(pod_security(&snapshot.namespaces, &[], snapshot.injector()));
        all.extend(failed_create(
            &snapshot.refused,
            &snapshot.created,
            &snapshot.namespaces,
            snapshot.injector(),
        ));
    } else {
        all.push(CheckResult::pass(Check::PodSecurity, "the injector is disabled"));
    }
    all.push(missing(&snapshot.namespaces, &snapshot.pods, snapshot.injector()));
    all.extend(not_ready(&snapshot.pods));
    let networks = snapshot.looked_up_networks();
    let has_sidecar = |pod: &Value| of_sidecar(pod).is_some();
    all.push(pod_networks(&snapshot.pods, networks.as_deref(), has_sidecar));
    all.extend(of_all_sidecars(&snapshot.pods, &snapshot.controllers));
    all
}

fn control_plane(snapshot: &Snapshot, all: &mut Vec<CheckResult>) {
    let Snapshot { deployments, controllers, issuers, .. } = snapshot;
    all.push(ready(Check::Controller, "policy-controller", deployments, controllers));
    if snapshot.has_issuer() {
        all.push(ready(Check::Issuer, "portcullis-issuer", deployments, issuers));
    } else {
        all.push(CheckResult::pass(Check::Issuer, "identities come from another service"));
    }
    all.extend(replicas(&snapshot.replicas));
    all.push(leader(&snapshot.lease, controllers, snapshot.now()));
    all.push(versions(controllers, issuers));
    all.extend(accounts(&snapshot.accounts));
    // Checks that depend on unknown flags assume the chart's defaults.
    let unknown =
        [("controller", snapshot.controller.as_ref().err()), ("issuer", issuer_error(snapshot))];
    all.extend(unknown.into_iter().filter_map(|(what, words)| {
        let words =
            format!("settings of the {what}, so the chart's defaults are assumed: {}", words?);
        Some(CheckResult::unknown(Check::Replicas, &FetchError::Failed(words)))
    }));
}

/// Error of reading the issuer's flags, if an issuer is expected.
fn issuer_error(snapshot: &Snapshot) -> Option<&String> {
    snapshot.issuer.as_ref().err().filter(|_| snapshot.has_issuer())
}

fn webhooks(snapshot: &Snapshot, all: &mut Vec<CheckResult>) {
    all.extend(webhook_configurations(&snapshot.webhooks));
    all.extend(ca_bundle(&snapshot.webhooks, snapshot.secret.as_ref()));
    all.extend(snapshot.refusal.as_ref().map(|tried| match tried {
        Ok(tried) => evaluate(tried),
        Err(why) => CheckResult::unknown(Check::WebhookAnswers, why),
    }));
}

fn certificates(snapshot: &Snapshot, all: &mut Vec<CheckResult>) {
    all.extend(certificate(&snapshot.webhooks, snapshot.secret.as_ref(), snapshot.now()));
    all.push(roots(&snapshot.roots, snapshot.now()));
    if snapshot.has_issuer() {
        let Snapshot { roots, all_roots, namespaces, .. } = snapshot;
        all.extend(in_namespaces(roots, all_roots, namespaces, snapshot.injector()));
    }
}
