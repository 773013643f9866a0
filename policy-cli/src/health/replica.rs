//! Checks the state that each replica reports at `/ready?verbose`: missing inputs, disabled
//! functions and delayed watches.

use crate::cluster::pod_http::{PodRequestError, PodResponse};
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchError;
use crate::diagnostics::result::CheckResult;

/// Evaluates the replicas' responses, by pod.
pub(super) fn replicas(
    pages: &[(String, Result<PodResponse, PodRequestError>)],
) -> Vec<CheckResult> {
    let check = Check::Replicas;
    let mut findings: Vec<CheckResult> =
        pages.iter().flat_map(|(pod, page)| replica(pod, page)).collect();
    if findings.is_empty() && !pages.is_empty() {
        let message = format!("{} replicas respond, are in sync and miss nothing", pages.len());
        findings.push(CheckResult::pass(check, message));
    }
    findings
}

fn replica(pod: &str, page: &Result<PodResponse, PodRequestError>) -> Vec<CheckResult> {
    let check = Check::Replicas;
    let page = match page {
        Ok(page) => page,
        Err(PodRequestError { message, forbidden }) => {
            let message = format!("what pod {pod} reports: {message}");
            let error = if *forbidden {
                let permission = "{apiGroups: [\"\"], resources: [pods/portforward], verbs: [create, get]} in \
                     the control plane's namespace";
                FetchError::Forbidden { permission: permission.to_owned(), message }
            } else {
                FetchError::Failed(message)
            };
            return vec![CheckResult::unknown(check, &error)];
        }
    };
    let mut findings = Vec::new();
    let first = page.text.lines().next().unwrap_or_default();
    if page.status != 200 {
        findings.push(CheckResult::fail(
            check,
            format!("pod {pod} says: {first} (HTTP status {})", page.status),
            "the message names what it waits for; the pod's log says why",
        ));
    }
    for line in page.text.lines() {
        if let Some(remark) = line.strip_prefix("remark: ") {
            findings.push(CheckResult::warn(
                check,
                format!("pod {pod} says: {remark}"),
                "the line says what to do; of a watch that is late: what it knows may be old, look at \
                 the API server and at the controller's rights",
            ));
        } else if let Some(function) = line.strip_prefix("without: ") {
            findings.push(CheckResult::warn(
                check,
                format!("pod {pod} does without: {function}"),
                "this follows from its flags: docs/controller.md says what it costs",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::CheckOutcome;
    use crate::diagnostics::result::tests::summaries;

    fn pages(status: u16, text: &str) -> Vec<(String, Result<PodResponse, PodRequestError>)> {
        vec![("c-0".to_owned(), Ok(PodResponse { status, text: text.to_owned() }))]
    }

    #[test]
    fn a_replica_says_what_it_misses() {
        let findings = replicas(&pages(200, "ready\n"));
        let expected = "1 replicas respond, are in sync and miss nothing";
        assert_eq!(summaries(&findings), [(CheckOutcome::Pass, expected)]);
        let findings = replicas(&pages(500, "not ready: pods are not listed\nremark: x is late\n"));
        assert_eq!(
            summaries(&findings),
            [
                (
                    CheckOutcome::Fail,
                    "pod c-0 says: not ready: pods are not listed (HTTP status 500)"
                ),
                (CheckOutcome::Warn, "pod c-0 says: x is late"),
            ]
        );
        let findings = replicas(&pages(200, "ready\nwithout: status\n"));
        assert_eq!(summaries(&findings), [(CheckOutcome::Warn, "pod c-0 does without: status")]);
        assert_eq!(replicas(&[]), []);
    }

    #[test]
    fn only_forbidden_requests_name_a_permission() {
        let of = |forbidden| {
            let silent = Err(PodRequestError { message: "no".to_owned(), forbidden });
            replicas(&[("c-0".to_owned(), silent)]).remove(0)
        };
        let (refused, failed) = (of(true), of(false));
        assert_eq!(
            (refused.outcome, failed.outcome),
            (CheckOutcome::Unknown, CheckOutcome::Unknown)
        );
        assert_eq!(failed.message, "not known: what pod c-0 reports: no");
        assert_eq!(failed.hint, None);
        let right = "resources: [pods/portforward], verbs: [create, get]";
        assert!(refused.hint.unwrap().contains(right));
    }
}
