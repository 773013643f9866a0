//! Whether the API server is configured to ask the webhooks that ought to be there.

use super::facts::Configuration;
use crate::checkup::check::Check;
use crate::checkup::finding::{Finding, some};
use crate::checkup::metadata::{items, text};

/// Looks at each configuration.
pub(super) fn configured(configurations: &[Configuration]) -> Vec<Finding> {
    let check = Check::Webhooks;
    let mut findings: Vec<Finding> = configurations.iter().filter_map(of).collect();
    if findings.is_empty() {
        let names: Vec<String> = configurations.iter().map(|one| one.name.clone()).collect();
        let message = match configurations.len() {
            0 => "the controller is told to serve no webhooks".to_owned(),
            _ => format!("the API server is told of every webhook ({})", names.join(", ")),
        };
        findings.push(Finding::pass(check, message));
    }
    findings
}

fn of(configuration: &Configuration) -> Option<Finding> {
    let Configuration { name, webhooks, found } = configuration;
    let check = Check::Webhooks;
    let mend = "`helm upgrade` makes it anew";
    let found = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Some(Finding::fail(check, format!("{name} does not exist"), mend)),
        Err(why) => return Some(Finding::unknown(check, why)),
    };
    let there: Vec<&str> =
        items(found, "/webhooks").map(|webhook| text(webhook, "/name")).collect();
    let missing: Vec<String> =
        webhooks.iter().filter(|name| !there.contains(&name.as_str())).cloned().collect();
    (!missing.is_empty())
        .then(|| Finding::fail(check, format!("{name} lacks {}", some(&missing)), mend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::finding::Outcome;
    use crate::checkup::finding::tests::told;
    use crate::checkup::read::{Read, Unread};
    use serde_json::{Value, json};

    #[test]
    fn a_webhook_that_is_not_there_is_named() {
        let of = |found: Read<Option<Value>>| {
            let webhooks = vec!["a".to_owned(), "b".to_owned()];
            configured(&[Configuration { name: "validating/x".to_owned(), webhooks, found }])
        };
        let both = of(Ok(Some(json!({"webhooks": [{"name": "b"}, {"name": "a"}]}))));
        let expected = "the API server is told of every webhook (validating/x)";
        assert_eq!(told(&both), [(Outcome::Pass, expected)]);
        let one = of(Ok(Some(json!({"webhooks": [{"name": "b"}]}))));
        assert_eq!(told(&one), [(Outcome::Fail, "validating/x lacks a")]);
        assert_eq!(told(&of(Ok(None))), [(Outcome::Fail, "validating/x does not exist")]);
        assert_eq!(of(Err(Unread::Failed("no".to_owned())))[0].outcome, Outcome::Unknown);
    }
}
