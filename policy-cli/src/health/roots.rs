//! Trust roots of the mesh: their validity, and their distribution to namespaces.

use super::expiry::{Bundle, check_validity};
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::{name, namespace, text};
use crate::diagnostics::result::{CheckResult, abbreviated};
use serde_json::Value;
use std::time::SystemTime;

/// JSON pointer of the trust bundle in the ConfigMap.
const BUNDLE: &str = "/data/ca-bundle.crt";

/// Checks the validity of the roots in the control plane's namespace.
pub(super) fn roots(home: &FetchResult<Option<Value>>, now: SystemTime) -> CheckResult {
    let check = Check::Roots;
    let hint = "the issuer renews its authority: see its log; one of your own is replaced as \
                docs/issuer.md says";
    match home {
        Err(why) => CheckResult::unknown(check, why),
        Ok(None) => CheckResult::fail(
            check,
            "the control plane's namespace has no ConfigMap with the roots of the mesh",
            "the issuer writes it: see its log",
        ),
        Ok(Some(map)) => {
            let what = "the last root of the mesh to expire";
            check_validity(check, &Bundle { what, pem: text(map, BUNDLE).as_bytes(), hint }, now)
        }
    }
}

/// Checks that namespaces that ask `injector` for sidecars have the roots of the control plane's
/// namespace.
pub(super) fn in_namespaces(
    home: &FetchResult<Option<Value>>,
    all: &FetchResult<Vec<Value>>,
    namespaces: &FetchResult<Vec<Value>>,
    injector: InstalledInjector<'_>,
) -> Vec<CheckResult> {
    let check = Check::RootsInNamespaces;
    let (all, namespaces) = match (all, namespaces) {
        (Ok(all), Ok(namespaces)) => (all, namespaces),
        (Err(why), _) | (_, Err(why)) => return vec![CheckResult::unknown(check, why)],
    };
    let Ok(Some(home)) = home else { return Vec::new() };
    let asking: Vec<&str> =
        namespaces.iter().filter(|n| injector.is_asked_by(n)).map(name).collect();
    let of = |wanted: &str| all.iter().find(|map| namespace(map) == wanted);
    let mut missing = Vec::new();
    let mut other = Vec::new();
    for asking in &asking {
        match of(asking) {
            None => missing.push((*asking).to_owned()),
            Some(map) if text(map, BUNDLE) != text(home, BUNDLE) => {
                other.push((*asking).to_owned())
            }
            Some(_) => {}
        }
    }
    let hint = "the issuer brings them within seconds: see its log and its rights";
    let mut findings = Vec::new();
    if !missing.is_empty() {
        let message = format!("the roots of the mesh are missing in {}", abbreviated(&missing));
        findings.push(CheckResult::fail(check, message, hint));
    }
    if !other.is_empty() {
        let message = format!("the roots of the mesh differ in {}", abbreviated(&other));
        findings.push(CheckResult::warn(check, message, hint));
    }
    if findings.is_empty() {
        let message = format!("{} namespaces that ask for sidecars have the roots", asking.len());
        findings.push(CheckResult::pass(check, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;
    use serde_json::json;

    fn map(namespace: &str, bundle: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": "roots"},
               "data": {"ca-bundle.crt": bundle}})
    }

    #[test]
    fn namespaces_without_the_roots_are_named() {
        let asking = |name: &str| {
            json!({"kind": "Namespace", "metadata": {"name": name,
                "annotations": {"portcullis.dev/inject": "enabled"}}})
        };
        let namespaces = Ok(vec![asking("shop"), asking("bank")]);
        let home = Ok(Some(map("mesh", "one")));
        let injector = InstalledInjector { home: "mesh", reads_linkerd: false };
        let of = |maps: Vec<Value>| in_namespaces(&home, &Ok(maps), &namespaces, injector);
        let both = of(vec![map("shop", "one"), map("bank", "one")]);
        let expected = "2 namespaces that ask for sidecars have the roots";
        assert_eq!(summaries(&both), [(CheckOutcome::Pass, expected)]);
        let wrong = of(vec![map("shop", "two")]);
        assert_eq!(
            summaries(&wrong),
            [
                (CheckOutcome::Fail, "the roots of the mesh are missing in bank"),
                (CheckOutcome::Warn, "the roots of the mesh differ in shop"),
            ]
        );
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(
            in_namespaces(&home, &unread, &namespaces, injector)[0].outcome,
            CheckOutcome::Unknown
        );
    }

    #[test]
    fn a_control_plane_has_roots() {
        let now = SystemTime::now();
        assert_eq!(roots(&Ok(None), now).outcome, CheckOutcome::Fail);
        assert_eq!(roots(&Ok(Some(map("mesh", "no PEM"))), now).outcome, CheckOutcome::Fail);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(roots(&unread, now).outcome, CheckOutcome::Unknown);
    }
}
