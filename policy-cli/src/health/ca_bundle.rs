//! Checks that the API server trusts the CA of the webhooks' certificate: `caBundle` of every
//! webhook, byte for byte.

use super::expiry::{Bundle, check_validity};
use super::snapshot::WebhookConfiguration;
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::{items, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use k8s_openapi::ByteString;
use serde_json::Value;
use std::time::SystemTime;

/// Compares every `caBundle` with the Secret of the serving certificate. Without a Secret,
/// certificate and CA are supplied by the operator.
pub(super) fn ca_bundle(
    configurations: &[WebhookConfiguration],
    secret: Option<&FetchResult<Option<Value>>>,
) -> Vec<CheckResult> {
    let check = Check::WebhookAuthority;
    let webhooks: Vec<(String, Option<Vec<u8>>)> =
        configurations.iter().flat_map(bundles).collect();
    let without = webhooks.iter().filter(|(_, bundle)| bundle.is_none());
    let without: Vec<String> = without.map(|(name, _)| name.clone()).collect();
    let mut findings = Vec::new();
    if !without.is_empty() {
        findings.push(CheckResult::fail(
            check,
            format!("caBundle is empty at {}", abbreviated(&without)),
            "the controller writes it: see its log, and its right to patch the configuration; a \
             supplied certificate takes admission.tls.caBundle",
        ));
    }
    let vouched = match secret {
        None => None,
        Some(Err(why)) => {
            findings.push(CheckResult::unknown(check, why));
            None
        }
        Some(Ok(secret)) => {
            let held = secret.as_ref().and_then(|secret| data(secret, "ca.crt"));
            if held.is_none() {
                findings.push(CheckResult::fail(
                    check,
                    "the Secret with the webhooks' certificate is missing or empty",
                    "`helm upgrade` recreates it, and the controller fills it: see its log",
                ));
            }
            held
        }
    };
    if let Some(vouched) = &vouched {
        let other =
            webhooks.iter().filter(|(_, bundle)| bundle.as_ref().is_some_and(|b| b != vouched));
        let other: Vec<String> = other.map(|(name, _)| name.clone()).collect();
        if !other.is_empty() {
            findings.push(CheckResult::fail(
                check,
                format!("caBundle is not who vouches for the served certificate at {}", abbreviated(&other)),
                "the controller puts it right within seconds: see its log, and whether something else \
                 (Argo CD, Flux) keeps writing caBundle",
            ));
        }
    }
    if findings.is_empty() && !webhooks.is_empty() {
        let whose =
            if vouched.is_some() { "who vouches for the served certificate" } else { "there" };
        let message = format!("caBundle of {} webhooks is {whose}", webhooks.len());
        findings.push(CheckResult::pass(check, message));
    }
    findings
}

/// Checks the validity of the serving certificate and of its CA.
pub(super) fn certificate(
    configurations: &[WebhookConfiguration],
    secret: Option<&FetchResult<Option<Value>>>,
    now: SystemTime,
) -> Vec<CheckResult> {
    let check = Check::WebhookCertificate;
    let mut findings = Vec::new();
    let hint =
        "the controller renews it: see its log (`cannot reconcile the webhook's certificate`)";
    match secret {
        Some(Err(why)) => findings.push(CheckResult::unknown(check, why)),
        Some(Ok(Some(secret))) => {
            if let Some(served) = data(secret, "tls.crt") {
                let bundle = Bundle { what: "the webhooks' certificate", pem: &served, hint };
                findings.push(check_validity(check, &bundle, now));
            }
        }
        Some(Ok(None)) | None => {}
    }
    let first = configurations.iter().flat_map(bundles).find_map(|(_, bundle)| bundle);
    if let Some(first) = first {
        let bundle = Bundle { what: "who vouches for it (caBundle)", pem: &first, hint };
        findings.push(check_validity(check, &bundle, now));
    }
    findings
}

/// Webhooks of a configuration that was read, each with its `caBundle`.
fn bundles(configuration: &WebhookConfiguration) -> Vec<(String, Option<Vec<u8>>)> {
    let Ok(Some(found)) = &configuration.found else { return Vec::new() };
    let webhooks = items(found, "/webhooks").map(|webhook| {
        let bundle = webhook.pointer("/clientConfig/caBundle").and_then(bytes);
        (text(webhook, "/name").to_owned(), bundle)
    });
    webhooks.collect()
}

/// Value of a Secret; `None` if missing or empty.
fn data(secret: &Value, key: &str) -> Option<Vec<u8>> {
    secret.get("data")?.get(key).and_then(bytes)
}

/// Bytes of a base64 field; `None` if missing or empty.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    let read = serde_json::from_value::<ByteString>(value.clone()).ok()?;
    (!read.0.is_empty()).then_some(read.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn configuration(bundle: Value) -> [WebhookConfiguration; 1] {
        let webhooks = json!([{"name": "a", "clientConfig": {"caBundle": bundle}}]);
        let found = Ok(Some(json!({ "webhooks": webhooks })));
        [WebhookConfiguration { name: "x".to_owned(), webhooks: Vec::new(), found }]
    }

    fn secret(roots: &str) -> FetchResult<Option<Value>> {
        Ok(Some(json!({"data": {"ca.crt": roots}})))
    }

    #[test]
    fn a_bundle_is_compared_byte_for_byte() {
        let of = |bundle: Value, secret: Option<&FetchResult<Option<Value>>>| {
            ca_bundle(&configuration(bundle), secret).remove(0)
        };
        // `one` and `two` in base64.
        let (one, two) = (secret("b25l"), secret("dHdv"));
        assert_eq!(of(json!("b25l"), Some(&one)).outcome, CheckOutcome::Pass);
        let other = of(json!("b25l"), Some(&two));
        assert_eq!(other.outcome, CheckOutcome::Fail);
        let expected = "caBundle is not who vouches for the served certificate at a";
        assert_eq!(other.message, expected);
        let none = of(Value::Null, Some(&one));
        assert_eq!(none.message, "caBundle is empty at a");
        assert_eq!(of(json!(""), Some(&one)).outcome, CheckOutcome::Fail);
        assert_eq!(of(json!("b25l"), Some(&Ok(None))).outcome, CheckOutcome::Fail);
        assert_eq!(of(json!("b25l"), None).outcome, CheckOutcome::Pass);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(of(json!("b25l"), Some(&unread)).outcome, CheckOutcome::Unknown);
    }

    #[test]
    fn what_is_no_certificate_is_reported() {
        let now = SystemTime::now();
        let findings = certificate(&configuration(json!("b25l")), None, now);
        assert_eq!(findings[0].outcome, CheckOutcome::Fail, "{findings:?}");
    }
}
