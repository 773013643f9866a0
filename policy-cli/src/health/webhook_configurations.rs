//! Checks that the API server has the expected webhook configurations.

use super::snapshot::WebhookConfiguration;
use crate::diagnostics::check::Check;
use crate::diagnostics::metadata::{items, text};
use crate::diagnostics::result::{CheckResult, abbreviated};

/// Checks each configuration.
pub(super) fn webhook_configurations(configurations: &[WebhookConfiguration]) -> Vec<CheckResult> {
    let check = Check::Webhooks;
    let mut findings: Vec<CheckResult> = configurations.iter().filter_map(of).collect();
    if findings.is_empty() {
        let names: Vec<String> = configurations.iter().map(|one| one.name.clone()).collect();
        let message = match configurations.len() {
            0 => "the controller serves no webhooks".to_owned(),
            _ => format!("every webhook is configured ({})", names.join(", ")),
        };
        findings.push(CheckResult::pass(check, message));
    }
    findings
}

fn of(configuration: &WebhookConfiguration) -> Option<CheckResult> {
    let WebhookConfiguration { name, webhooks, found } = configuration;
    let check = Check::Webhooks;
    let hint = "`helm upgrade` recreates it";
    let found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Some(CheckResult::fail(check, format!("{name} does not exist"), hint)),
        Err(why) => return Some(CheckResult::unknown(check, why)),
    };
    let there: Vec<&str> =
        items(found, "/webhooks").map(|webhook| text(webhook, "/name")).collect();
    let missing: Vec<String> =
        webhooks.iter().filter(|name| !there.contains(&name.as_str())).cloned().collect();
    (!missing.is_empty())
        .then(|| CheckResult::fail(check, format!("{name} lacks {}", abbreviated(&missing)), hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::{FetchError, FetchResult};
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;
    use serde_json::{Value, json};

    #[test]
    fn a_webhook_that_is_not_there_is_named() {
        let of = |found: FetchResult<Option<Value>>| {
            let webhooks = vec!["a".to_owned(), "b".to_owned()];
            webhook_configurations(&[WebhookConfiguration {
                name: "validating/x".to_owned(),
                webhooks,
                found,
            }])
        };
        let both = of(Ok(Some(json!({"webhooks": [{"name": "b"}, {"name": "a"}]}))));
        let expected = "every webhook is configured (validating/x)";
        assert_eq!(summaries(&both), [(CheckOutcome::Pass, expected)]);
        let one = of(Ok(Some(json!({"webhooks": [{"name": "b"}]}))));
        assert_eq!(summaries(&one), [(CheckOutcome::Fail, "validating/x lacks a")]);
        assert_eq!(summaries(&of(Ok(None))), [(CheckOutcome::Fail, "validating/x does not exist")]);
        assert_eq!(of(Err(FetchError::Failed("no".to_owned())))[0].outcome, CheckOutcome::Unknown);
    }
}
