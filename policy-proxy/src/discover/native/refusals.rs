//! The most frequent refusals of the workload's sidecar, as the controller is sent them.

use policy_enforce::record::{
    ClientKey, DecisionGroup, DecisionMode, Decisions, GroupReason, GroupSubject,
};
use policy_proto::messages as m;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Groups of one message.
const GROUPS: usize = 8;
/// The most groups of one message with the same subject, and of clients without an identity: these make up
/// addresses and paths at no cost.
const GROUPS_OF_SUBJECT: usize = 2;
const GROUPS_WITHOUT_IDENTITY: usize = 4;
/// Time from the start of a stream to the first message, and between two messages.
const FIRST: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(30);

/// Decides when a stream sends refusals, and which.
#[derive(Debug)]
pub(super) struct RefusalReporter {
    decisions: Option<Arc<Decisions>>,
    /// True once the server takes refusals: an older one ends the stream instead.
    is_wanted: bool,
    next: Instant,
    /// Ids and counts of the last message; absent: the server does not know yet that refusals are reported.
    sent: Option<Vec<(String, u64)>>,
}

impl RefusalReporter {
    /// Creates the reporter of a stream that begins at `now`.
    pub(super) fn new(decisions: Option<Arc<Decisions>>, now: Instant) -> Self {
        let next = now.checked_add(FIRST).unwrap_or(now);
        let decisions = decisions.filter(|decisions| decisions.mode() != DecisionMode::Off);
        Self { decisions, is_wanted: false, next, sent: None }
    }

    /// Notes what the server takes.
    pub(super) fn set_wanted(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// Waits until it is time for a message; for ever where none is wanted.
    pub(super) async fn due(&self) {
        if self.is_wanted && self.decisions.is_some() {
            tokio::time::sleep_until(self.next).await;
        } else {
            std::future::pending().await
        }
    }

    /// Takes the message that is due at `now`: the first of the stream, and then what was refused since the
    /// last; `None` if nothing was.
    pub(super) fn take(&mut self, now: Instant) -> Option<m::Refusals> {
        self.next = now.checked_add(INTERVAL).unwrap_or(now);
        let groups = shown(&self.decisions.as_ref()?.groups());
        let sent = groups.iter().map(|group| (group.id.clone(), group.count)).collect();
        if self.sent.as_ref() == Some(&sent) {
            return None;
        }
        self.sent = Some(sent);
        Some(m::Refusals { groups })
    }
}

/// The groups of a message, of those of the record, the latest first. No client takes the places of all.
fn shown(groups: &[DecisionGroup]) -> Vec<m::RefusalGroup> {
    let at = SystemTime::now();
    let mut all: Vec<(m::RefusalGroup, bool)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for group in groups.iter().filter(|group| group.key.reason != GroupReason::Audited) {
        let encoded = encode(group, at);
        let is_anonymous = matches!(group.subject, GroupSubject::Client(ClientKey::Network(_)));
        // Groups of several rules and revisions that read alike are one.
        let place = *places.entry(words(&encoded)).or_insert(all.len());
        match all.get_mut(place) {
            Some((known, _)) => known.count = known.count.saturating_add(group.count),
            None => all.push((encoded, is_anonymous)),
        }
    }
    all.sort_by(|(a, _), (b, _)| b.count.cmp(&a.count).then_with(|| a.id.cmp(&b.id)));
    let mut of_subject: HashMap<(bool, String), usize> = HashMap::new();
    let mut anonymous = 0_usize;
    let has_place = |(group, is_anonymous): &(m::RefusalGroup, bool)| {
        let own = of_subject.entry((group.outbound, group.subject.clone())).or_default();
        if *own >= GROUPS_OF_SUBJECT || (*is_anonymous && anonymous >= GROUPS_WITHOUT_IDENTITY) {
            return false;
        }
        *own = own.saturating_add(1);
        anonymous = anonymous.saturating_add(usize::from(*is_anonymous));
        true
    };
    all.into_iter().filter(has_place).take(GROUPS).map(|(group, _)| group).collect()
}

fn encode(group: &DecisionGroup, at: SystemTime) -> m::RefusalGroup {
    let age = at.duration_since(group.last).unwrap_or_default().as_millis();
    m::RefusalGroup {
        id: group.id.to_string(),
        subject: group.subject.to_string(),
        outbound: matches!(group.key.reason, GroupReason::Outbound(_)),
        connection: group.key.connection,
        port: group.key.port.into(),
        reason: group.key.reason.as_str().to_owned(),
        route: group.origin.as_ref().map(ToString::to_string).unwrap_or_default(),
        count: group.count,
        age_ms: u64::try_from(age).unwrap_or(u64::MAX),
    }
}

/// The facts of a group by which rows are told apart.
fn words(group: &m::RefusalGroup) -> String {
    let m::RefusalGroup { subject, outbound, connection, port, reason, route, .. } = group;
    format!("{subject:?} {outbound} {connection} {port} {reason:?} {route:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::{Denied, Identity};
    use policy_enforce::record::{GroupKey, OutboundRefusal};

    fn refuse(decisions: &Decisions, service: &str) {
        let (namespace, name) = (Arc::from("shop"), Arc::from(service));
        let address = Some("10.0.0.1:80".parse().unwrap());
        let service = Some((&namespace, &name));
        let refused = OutboundRefusal { service, address, reason: "no_endpoint" };
        decisions.outbound(&refused, std::time::Instant::now()).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_frequent_are_sent_when_they_change_and_the_server_takes_them() {
        let decisions = Arc::new(Decisions::new(DecisionMode::Counts, "uid", SystemTime::now()));
        let mut reporter = RefusalReporter::new(Some(Arc::clone(&decisions)), Instant::now());
        let waited = tokio::time::timeout(INTERVAL, reporter.due()).await;
        assert!(waited.is_err(), "an older server would end the stream");
        reporter.set_wanted(true);
        reporter.due().await;
        let nothing = Some(m::Refusals { groups: Vec::new() });
        assert_eq!(reporter.take(Instant::now()), nothing, "a first message says that it reports");
        assert_eq!(reporter.take(Instant::now()), None);
        for service in 0..10_u32 {
            for _ in 0..=service {
                refuse(&decisions, &format!("s{service}"));
            }
        }
        reporter.due().await;
        let sent = reporter.take(Instant::now()).unwrap().groups;
        let counts: Vec<u64> = sent.iter().map(|group| group.count).collect();
        assert_eq!(counts, [10, 9, 8, 7, 6, 5, 4, 3]);
        let first = sent.first().unwrap();
        let facts = (&*first.subject, first.port, &*first.reason, first.outbound, first.connection);
        assert_eq!(facts, ("s9.shop", 80, "no_endpoint", true, true));
        assert_eq!(reporter.take(Instant::now()), None, "nothing has changed");
        refuse(&decisions, "s9");
        assert_eq!(reporter.take(Instant::now()).unwrap().groups.first().unwrap().count, 11);
        let off = Arc::new(Decisions::new(DecisionMode::Off, "uid", SystemTime::now()));
        for off in [None, Some(off)] {
            assert_eq!(RefusalReporter::new(off, Instant::now()).take(Instant::now()), None);
        }
    }

    #[test]
    fn no_client_takes_the_places_of_all() {
        let record = Decisions::new(DecisionMode::Counts, "uid", SystemTime::now());
        refuse(&record, "s1");
        let one = record.groups().remove(0);
        let group = |client: &str, port: u16, count: u64| {
            let client = match client.parse() {
                Ok(network) => ClientKey::Network(network),
                Err(_) => ClientKey::Identity(Identity::Dns(client.into())),
            };
            let reason = GroupReason::Denied(Denied::Unauthorized);
            let mut group = one.clone();
            group.subject = GroupSubject::Client(client);
            group.key = GroupKey { port, reason, ..one.key };
            group.count = count;
            group
        };
        let of_revision = |generation: u64, count: u64| {
            let mut group = group("cart.shop", 80, count);
            group.key.generation = generation;
            group
        };
        let mut all = vec![of_revision(1, 3), of_revision(2, 4), group("cart.shop", 81, 6)];
        all.extend((82..90).map(|port| group("cart.shop", port, 5)));
        all.extend((0..20).map(|place| group(&format!("10.0.{place}.0"), 80, 1000)));
        all.push(group("web.shop", 80, 1));
        let facts: Vec<(bool, u32, u64)> = shown(&all)
            .iter()
            .map(|group| (group.subject.contains("shop"), group.port, group.count))
            .collect();
        let networks = [(false, 80, 1000); GROUPS_WITHOUT_IDENTITY];
        let named = [(true, 80, 7), (true, 81, 6), (true, 80, 1)];
        assert_eq!(facts, [&networks[..], &named].concat());
    }
}
