//! Reading the fields of a client's messages.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::Revision;
use policy_proto::messages::{RefusalGroup, Refusals, Revision as WireRevision};
use policy_proto::native::decode_revision;
use std::num::NonZeroU16;
use tonic::Status;

/// Most characters of a client's text that are kept or logged.
const MAX_WORDS: usize = 300;

/// Most groups of refusals that are kept of one client.
const MAX_GROUPS: usize = 8;

/// A port number, or which field holds none.
pub(super) fn port_number(field: &str, port: u32) -> Result<NonZeroU16, Status> {
    u16::try_from(port).ok().and_then(NonZeroU16::new).ok_or_else(|| {
        Status::invalid_argument(format!("{field}: `{port}` is not from 1 to 65535"))
            .because(StatusReason::InvalidRequest)
    })
}

/// A revision, or which field lacks one.
pub(super) fn revision(field: &str, revision: Option<&WireRevision>) -> Result<Revision, Status> {
    match revision {
        Some(revision) => decode_revision(revision).map_err(|error| {
            Status::invalid_argument(format!("{field}.{error}"))
                .because(StatusReason::InvalidRequest)
        }),
        None => Err(Status::invalid_argument(format!("{field}: must be set"))
            .because(StatusReason::InvalidRequest)),
    }
}

/// Truncates a client's text.
pub(super) fn shortened(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}

/// The groups of refusals, as many as are kept and with truncated texts, and true if any was left out because
/// its port is none.
pub(super) fn refusals(reported: Refusals) -> (Vec<RefusalGroup>, bool) {
    // Of a connection whose destination is not known, the port is 0.
    let is_right = |group: &RefusalGroup| {
        u16::try_from(group.port).is_ok_and(|port| port != 0 || group.outbound)
    };
    let (right, wrong): (Vec<_>, Vec<_>) =
        reported.groups.into_iter().take(MAX_GROUPS).partition(is_right);
    let kept = right.into_iter().map(|group| RefusalGroup {
        id: shortened(&group.id),
        subject: shortened(&group.subject),
        reason: shortened(&group.reason),
        route: shortened(&group.route),
        ..group
    });
    (kept.collect(), !wrong.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_bounded_in_number_and_length_and_have_ports() {
        let group = |port: u32, outbound: bool| {
            let subject = "a".repeat(5000);
            RefusalGroup { subject, port, outbound, ..RefusalGroup::default() }
        };
        let (groups, wrong) = refusals(Refusals { groups: vec![group(80, false); 20] });
        let lengths: Vec<usize> = groups.iter().map(|group| group.subject.len()).collect();
        assert_eq!((lengths, wrong), (vec![MAX_WORDS; MAX_GROUPS], false));
        let ports = |groups: Vec<RefusalGroup>| {
            let (kept, wrong) = refusals(Refusals { groups });
            (kept.iter().map(|group| group.port).collect::<Vec<_>>(), wrong)
        };
        assert_eq!(ports(vec![group(0, true)]), (vec![0], false));
        for port in [0, 70_000] {
            let groups = vec![group(port, false), group(80, false)];
            assert_eq!(ports(groups), (vec![80], true), "{port}");
        }
    }
}
