//! Leftovers of an earlier installation that would block a new one.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::text;
use crate::diagnostics::release::Release;
use crate::diagnostics::result::{CheckResult, abbreviated};
use serde_json::Value;

/// An object of the whole cluster that the chart would install.
pub(super) struct Leftover {
    /// Its kind and name, in `kubectl`'s format.
    pub(super) what: String,
    /// The object in the cluster.
    pub(super) found: FetchResult<Option<Value>>,
    /// True if the Service of a webhook exists; `None` for other objects.
    pub(super) service: Option<bool>,
}

/// Checks existing objects before `release` is installed. `installed` is true if the controller's
/// Deployment exists in its namespace.
pub(super) fn leftovers(
    left: &[Leftover],
    release: Release<'_>,
    installed: bool,
) -> Vec<CheckResult> {
    let check = Check::Leftovers;
    if let Some(why) = left.iter().find_map(|one| one.found.as_ref().err()) {
        return vec![CheckResult::unknown(check, why)];
    }
    let there: Vec<(&Leftover, &Value)> =
        left.iter().filter_map(|one| Some((one, one.found.as_ref().ok()?.as_ref()?))).collect();
    let mut findings: Vec<CheckResult> =
        there.iter().filter_map(|(one, _)| dangling_webhook(one)).collect();
    findings.extend(owned(&there, release));
    if findings.is_empty() {
        let message = match (there.is_empty(), installed) {
            (_, true) => format!(
                "Portcullis is in the cluster already, by {release}: `helm upgrade` it, and \
                 `portcullis health` says how it is"
            ),
            (true, false) => "no earlier installation left anything".to_owned(),
            (false, false) => {
                format!("what an earlier installation left is adopted by {release}")
            }
        };
        findings.push(CheckResult::pass(check, message));
    }
    findings
}

/// A webhook whose Service is missing: the API server waits for its response in vain.
fn dangling_webhook(left: &Leftover) -> Option<CheckResult> {
    (left.service == Some(false)).then(|| {
        CheckResult::fail(
            Check::Leftovers,
            format!(
                "{} is left and its Service is gone: the API server refuses what it would ask about",
                left.what
            ),
            format!("`kubectl delete {}`", left.what),
        )
    })
}

/// Objects that Helm would refuse to adopt. It compares name and namespace of the release.
fn owned(there: &[(&Leftover, &Value)], release: Release<'_>) -> Option<CheckResult> {
    let foreign: Vec<(&Leftover, Option<Release<'_>>)> = there
        .iter()
        .filter(|(one, _)| one.service != Some(false))
        .map(|(one, object)| (*one, Release::of(object)))
        .filter(|(_, owner)| *owner != Some(release))
        .collect();
    let (_, owner) = foreign.first()?;
    let names: Vec<String> = foreign.iter().map(|(left, _)| left.what.clone()).collect();
    let names = abbreviated(&names);
    Some(match owner {
        Some(owner) => CheckResult::fail(
            Check::Leftovers,
            format!("{owner} owns {names}: Helm does not adopt them for {release}"),
            format!(
                "`{}`, or remove that installation first; what is only left over is taken with \
                 `--take-ownership`",
                owner.upgrade()
            ),
        ),
        None => CheckResult::warn(
            Check::Leftovers,
            format!(
                "no Helm release owns {names}: Helm does not adopt objects that it did not create"
            ),
            "install with `--take-ownership`",
        ),
    })
}

/// Service of the first webhook of a configuration, as namespace and name; `None` if it has a URL.
pub(super) fn service(configuration: &Value) -> Option<(String, String)> {
    let of =
        |field: &str| text(configuration, &format!("/webhooks/0/clientConfig/service/{field}"));
    let (namespace, name) = (of("namespace"), of("name"));
    (!name.is_empty()).then(|| (namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;
    use serde_json::json;

    /// Something of the release `portcullis` of a namespace.
    fn left(owner: Option<&str>, service: Option<bool>) -> Leftover {
        left_by(owner.map(|namespace| Release { name: "portcullis", namespace }), service)
    }

    fn left_by(owner: Option<Release<'_>>, service: Option<bool>) -> Leftover {
        let annotations = owner.map(|Release { name, namespace }| {
            json!({"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace})
        });
        let object = json!({"metadata": {"annotations": annotations}});
        Leftover {
            what: "clusterrole/portcullis-issuer".to_owned(),
            found: Ok(Some(object)),
            service,
        }
    }

    fn outcomes(left: &[Leftover], installed: bool) -> Vec<(CheckOutcome, String)> {
        let release = Release { name: "portcullis", namespace: "mesh" };
        let findings = leftovers(left, release, installed);
        let told = summaries(&findings).into_iter();
        told.map(|(outcome, message)| (outcome, message.to_owned())).collect()
    }

    #[test]
    fn what_is_left_is_in_the_way_or_taken_up() {
        let said = |left: &[Leftover], installed| outcomes(left, installed).remove(0);
        let (outcome, message) = said(&[], false);
        assert_eq!(
            (outcome, &*message),
            (CheckOutcome::Pass, "no earlier installation left anything")
        );
        let (outcome, message) = said(&[left(Some("mesh"), None)], false);
        assert!(outcome == CheckOutcome::Pass && message.contains("is adopted"), "{message}");
        let (outcome, message) = said(&[left(Some("mesh"), None)], true);
        assert!(outcome == CheckOutcome::Pass && message.contains("`helm upgrade`"), "{message}");
        let (outcome, message) = said(&[left(Some("other"), None)], false);
        assert!(outcome == CheckOutcome::Fail && message.contains("namespace other"), "{message}");
        let other = Release { name: "guard", namespace: "mesh" };
        let (outcome, message) = said(&[left_by(Some(other), None)], true);
        assert_eq!(outcome, CheckOutcome::Fail);
        assert_eq!(
            message,
            "release guard of namespace mesh owns clusterrole/portcullis-issuer: Helm does not adopt \
             them for release portcullis of namespace mesh"
        );
        assert_eq!(said(&[left(None, None)], false).0, CheckOutcome::Warn);
        let unread =
            Leftover { found: Err(FetchError::Failed("no".to_owned())), ..left(None, None) };
        assert_eq!(said(&[unread], false).0, CheckOutcome::Unknown);
    }

    #[test]
    fn a_webhook_that_leads_nowhere_has_to_go() {
        let all = outcomes(&[left(Some("other"), Some(false))], false);
        let [(CheckOutcome::Fail, message)] = &all[..] else { panic!("{all:?}") };
        assert!(message.contains("its Service is gone"), "{message}");
        assert_eq!(outcomes(&[left(Some("mesh"), Some(true))], true)[0].0, CheckOutcome::Pass);
    }
}
