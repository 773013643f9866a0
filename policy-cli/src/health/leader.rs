//! Checks that one replica holds the leader Lease and has renewed it recently.

use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::metadata::{name, text};
use crate::diagnostics::result::CheckResult;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Tolerated clock skew between replicas and the API server.
const SLACK: Duration = Duration::from_secs(20);

/// Checks the Lease by the API server's clock.
pub(super) fn leader(
    lease: &FetchResult<Option<Value>>,
    controllers: &FetchResult<Vec<Value>>,
    now: SystemTime,
) -> CheckResult {
    let check = Check::Leader;
    let hint = "the log of the controller says why no replica leads: the rights on the Lease, or the API \
                server. Without a leader policies take effect, and no status is written";
    let lease = match lease {
        Ok(Some(lease)) => lease,
        Ok(None) => {
            return CheckResult::fail(check, "there is no Lease: no replica has led yet", hint);
        }
        Err(why) => return CheckResult::unknown(check, why),
    };
    let holder = text(lease, "/spec/holderIdentity");
    if holder.is_empty() {
        return CheckResult::fail(check, "no replica holds the Lease", hint);
    }
    let renewed = text(lease, "/spec/renewTime").parse::<jiff::Timestamp>().ok();
    let Some(renewed) = renewed.map(SystemTime::from) else {
        return CheckResult::fail(check, format!("{holder} has never renewed the Lease"), hint);
    };
    let lasts = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64).unwrap_or(30);
    let age = now.duration_since(renewed).unwrap_or_default();
    if age > Duration::from_secs(lasts).saturating_add(SLACK) {
        let age = age.as_secs();
        let message = format!("{holder} renewed the Lease {age} s ago, and it lasts {lasts} s");
        return CheckResult::fail(check, message, hint);
    }
    let known = controllers.as_ref().is_ok_and(|pods| {
        pods.iter().any(|pod| holder.starts_with(name(pod)) && !name(pod).is_empty())
    });
    if !known && controllers.as_ref().is_ok_and(|pods| !pods.is_empty()) {
        return CheckResult::warn(
            check,
            format!("{holder} leads and is none of the controller's pods"),
            "see whether another installation, or a controller outside of the cluster, uses the Lease",
        );
    }
    CheckResult::pass(check, format!("{holder} leads"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    fn at(seconds: u64, holder: &str, pods: &[&str]) -> CheckOutcome {
        let lease = json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 30,
            "renewTime": "2026-01-01T00:00:00.000000Z"}});
        let start = SystemTime::from("2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap());
        let pods = pods.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        leader(&Ok(Some(lease)), &Ok(pods), start + Duration::from_secs(seconds)).outcome
    }

    #[test]
    fn a_leader_is_a_pod_that_has_renewed_its_lease() {
        assert_eq!(at(10, "c-0", &["c-0"]), CheckOutcome::Pass);
        assert_eq!(at(10, "c-0_1", &["c-0"]), CheckOutcome::Pass);
        assert_eq!(at(50, "c-0", &["c-0"]), CheckOutcome::Pass);
        assert_eq!(at(51, "c-0", &["c-0"]), CheckOutcome::Fail);
        assert_eq!(at(10, "", &["c-0"]), CheckOutcome::Fail);
        assert_eq!(at(10, "laptop", &["c-0"]), CheckOutcome::Warn);
        let now = SystemTime::now();
        assert_eq!(leader(&Ok(None), &Ok(vec![]), now).outcome, CheckOutcome::Fail);
        let never = json!({"spec": {"holderIdentity": "c-0"}});
        assert_eq!(leader(&Ok(Some(never)), &Ok(vec![]), now).outcome, CheckOutcome::Fail);
        let unread = Err(FetchError::Failed("no".to_owned()));
        assert_eq!(leader(&unread, &Ok(vec![]), now).outcome, CheckOutcome::Unknown);
    }
}
