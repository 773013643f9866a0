//! Every combination of a count and of other workloads, with its condition.

use super::*;
use crate::query::condition::Reason;
use crate::reach::{CONFLICTED, Gap};
use crate::testing::key;
use policy_crds::Kind;
use std::num::NonZeroU16;

fn remarks(in_force: u64, concerned: u64, refused: u64, reach: Reach) -> String {
    let reach = Arc::new(reach);
    let programmed = Programmed::Counted { in_force, concerned, refused, reach };
    format!("{} {} {programmed}", programmed.status(), programmed.reason())
}

#[test]
fn counts_become_status_reason_and_words() {
    let remarks =
        |in_force, concerned, refused| remarks(in_force, concerned, refused, Reach::default());
    assert_eq!(remarks(3, 3, 0), "True Programmed in force on 3 of 3 proxies");
    assert_eq!(remarks(1, 3, 0), "False Pending in force on 1 of 3 proxies");
    assert_eq!(remarks(1, 3, 2), "False Refused in force on 1 of 3 proxies, refused by 2");
    assert_eq!(remarks(0, 0, 0), "False NotUsed no pod's policy uses it");
    let unknown = Programmed::Unknown {
        reason: "ReplicaUnreachable".into(),
        message: "10.0.0.7:8090 does not answer".into(),
    };
    assert_eq!(unknown.status(), "Unknown");
    assert_eq!(&*unknown.reason(), "ReplicaUnreachable");
    assert_eq!(unknown.to_string(), "10.0.0.7:8090 does not answer");
}

fn skipping(ports: &[u16]) -> Option<Skipping> {
    let ports = ports.iter().map(|port| NonZeroU16::new(*port).unwrap()).collect();
    Some(Skipping { workloads: 2, ports })
}

#[test]
fn what_is_in_force_nowhere_is_never_true_and_says_why() {
    let nowhere = |reach| remarks(0, 0, 0, reach);
    let none = Reach::default;
    assert_eq!(
        nowhere(Reach::nowhere(NO_TARGET, "Server ns/s does not exist")),
        "False NoTarget Server ns/s does not exist"
    );
    assert_eq!(
        nowhere(Reach { bare: 1, idle: 3, ..none() }),
        "False NoSidecar 1 pod has no sidecar, so it is not enforced there"
    );
    assert_eq!(
        nowhere(Reach { compatible: 2, ..none() }),
        "Unknown CompatibleProxies 2 workloads have a proxy of Linkerd's API and do not report what is \
         in force there"
    );
    assert_eq!(
        nowhere(Reach { compatible: 1, bare: 2, ..none() }),
        "Unknown CompatibleProxies 1 workload has a proxy of Linkerd's API and does not report what is \
         in force there; 2 pods have no sidecar, so it is not enforced there"
    );
    assert_eq!(
        nowhere(Reach { skipping: skipping(&[80, 81]), ..none() }),
        "False PortsSkipped 2 pods take port 80, 81 out of redirection (skip-inbound-ports), so \
         it is not enforced there"
    );
    assert_eq!(
        nowhere(Reach { idle: 4, ..none() }),
        "False NotRunning 4 pods selected, none of which runs"
    );
    // For any other workloads: an object that is in force on no sidecar is never `True`.
    for bits in 0..32_u64 {
        let bit = |at: u64| bits >> at & 1;
        let gap = (bit(4) == 1).then(|| Gap { reason: NO_TARGET, message: "x".into() });
        let skipping = (bit(3) == 1).then(|| skipping(&[80])).flatten();
        let reach = Reach {
            gap,
            compatible: bit(0),
            bare: bit(1),
            idle: bit(2),
            skipping,
            elsewhere: None,
        };
        let words = nowhere(reach.clone());
        assert!(!words.starts_with("True"), "{words}");
        let unknown = bit(0) == 1 && bit(4) == 0;
        assert_eq!(words.starts_with("Unknown"), unknown, "{words}");
        // One proxy that has it is enough for a count, and the rest is said.
        let some = remarks(1, 1, 0, Reach { gap: None, ..reach });
        assert!(some.starts_with("True Programmed in force on 1 of 1 proxies"), "{some}");
        assert_eq!(some.contains("Linkerd"), bit(0) == 1, "{some}");
        assert_eq!(some.contains("no sidecar"), bit(1) == 1, "{some}");
        assert_eq!(some.contains("redirection"), bit(3) == 1, "{some}");
        assert!(!some.contains("none of which runs"), "{some}");
    }
}

#[test]
fn what_is_not_accepted_says_so_unless_more_is_known() {
    let refused = ObjectCondition {
        object: key(Kind::Server, "ns", "s"),
        parent: None,
        section: None,
        port: None,
        kind: ConditionKind::Accepted,
        status: false,
        reason: Reason::Invalid,
        message: "spec.port: 0 is no port".into(),
        hostnames: Vec::new(),
    };
    let of = |programmed: &Programmed, conditions: &[ObjectCondition]| {
        let seen = programmed.of(conditions);
        format!("{} {} {seen}", seen.status(), seen.reason())
    };
    let nowhere = Programmed::counted(0, 0, 0);
    let words = "False NotAccepted it is not accepted: spec.port: 0 is no port";
    assert_eq!(of(&nowhere, std::slice::from_ref(&refused)), words);
    assert_eq!(of(&nowhere, &[]), "False NotUsed no pod's policy uses it");
    // An invalid Server denies its ports, which is in force.
    let denies = Programmed::counted(2, 2, 0);
    let words = "True Programmed in force on 2 of 2 proxies";
    assert_eq!(of(&denies, std::slice::from_ref(&refused)), words);
    let reach = Arc::new(Reach::nowhere(CONFLICTED, "x"));
    let displaced = Programmed::Counted { in_force: 0, concerned: 0, refused: 0, reach };
    assert_eq!(of(&displaced, &[refused]), "False Conflicted x");
}

#[test]
fn a_grant_that_is_withheld_is_in_force_nowhere() {
    let remarks = |kind: Kind, programmed: &Programmed, conditions: &[(ConditionKind, Reason)]| {
        let condition = |(about, reason): &(ConditionKind, Reason)| ObjectCondition {
            object: key(kind, "ns", "p"),
            parent: None,
            section: None,
            port: None,
            kind: *about,
            status: matches!(reason, Reason::Accepted | Reason::ResolvedRefs),
            reason: *reason,
            message: "x".into(),
            hostnames: Vec::new(),
        };
        let conditions: Vec<ObjectCondition> = conditions.iter().map(condition).collect();
        let seen = programmed.of(&conditions);
        format!("{} {} {seen}", seen.status(), seen.reason())
    };
    let (accepted, resolved) = (ConditionKind::Accepted, ConditionKind::ResolvedRefs);
    let everywhere = Programmed::counted(2, 2, 0);
    let holds = "True Programmed in force on 2 of 2 proxies";
    let policy = |programmed, reason| {
        let conditions = [(accepted, Reason::Accepted), (resolved, reason)];
        remarks(Kind::AuthorizationPolicy, programmed, &conditions)
    };
    for unusable in
        [Reason::RefNotFound, Reason::RefInvalid, Reason::RefNotPermitted, Reason::InvalidKind]
    {
        let words = "False NotResolved it grants nothing: x";
        assert_eq!(policy(&everywhere, unusable), words, "{unusable:?}");
    }
    assert_eq!(policy(&everywhere, Reason::RefWarned), holds, "it is used");
    assert_eq!(policy(&everywhere, Reason::ResolvedRefs), holds);
    // Where it is not withheld yet, it still grants.
    let withdrawing = "False Pending in force on 1 of 2 proxies";
    assert_eq!(policy(&Programmed::counted(1, 2, 0), Reason::RefNotFound), withdrawing);
    let invalid = [(accepted, Reason::Invalid)];
    for kind in [Kind::AuthorizationPolicy, Kind::ServerAuthorization] {
        let words = "False NotAccepted it is not accepted: x";
        assert_eq!(remarks(kind, &everywhere, &invalid), words);
    }
    for kind in [Kind::Server, Kind::PolicyHttpRoute, Kind::HttpLocalRateLimitPolicy] {
        assert_eq!(remarks(kind, &everywhere, &invalid), holds, "what is invalid denies");
    }
}
