//! Reasons to refuse, by name.

use policy_core::decision::{Denied, TargetFault};

/// Every reason besides the target faults.
const PLAIN: [Denied; 13] = [
    Denied::NoRoute,
    Denied::Unauthorized,
    Denied::CannotTell,
    Denied::TlsRequired,
    Denied::ProtocolMismatch,
    Denied::ServerInvalid,
    Denied::RoutesInvalid,
    Denied::ProxyUnsupported,
    Denied::PortUndeclared,
    Denied::PolicyPending,
    Denied::PolicyExpired,
    Denied::RateLimited,
    Denied::Revoked,
];

/// The reason whose stable name this is.
pub(crate) fn parse(name: &str) -> Option<Denied> {
    let faults = TargetFault::ALL.into_iter().map(Denied::Target);
    PLAIN.into_iter().chain(faults).find(|reason| reason.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does not compile until a new reason is named here, and then fails until it is in the table.
    fn is_listed(reason: Denied) -> bool {
        match reason {
            Denied::NoRoute
            | Denied::Unauthorized
            | Denied::CannotTell
            | Denied::TlsRequired
            | Denied::ProtocolMismatch
            | Denied::ServerInvalid
            | Denied::RoutesInvalid
            | Denied::ProxyUnsupported
            | Denied::PortUndeclared
            | Denied::PolicyPending
            | Denied::PolicyExpired
            | Denied::RateLimited
            | Denied::Revoked => PLAIN.contains(&reason),
            Denied::Target(fault) => TargetFault::ALL.contains(&fault),
        }
    }

    #[test]
    fn every_reason_reads_back_by_its_name() {
        for reason in PLAIN.into_iter().chain(TargetFault::ALL.map(Denied::Target)) {
            assert!(is_listed(reason));
            assert_eq!(parse(reason.as_str()), Some(reason));
        }
        assert_eq!(parse("no-route"), None);
        assert_eq!(parse(""), None);
    }
}
