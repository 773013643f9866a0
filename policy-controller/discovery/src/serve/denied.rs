//! The refusals that clients report: the most frequent groups of each workload, kept while its newest
//! stream is open.
//!
//! What is kept of one client is bounded, and so is what is kept of all of its streams: beyond that the
//! room is given to other clients, and the clients without room are counted. Rows are added up when
//! somebody asks.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use parking_lot::Mutex;
use policy_core::WorkloadKey;
use policy_proto::messages::{DeniedResponse, DeniedRow, RefusalGroup};
use policy_server::{CapacityBounds, Peer, RevocationOrder, Share, SharedCapacity};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tonic::Status;

/// Bytes of a group beside its texts.
const GROUP_BYTES: usize = 200;
/// Bytes of the groups of all streams, and of those of one client.
const ROOM: CapacityBounds = CapacityBounds {
    total: 32 * 1024 * 1024,
    per_client: 1024 * 1024,
    first: RevocationOrder::Newest,
};
/// Rows of an answer, unless the request says another number, and the most.
const ROWS: u32 = 100;
const MAX_ROWS: u32 = 1000;
/// Bytes of an answer: less than the 4 MiB that gRPC libraries accept. Further rows are counted.
const ANSWER_BYTES: usize = 3 * 1024 * 1024;

/// The refusals of all workloads with an open stream; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RefusalRegistry {
    shared: Arc<RefusalRegistryState>,
}

#[derive(Debug)]
struct RefusalRegistryState {
    room: SharedCapacity,
    /// The report of each workload, by the number of its newest stream.
    workloads: Mutex<BTreeMap<WorkloadKey, (u64, Arc<ReportedRefusals>)>>,
    /// Number of streams without room.
    left_out: AtomicU64,
}

/// The refusals of one workload.
#[derive(Debug)]
struct ReportedRefusals {
    namespace: Arc<str>,
    owner: Arc<str>,
    groups: Vec<RefusalGroup>,
    at: Instant,
}

/// The report of one stream, which ends with this.
#[derive(Debug)]
pub(crate) struct RefusalGuard {
    registry: RefusalRegistry,
    workload: WorkloadKey,
    number: u64,
    room: ReportRoom,
}

/// The room of a report.
#[derive(Debug)]
enum ReportRoom {
    Held(Share),
    /// There is none: the stream is counted.
    LeftOut,
    /// None is needed, because a newer stream reports.
    Superseded,
}

impl Default for RefusalRegistry {
    fn default() -> Self {
        Self::new(ROOM)
    }
}

impl RefusalRegistry {
    fn new(room: CapacityBounds) -> Self {
        let shared = RefusalRegistryState {
            room: SharedCapacity::new(room),
            workloads: Mutex::default(),
            left_out: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Keeps what a stream reports of its workload until the guard is dropped or a newer stream of the
    /// workload reports. Numbers of newer streams are higher. `owner`: of the workload.
    pub(crate) fn report(
        &self,
        (number, peer): (u64, &Peer),
        (workload, owner): (&WorkloadKey, &Arc<str>),
        groups: Vec<RefusalGroup>,
    ) -> RefusalGuard {
        let bytes = groups.iter().map(size).fold(GROUP_BYTES, usize::saturating_add);
        let share = self.shared.room.take(peer, u64::try_from(bytes).unwrap_or(u64::MAX));
        let mut workloads = self.shared.workloads.lock();
        let is_old = workloads.get(workload).is_some_and(|(newest, _)| *newest > number);
        let room = match share {
            _ if is_old => ReportRoom::Superseded,
            Err(_) => {
                self.shared.left_out.fetch_add(1, Ordering::Relaxed);
                ReportRoom::LeftOut
            }
            Ok(share) => {
                let (namespace, owner) = (workload.namespace.clone(), owner.clone());
                let report = ReportedRefusals { namespace, owner, groups, at: Instant::now() };
                workloads.insert(workload.clone(), (number, Arc::new(report)));
                ReportRoom::Held(share)
            }
        };
        RefusalGuard { registry: self.clone(), workload: workload.clone(), number, room }
    }

    /// The rows of a namespace, or of all if it is empty; the most frequent refusals first.
    ///
    /// # Errors
    /// `limit` is more than an answer may have.
    pub(crate) fn rows(&self, namespace: &str, limit: u32) -> Result<DeniedResponse, Status> {
        if limit > MAX_ROWS {
            let message = format!("limit: `{limit}` is more than {MAX_ROWS}");
            return Err(Status::invalid_argument(message).because(StatusReason::InvalidRequest));
        }
        let limit = usize::try_from(if limit == 0 { ROWS } else { limit }).unwrap_or(usize::MAX);
        let is_shown =
            |own: &ReportedRefusals| namespace.is_empty() || *own.namespace == *namespace;
        // Streams wait while this is locked.
        let shown: Vec<Arc<ReportedRefusals>> = {
            let workloads = self.shared.workloads.lock();
            let reports = workloads.values().map(|(_, report)| report);
            reports.filter(|report| is_shown(report)).map(Arc::clone).collect()
        };
        let sorted = sums(&shown);
        let mut room = ANSWER_BYTES;
        let mut rows = Vec::new();
        for (key, sum) in sorted.iter().take(limit) {
            let names = key.namespace.len().saturating_add(key.owner.len());
            let Some(left) = room.checked_sub(size(sum.latest).saturating_add(names)) else {
                break;
            };
            room = left;
            rows.push(sum.row(*key));
        }
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let more = count(sorted.len().saturating_sub(rows.len()));
        let left_out = self.shared.left_out.load(Ordering::Relaxed);
        Ok(DeniedResponse { rows, more, clients: count(shown.len()), left_out })
    }
}

/// The refusals of all reports by row, the most frequent first.
fn sums(reports: &[Arc<ReportedRefusals>]) -> Vec<(RowKey<'_>, RowSum<'_>)> {
    let mut rows: HashMap<RowKey<'_>, RowSum<'_>> = HashMap::new();
    for report in reports {
        let elapsed = u64::try_from(report.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut counted: HashSet<RowKey<'_>> = HashSet::new();
        for group in &report.groups {
            let key = RowKey::of(report, group);
            let age = group.age_ms.saturating_add(elapsed);
            let sum = rows.entry(key).or_insert(RowSum { latest: group, count: 0, age, pods: 0 });
            sum.count = sum.count.saturating_add(group.count);
            sum.pods = sum.pods.saturating_add(u64::from(counted.insert(key)));
            if age < sum.age {
                (sum.latest, sum.age) = (group, age);
            }
        }
    }
    let mut sorted: Vec<(RowKey<'_>, RowSum<'_>)> = rows.into_iter().collect();
    sorted.sort_by_key(|(key, sum)| (Reverse(sum.count), *key));
    sorted
}

/// The facts that the refusals of a row have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct RowKey<'a> {
    namespace: &'a str,
    owner: &'a str,
    subject: &'a str,
    outbound: bool,
    connection: bool,
    port: u32,
    reason: &'a str,
    route: &'a str,
}

/// The refusals of a row.
struct RowSum<'a> {
    latest: &'a RefusalGroup,
    count: u64,
    age: u64,
    pods: u64,
}

impl<'a> RowKey<'a> {
    fn of(stream: &'a ReportedRefusals, group: &'a RefusalGroup) -> Self {
        let RefusalGroup { subject, outbound, connection, port, reason, route, .. } = group;
        Self {
            namespace: &stream.namespace,
            owner: &stream.owner,
            subject,
            outbound: *outbound,
            connection: *connection,
            port: *port,
            reason,
            route,
        }
    }
}

impl RowSum<'_> {
    fn row(&self, key: RowKey<'_>) -> DeniedRow {
        let group = RefusalGroup { count: self.count, age_ms: self.age, ..self.latest.clone() };
        DeniedRow {
            namespace: key.namespace.to_owned(),
            workload: key.owner.to_owned(),
            group: Some(group),
            pods: self.pods,
        }
    }
}

fn size(group: &RefusalGroup) -> usize {
    let texts = [&group.id, &group.subject, &group.reason, &group.route];
    texts.iter().fold(GROUP_BYTES, |all, text| all.saturating_add(text.len()))
}

impl RefusalGuard {
    /// Completes when the room is given to another client.
    pub(crate) async fn revoked(guard: &Option<Box<Self>>) {
        match guard.as_ref().map(|guard| &guard.room) {
            Some(ReportRoom::Held(share)) => share.revoked().await,
            Some(ReportRoom::LeftOut | ReportRoom::Superseded) | None => {
                std::future::pending().await
            }
        }
    }

    /// Gives the room back, because another client has it now. The stream counts as one without room.
    pub(crate) fn give_up(&mut self) {
        if self.forget() {
            self.registry.shared.left_out.fetch_add(1, Ordering::Relaxed);
            self.room = ReportRoom::LeftOut;
        } else if let ReportRoom::Held(_) = self.room {
            self.room = ReportRoom::Superseded;
        }
    }

    /// Removes the report, if it is that of this stream. Returns true if it was.
    fn forget(&self) -> bool {
        let mut workloads = self.registry.shared.workloads.lock();
        let is_own =
            workloads.get(&self.workload).is_some_and(|(newest, _)| *newest == self.number);
        is_own && workloads.remove(&self.workload).is_some()
    }
}

impl Drop for RefusalGuard {
    fn drop(&mut self) {
        match self.room {
            ReportRoom::Held(_) => _ = self.forget(),
            ReportRoom::LeftOut => {
                _ = self.registry.shared.left_out.fetch_sub(1, Ordering::Relaxed)
            }
            ReportRoom::Superseded => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    fn group(subject: &str, count: u64, age_ms: u64) -> RefusalGroup {
        RefusalGroup {
            id: format!("id-{age_ms}"),
            subject: subject.to_owned(),
            port: 80,
            reason: "unauthorized".to_owned(),
            count,
            age_ms,
            ..RefusalGroup::default()
        }
    }

    fn peer(last: u8) -> Peer {
        Peer::at([10, 0, 0, last].into())
    }

    fn report(
        registry: &RefusalRegistry,
        number: u64,
        (namespace, owner): (&str, &str),
        groups: Vec<RefusalGroup>,
    ) -> RefusalGuard {
        let workload = WorkloadKey::pod(namespace, &format!("pod-{number}"));
        registry.report((number, &peer(1)), (&workload, &owner.into()), groups)
    }

    #[test]
    fn refusals_of_the_pods_of_one_owner_add_up_and_end_with_their_streams() {
        let registry = RefusalRegistry::default();
        let web = ("shop", "deployment/web");
        let one =
            report(&registry, 1, web, vec![group("cart.shop", 3, 90_000), group("a.b", 1, 0)]);
        let two = report(&registry, 2, web, vec![group("cart.shop", 4, 10_000)]);
        let other = report(&registry, 3, ("bank", "deployment/web"), vec![group("a.b", 9, 0)]);
        let all = registry.rows("", 2).unwrap();
        let rows = |answer: &DeniedResponse| -> Vec<(String, String, u64, u64)> {
            let row = |row: &DeniedRow| {
                let group = row.group.clone().unwrap();
                (row.namespace.clone(), group.subject, group.count, row.pods)
            };
            answer.rows.iter().map(row).collect()
        };
        let expected = |of: &[(&str, &str, u64, u64)]| -> Vec<(String, String, u64, u64)> {
            of.iter().map(|(n, s, c, p)| ((*n).to_owned(), (*s).to_owned(), *c, *p)).collect()
        };
        assert_eq!(rows(&all), expected(&[("bank", "a.b", 9, 1), ("shop", "cart.shop", 7, 2)]));
        assert_eq!((all.more, all.clients, all.left_out), (1, 3, 0));
        let shop = registry.rows("shop", 0).unwrap();
        assert_eq!(rows(&shop), expected(&[("shop", "cart.shop", 7, 2), ("shop", "a.b", 1, 1)]));
        assert_eq!((shop.more, shop.clients), (0, 2));
        assert_eq!(shop.rows[0].group.as_ref().unwrap().id, "id-10000", "of the latest");
        drop((one, other));
        assert_eq!(rows(&registry.rows("", 0).unwrap()), expected(&[("shop", "cart.shop", 4, 1)]));
        drop(two);
        assert_eq!(registry.shared.room.held(), 0);
        assert!(registry.rows("", MAX_ROWS + 1).is_err());
    }

    #[test]
    fn a_client_keeps_no_more_than_its_room_over_all_its_streams() {
        let registry = RefusalRegistry::default();
        let long = "a".repeat(300);
        let groups: Vec<RefusalGroup> = (0..8).map(|age| group(&long, 1, age)).collect();
        let place = ("shop", "deployment/web");
        let mut guards = Vec::new();
        for number in 0..2000 {
            guards.push(report(&registry, number, place, groups.clone()));
        }
        let kept = registry.shared.workloads.lock().len();
        assert!(registry.shared.room.held() <= ROOM.per_client && kept > 100, "{kept}");
        let answer = registry.rows("", 1).unwrap();
        assert_eq!(answer.left_out, 2000 - u64::try_from(kept).unwrap());
        // Another client has its own room.
        let place = (&WorkloadKey::pod("shop", "other"), &"deployment/other".into());
        let other = registry.report((9999, &peer(2)), place, vec![group("a.b", 1, 0)]);
        assert_eq!(registry.rows("", 0).unwrap().clients, u64::try_from(kept + 1).unwrap());
        drop((guards, other));
        assert_eq!((registry.shared.room.held(), registry.rows("", 0).unwrap().left_out), (0, 0));
    }
    #[test]
    fn a_workload_counts_once_and_by_its_newest_stream() {
        let registry = RefusalRegistry::default();
        let (workload, owner) = (WorkloadKey::pod("shop", "web-0"), "deployment/web".into());
        let report = |number: u64, count: u64| {
            let groups = vec![group("cart.shop", count, 0)];
            registry.report((number, &peer(1)), (&workload, &owner), groups)
        };
        let counts = || {
            let answer = registry.rows("", 0).unwrap();
            let count = |row: &DeniedRow| (row.group.as_ref().unwrap().count, row.pods);
            answer.rows.iter().map(count).collect::<Vec<_>>()
        };
        let old = report(1, 3);
        let new = report(2, 5);
        assert_eq!(counts(), [(5, 1)]);
        let late = report(1, 9);
        drop((old, late));
        assert_eq!(counts(), [(5, 1)], "of the newer");
        drop(new);
        assert_eq!(counts(), []);
        assert_eq!((registry.shared.room.held(), registry.rows("", 0).unwrap().left_out), (0, 0));
    }

    #[tokio::test]
    async fn what_is_lost_to_another_client_is_counted() {
        let one = group("cart.shop", 1, 0);
        let room = u64::try_from(size(&one).saturating_add(GROUP_BYTES)).unwrap();
        let first = RevocationOrder::Newest;
        let bounds = CapacityBounds { total: room * 2, per_client: room * 2, first };
        let registry = RefusalRegistry::new(bounds);
        let of = |number: u64, by: u8| {
            let workload = WorkloadKey::pod("shop", &format!("pod-{number}"));
            registry.report((number, &peer(by)), (&workload, &"a".into()), vec![one.clone()])
        };
        let kept = of(1, 1);
        let mut lost = Some(Box::new(of(2, 1)));
        let other = of(3, 2);
        RefusalGuard::revoked(&lost).await;
        lost.as_mut().unwrap().give_up();
        let answer = registry.rows("", 0).unwrap();
        assert_eq!((answer.clients, answer.left_out), (2, 1));
        drop((kept, lost, other));
        let answer = registry.rows("", 0).unwrap();
        assert_eq!((answer.clients, answer.left_out), (0, 0));
    }

    #[test]
    fn an_answer_is_smaller_than_clients_accept() {
        let bounds = CapacityBounds { per_client: ROOM.total, ..ROOM };
        let registry = RefusalRegistry::new(bounds);
        let long = "\u{10ffff}".repeat(300);
        let guards: Vec<RefusalGuard> = (0..200)
            .map(|number| {
                let wide = |place: u64| RefusalGroup {
                    subject: format!("{number}-{place}-{long}"),
                    reason: long.clone(),
                    route: long.clone(),
                    id: long.clone(),
                    ..group("", 1, 0)
                };
                report(&registry, number, ("shop", "a"), (0..8).map(wide).collect())
            })
            .collect();
        let answer = registry.rows("", MAX_ROWS).unwrap();
        assert!(answer.encoded_len() < 4 * 1024 * 1024 && answer.rows.len() > 100);
        assert_eq!(answer.more, 1600 - u64::try_from(answer.rows.len()).unwrap());
        drop(guards);
    }
}
