//! Requests that are sent several times at once, because only then a rate limit refuses any of them
//! however slow the machine is.

use super::expectation::Expectation;
use crate::verdict::{DecisionSummary, Verdict};

/// A decision, and its contradictions to the outcome.
pub(super) type Decided = (DecisionSummary, Vec<String>);

/// Number of requests that an expectation stands for.
pub(super) fn count(expectation: &Expectation) -> u32 {
    expectation.burst.map_or(1, std::num::NonZeroU32::get)
}

/// Selects the decision that stands for all: one that contradicts its outcome or is not as expected,
/// else one that is as expected. Where a burst is to be denied, permits are as expected too, as long
/// as one of its requests was denied.
pub(super) fn representative(expectation: &Expectation, all: Vec<Decided>) -> Option<Decided> {
    let tolerated = |found: &DecisionSummary| {
        expectation.burst.is_some()
            && expectation.decision == Verdict::Deny
            && found.decision != Verdict::Deny
    };
    let (permitted, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(found, _)| tolerated(found));
    let broken = |(found, contradictions): &Decided| {
        !contradictions.is_empty() || !found.differs(expectation).is_empty()
    };
    let wrong = others.iter().position(broken);
    let contradicted = permitted.iter().position(|(_, contradictions)| !contradictions.is_empty());
    match (wrong, contradicted) {
        (Some(at), _) => Some(others.swap_remove(at)),
        (None, Some(at)) => permitted.into_iter().nth(at),
        (None, None) => others.into_iter().next().or(permitted.into_iter().next()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::Expectations;

    fn expectation(rest: &str) -> Expectation {
        let text = format!(
            "requests: [{{name: n, from: {{}}, to: a/b:1, http: GET /, burst: 3, {rest}}}]"
        );
        Expectations::parse(&text).unwrap().requests.remove(0)
    }

    fn found(decision: Verdict, reason: Option<&str>) -> Decided {
        let reason = reason.map(str::to_owned);
        (DecisionSummary { decision, reason, route: None, authorization: None }, Vec::new())
    }

    #[test]
    fn a_burst_is_denied_if_one_request_is_and_permitted_if_all_are() {
        let (allow, limited) =
            (|| found(Verdict::Allow, None), || found(Verdict::Deny, Some("rate_limited")));
        let denied = expectation("decision: deny, reason: rate_limited");
        let differs = |wanted: &Expectation, all: Vec<Decided>| {
            let (found, contradictions) = representative(wanted, all).unwrap();
            !found.differs(wanted).is_empty() || !contradictions.is_empty()
        };
        assert!(!differs(&denied, vec![allow(), limited(), allow()]));
        assert!(differs(&denied, vec![allow(), allow(), allow()]), "none was denied");
        let other = found(Verdict::Deny, Some("unauthorized"));
        assert!(differs(&denied, vec![limited(), other, limited()]), "for another reason");
        let contradiction = (allow().0, vec!["allowed, but refused".to_owned()]);
        assert!(differs(&denied, vec![limited(), contradiction]));
        let permitted = expectation("decision: allow");
        assert!(!differs(&permitted, vec![allow(), allow()]));
        assert!(differs(&permitted, vec![allow(), limited()]));
    }
}
