//! What a client says that it has in force, kept until its ports are opened.

use super::fields;
use crate::serve::config::ServeConfig;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::Revision;
use policy_proto::messages::PortRevision;
use policy_server::{CapacityBounds, Peer, RevocationOrder, Share, SharedCapacity};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use tonic::Status;

/// Bytes that are kept of what clients say of ports that their workloads do not declare, and the
/// maximum of one client, over all its streams.
const ROOM: CapacityBounds = CapacityBounds {
    total: 64 * 1024 * 1024,
    per_client: 4 * 1024 * 1024,
    first: RevocationOrder::Newest,
};

/// Bytes that an entry takes beside its texts, and a kind of its revision beside its name.
const ENTRY: usize = 128;
const VERSION: usize = 48;

/// Creates the room that all streams share.
pub(crate) fn room() -> SharedCapacity {
    SharedCapacity::new(ROOM)
}

/// The revisions that a client reported, by port.
#[derive(Debug, Default)]
pub(super) struct Reported {
    revisions: BTreeMap<NonZeroU16, Revision>,
    /// The room that those of undeclared ports take; absent: there are none.
    share: Option<Box<Share>>,
}

impl Reported {
    /// Reads the ports of a Hello.
    pub(super) fn read(applied: &[PortRevision]) -> Result<Self, Status> {
        let mut revisions = BTreeMap::new();
        for (index, entry) in applied.iter().enumerate() {
            let field = format!("hello.applied[{index}]");
            let port = fields::port_number(&format!("{field}.port"), entry.port)?;
            let field = format!("{field}.revision");
            revisions.insert(port, fields::revision(&field, entry.revision.as_ref())?);
        }
        Ok(Self { revisions, share: None })
    }

    /// Keeps the declared ports, and of others as many as a stream may watch, within the room of
    /// its client. Declared ports are opened at once, which takes theirs out again.
    pub(super) fn keep(
        &mut self,
        declared: &BTreeSet<NonZeroU16>,
        (room, peer): (&SharedCapacity, &Peer),
        config: &ServeConfig,
    ) -> Result<(), Status> {
        let (mut others, mut bytes) = (0_usize, 0_usize);
        self.revisions.retain(|port, revision| {
            if declared.contains(port) {
                return true;
            }
            others = others.saturating_add(1);
            let kept = others <= config.max_ports_per_stream;
            bytes = bytes.saturating_add(if kept { size(revision) } else { 0 });
            kept
        });
        if bytes > 0 {
            let share = room.take(peer, u64::try_from(bytes).unwrap_or(u64::MAX));
            self.share = Some(Box::new(share.map_err(|_| no_room())?));
        }
        Ok(())
    }

    /// Takes what was reported of a port that is opened.
    pub(super) fn take(&mut self, port: NonZeroU16) -> Option<Revision> {
        let taken = self.revisions.remove(&port);
        if self.revisions.is_empty() {
            self.share = None;
        }
        taken
    }

    /// Completes with the status that ends the stream if its room is given to another client.
    pub(super) async fn revoked(&self) -> Status {
        match &self.share {
            Some(share) => share.revoked().await,
            None => std::future::pending().await,
        }
        no_room()
    }
}

fn no_room() -> Status {
    Status::resource_exhausted(
        "hello.applied: too much is reported of ports that the workload does not declare, over all \
         streams of this client",
    )
    .because(StatusReason::TooMuchReported)
}

/// Estimates the bytes that an entry takes.
fn size(revision: &Revision) -> usize {
    let versions = revision.versions.keys().map(|kind| kind.len().saturating_add(VERSION));
    versions.fold(ENTRY.saturating_add(revision.epoch.len()), usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_proto::messages::Revision as WireRevision;

    fn entry(port: u32) -> PortRevision {
        let revision = WireRevision { epoch: "test".into(), ..WireRevision::default() };
        PortRevision { port, revision: Some(revision) }
    }

    #[test]
    fn declared_ports_are_kept_and_of_others_a_bounded_number_within_the_room_of_the_client() {
        let port = |number| NonZeroU16::new(number).unwrap();
        let (room, config) = (room(), ServeConfig::default());
        let client = Peer::at([10, 0, 0, 1].into());
        let applied: Vec<_> = (1..=9000).map(entry).collect();
        let declared = BTreeSet::from([port(80), port(8999)]);
        let mut reported = Reported::read(&applied).unwrap();
        reported.keep(&declared, (&room, &client), &config).unwrap();
        assert_eq!(reported.revisions.len(), 2 + config.max_ports_per_stream);
        assert!(reported.take(port(8999)).is_some() && reported.take(port(9000)).is_none());
        let one = u64::try_from(ENTRY + 4).unwrap();
        assert_eq!(room.held(), one * 256);
        // Of one client, however many streams it has; another has its own room.
        let mut streams = vec![reported];
        let refused = loop {
            let mut next = Reported::read(&applied).unwrap();
            match next.keep(&declared, (&room, &client), &config) {
                Ok(()) => streams.push(next),
                Err(status) => break status,
            }
        };
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(room.held() <= ROOM.per_client && streams.len() > 100);
        let mut other = Reported::read(&applied).unwrap();
        let client = Peer::at([10, 0, 0, 2].into());
        other.keep(&declared, (&room, &client), &config).unwrap();
        drop((streams, other));
        assert_eq!(room.held(), 0);
    }

    #[test]
    fn a_client_that_reports_declared_ports_alone_takes_no_room() {
        let room = room();
        let port = NonZeroU16::new(80).unwrap();
        let mut reported = Reported::read(&[entry(80)]).unwrap();
        let client = Peer::at([10, 0, 0, 1].into());
        let declared = BTreeSet::from([port]);
        reported.keep(&declared, (&room, &client), &ServeConfig::default()).unwrap();
        assert_eq!((room.held(), reported.take(port).is_some()), (0, true));
    }
}
