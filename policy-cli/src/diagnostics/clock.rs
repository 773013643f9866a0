//! Clock skew between the API server and this machine.

use super::check::Check;
use super::fetch::FetchError;
use super::result::CheckResult;
use std::time::{Duration, SystemTime};

/// Clock skew that workload certificates tolerate by default (`--clock-skew`), plus the resolution
/// of the `Date` header, one second.
const CLOSE: Duration = Duration::from_secs(21);

/// More than certificates and tokens tolerate.
const FAR: Duration = Duration::from_secs(300);

/// Compares the API server's time with that of this machine.
pub(crate) fn clock(server: Option<SystemTime>, local: SystemTime) -> CheckResult {
    let check = Check::Clock;
    let Some(server) = server else {
        let why = FetchError::Failed("the API server's answers have no date".to_owned());
        return CheckResult::unknown(check, &why);
    };
    let ahead = local.duration_since(server);
    let (apart, word) = match &ahead {
        Ok(apart) => (*apart, "ahead of"),
        Err(error) => (error.duration(), "behind"),
    };
    let seconds = apart.as_secs();
    let message = format!("this machine's clock is {seconds} s {word} the API server's");
    let hint = "keep the clocks in step (NTP) here, on the nodes and where the API server runs: \
                certificates and tokens are good for a time";
    match apart {
        apart if apart > FAR => CheckResult::fail(check, message, hint),
        apart if apart > CLOSE => CheckResult::warn(check, message, hint),
        _ => CheckResult::pass(check, "this machine's clock and the API server's agree"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use crate::diagnostics::result::CheckOutcome;

    #[test]
    fn clocks_agree_differ_or_are_not_known() {
        let now = SystemTime::now();
        let of = |seconds: u64| clock(Some(now), now + Duration::from_secs(seconds));
        assert_eq!(of(0).outcome, CheckOutcome::Pass);
        assert_eq!(of(21).outcome, CheckOutcome::Pass);
        assert_eq!(of(22).outcome, CheckOutcome::Warn);
        assert_eq!(of(301).outcome, CheckOutcome::Fail);
        assert_eq!(of(22).message, "this machine's clock is 22 s ahead of the API server's");
        let behind = clock(Some(now + Duration::from_secs(400)), now);
        assert_eq!(behind.message, "this machine's clock is 400 s behind the API server's");
        assert_eq!(behind.outcome, CheckOutcome::Fail);
        assert_eq!(clock(None, now).outcome, CheckOutcome::Unknown);
    }
}
