//! Compares the acknowledged policies with the desired ones: n of m, per object.
//!
//! Workloads of one shape are counted together, and only shapes that something changed about are
//! counted again: the work is in proportion to the workloads of the shapes concerned.
//!
//! **Invariants.** A workload counts once, whichever replicas it is connected to. It counts as having
//! an object in force only if what it acknowledged equals the desired policy on every port whose
//! policy the object contributes to, so that policies from a stale replica count nowhere.

use super::timing::Timing;
use crate::serve::{InForce, WorkloadPort, cut};
use hashbrown::HashMap;
use policy_core::{ObjectRef, WorkloadKey};
use policy_engine::desired::{DesiredDelta, DesiredPolicy, DesiredPorts, ShapeId};
use policy_engine::report::Count;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// Identifies the source of a report: a replica, by the number of its stream.
pub(crate) type ReporterId = u64;

/// Reports and counts of all objects.
#[derive(Debug)]
pub(crate) struct AckTable {
    keep: Duration,
    shapes: HashMap<ShapeId, Group>,
    workloads: HashMap<WorkloadKey, ShapeId>,
    reported: HashMap<WorkloadPort, BTreeMap<ReporterId, ReportedPort>>,
    /// Reports that were withdrawn, oldest first.
    withdrawals: VecDeque<(Instant, WorkloadPort, ReporterId)>,
    dirty: BTreeSet<ShapeId>,
    /// The objects whose contributions some client is not sent, because a port is too large with them.
    lacking: BTreeSet<ObjectRef>,
    totals: BTreeMap<ObjectRef, Count>,
    timing: Timing,
}

/// The workloads of one shape.
#[derive(Debug, Default)]
struct Group {
    ports: DesiredPorts,
    workloads: BTreeSet<WorkloadKey>,
    counts: BTreeMap<ObjectRef, Count>,
}

/// The state of a port as one replica reported it.
#[derive(Clone, Debug)]
struct ReportedPort {
    in_force: InForce,
    /// Time of its withdrawal, if the replica withdrew it.
    withdrawn: Option<Instant>,
}

/// Rollout state of one port of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortRollout {
    /// The desired policy is in force, since then.
    InForce(Instant),
    /// The same without the objects for whose contributions a message had no room.
    Cut(Instant),
    Missing,
    Refused,
}

impl AckTable {
    /// Creates an empty table. A withdrawn report counts for `keep` longer, unless another replica
    /// reports the same port: a proxy that moves from one replica to another goes on deciding by
    /// the policy it has.
    pub(crate) fn new(keep: Duration) -> Self {
        Self {
            keep,
            shapes: HashMap::new(),
            workloads: HashMap::new(),
            reported: HashMap::new(),
            withdrawals: VecDeque::new(),
            dirty: BTreeSet::new(),
            lacking: BTreeSet::new(),
            totals: BTreeMap::new(),
            timing: Timing::default(),
        }
    }

    /// Updates the desired policies.
    pub(crate) fn set_desired(&mut self, news: &DesiredDelta) {
        let mut change = self.timing.change(news.since);
        for (number, ports) in &news.shapes {
            let group = self.shapes.entry(*number).or_default();
            for (port, wanted) in ports {
                let before = group.ports.get(port).map(|before| before.content);
                if before.is_some_and(|before| before != wanted.content) {
                    change.concerns(*number, *port);
                }
            }
            for port in group.ports.keys().filter(|port| !ports.contains_key(port)) {
                change.drops(*number, *port);
            }
            group.ports = ports.clone();
            self.dirty.insert(*number);
        }
        for (key, shape) in &news.workloads {
            if let Some(before) = self.workloads.remove(key) {
                self.dirty.insert(before);
                if let Some(group) = self.shapes.get_mut(&before) {
                    group.workloads.remove(key);
                }
            }
            let Some(number) = shape else { continue };
            self.workloads.insert(key.clone(), *number);
            self.dirty.insert(*number);
            self.shapes.entry(*number).or_default().workloads.insert(key.clone());
        }
    }

    /// Records the report of `reporter` about a port; `None`: it is withdrawn.
    pub(crate) fn record(
        &mut self,
        reporter: ReporterId,
        at: &WorkloadPort,
        in_force: Option<InForce>,
    ) {
        match in_force {
            Some(in_force) => {
                let reported = ReportedPort { in_force, withdrawn: None };
                self.reported.entry(at.clone()).or_default().insert(reporter, reported);
            }
            None => {
                let now = Instant::now();
                let reported =
                    self.reported.get_mut(at).and_then(|reporters| reporters.get_mut(&reporter));
                let Some(reported) = reported.filter(|reported| reported.withdrawn.is_none())
                else {
                    return;
                };
                reported.withdrawn = Some(now);
                self.withdrawals.push_back((now, at.clone(), reporter));
            }
        }
        self.touch(at);
    }

    /// Withdraws everything that `reporter` reported, except for the ports in `still`.
    pub(crate) fn retract(&mut self, reporter: ReporterId, still: &BTreeSet<WorkloadPort>) {
        let says = |reporters: &BTreeMap<ReporterId, ReportedPort>| {
            reporters.get(&reporter).is_some_and(|reported| reported.withdrawn.is_none())
        };
        let gone =
            self.reported.iter().filter(|(at, reporters)| says(reporters) && !still.contains(*at));
        let gone: Vec<WorkloadPort> = gone.map(|(at, _)| at.clone()).collect();
        for at in gone {
            self.record(reporter, &at, None);
        }
    }

    /// Removes reports that were withdrawn long enough before `now`.
    pub(crate) fn expire(&mut self, now: Instant) {
        let keep = self.keep;
        let is_over = |gone: Instant| now.saturating_duration_since(gone) >= keep;
        while let Some((when, at, reporter)) =
            self.withdrawals.pop_front_if(|(when, ..)| is_over(*when))
        {
            let Some(reporters) = self.reported.get_mut(&at) else { continue };
            // Reported again meanwhile, or withdrawn again later.
            if reporters.get(&reporter).is_none_or(|reported| reported.withdrawn != Some(when)) {
                continue;
            }
            reporters.remove(&reporter);
            if reporters.is_empty() {
                self.reported.remove(&at);
            }
            self.touch(&at);
        }
    }

    /// Takes the objects of which clients are denied a part. Those that contribute to a port that is sent
    /// without some contributions are not in force there.
    pub(crate) fn set_lacking(&mut self, lacking: BTreeSet<ObjectRef>) {
        if self.lacking == lacking {
            return;
        }
        let differ = self.lacking.symmetric_difference(&lacking);
        let differ: BTreeSet<&ObjectRef> = differ.collect();
        for (number, group) in &self.shapes {
            let mut objects = group.ports.values().flat_map(|wanted| wanted.objects.iter());
            if objects.any(|object| differ.contains(object)) {
                self.dirty.insert(*number);
            }
        }
        self.lacking = lacking;
    }

    /// Counts the changed shapes again; true if a count changed.
    pub(crate) fn recount(&mut self) -> bool {
        let mut differs = false;
        for number in std::mem::take(&mut self.dirty) {
            let Some(group) = self.shapes.get(&number) else { continue };
            let counts = self.count(number, group.clone_parts());
            let Some(group) = self.shapes.get_mut(&number) else { continue };
            let before = std::mem::replace(&mut group.counts, counts.clone());
            if group.workloads.is_empty() {
                self.timing.forget(number);
                self.shapes.remove(&number);
            }
            if before == counts {
                continue;
            }
            differs = true;
            self.add(&before, u64::saturating_sub);
            self.add(&counts, u64::saturating_add);
            self.totals
                .retain(|object, total| *total != Count::default() || counts.contains_key(object));
        }
        differs
    }

    /// The count of every object that contributes to something.
    pub(crate) fn counts(&self) -> &BTreeMap<ObjectRef, Count> {
        &self.totals
    }

    /// True if nothing is stored.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            keep: _,
            shapes,
            workloads,
            reported,
            withdrawals,
            dirty,
            lacking: _,
            totals,
            timing,
        } = self;
        shapes.is_empty()
            && workloads.is_empty()
            && reported.is_empty()
            && withdrawals.is_empty()
            && dirty.is_empty()
            && totals.is_empty()
            && timing.is_empty()
    }

    /// Returns the durations of the changes that have come to be in force everywhere since the last
    /// call.
    pub(crate) fn take_durations(&mut self) -> Vec<Duration> {
        self.timing.take_durations()
    }

    fn touch(&mut self, at: &WorkloadPort) {
        if let Some(number) = self.workloads.get(&at.0) {
            self.dirty.insert(*number);
        }
    }

    fn add(&mut self, counts: &BTreeMap<ObjectRef, Count>, with: fn(u64, u64) -> u64) {
        for (object, count) in counts {
            let total = self.totals.entry(object.clone()).or_default();
            total.in_force = with(total.in_force, count.in_force);
            total.concerned = with(total.concerned, count.concerned);
            total.refused = with(total.refused, count.refused);
        }
    }

    fn port_rollout(
        &self,
        key: &WorkloadKey,
        port: NonZeroU16,
        wanted: &DesiredPolicy,
    ) -> PortRollout {
        let Some(reporters) = self.reported.get(&(key.clone(), port)) else {
            return PortRollout::Missing;
        };
        let live = || reporters.values().filter(|reported| reported.withdrawn.is_none());
        // The last report about a port of which all reports are withdrawn.
        let last = || reporters.values().max_by_key(|reported| reported.withdrawn);
        let latest: Vec<&ReportedPort> =
            if live().next().is_some() { live().collect() } else { last().into_iter().collect() };
        if latest.iter().any(|reported| reported.in_force.refused.is_some()) {
            return PortRollout::Refused;
        }
        let has = |content: u64| latest.iter().all(|one| one.in_force.content == content);
        let may_have = |content: u64| {
            let content = [content, cut(content)];
            latest.iter().all(|one| content.contains(&one.in_force.content))
        };
        match latest.iter().map(|reported| reported.in_force.since).max() {
            Some(_) if wanted.content == 0 => PortRollout::Missing,
            Some(since) if has(wanted.content) => PortRollout::InForce(since),
            Some(since) if may_have(wanted.content) => PortRollout::Cut(since),
            Some(_) | None => PortRollout::Missing,
        }
    }

    fn count(
        &mut self,
        number: ShapeId,
        (ports, workloads): (DesiredPorts, BTreeSet<WorkloadKey>),
    ) -> BTreeMap<ObjectRef, Count> {
        let mut alike: BTreeMap<MissingPorts, u64> = BTreeMap::new();
        let mut everywhere: BTreeMap<NonZeroU16, Option<Instant>> =
            ports.keys().map(|port| (*port, None)).collect();
        for key in &workloads {
            let mut missing = MissingPorts::default();
            for (port, wanted) in &ports {
                match self.port_rollout(key, *port, wanted) {
                    state @ (PortRollout::InForce(since) | PortRollout::Cut(since)) => {
                        if let Some(latest) = everywhere.get_mut(port) {
                            *latest = (*latest).max(Some(since));
                        }
                        if matches!(state, PortRollout::Cut(_)) {
                            missing.cut.push(*port);
                        }
                        continue;
                    }
                    PortRollout::Missing => {}
                    PortRollout::Refused => missing.refused.push(*port),
                }
                missing.ports.push(*port);
                everywhere.remove(port);
            }
            let count = alike.entry(missing).or_default();
            *count = count.saturating_add(1);
        }
        for (port, latest) in everywhere {
            self.timing.reached(number, port, latest);
        }
        let mut counts = BTreeMap::new();
        for (object, on) in ports_by_object(&ports) {
            let is_lacking = self.lacking.contains(&object);
            counts.insert(object, add_up(&alike, &on, is_lacking));
        }
        if workloads.is_empty() { BTreeMap::new() } else { counts }
    }
}

/// Ports on which a workload lacks the desired policy.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct MissingPorts {
    ports: Vec<NonZeroU16>,
    refused: Vec<NonZeroU16>,
    /// Ports whose policy it has but for what others contribute too much of.
    cut: Vec<NonZeroU16>,
}

impl Group {
    fn clone_parts(&self) -> (DesiredPorts, BTreeSet<WorkloadKey>) {
        (self.ports.clone(), self.workloads.clone())
    }
}

fn ports_by_object(ports: &DesiredPorts) -> BTreeMap<ObjectRef, Vec<NonZeroU16>> {
    let mut by_object = BTreeMap::<ObjectRef, Vec<NonZeroU16>>::new();
    for (port, wanted) in ports {
        for object in wanted.objects.iter() {
            by_object.entry(object.clone()).or_default().push(*port);
        }
    }
    by_object
}

/// Counts the workloads that have an object in force on all of these ports. `is_lacking`: it is one of those that
/// are left out of ports for which they are too large.
fn add_up(alike: &BTreeMap<MissingPorts, u64>, on: &[NonZeroU16], is_lacking: bool) -> Count {
    let mut count = Count::default();
    for (missing, workloads) in alike {
        count.concerned = count.concerned.saturating_add(*workloads);
        let cut = missing.cut.iter().filter(|_| is_lacking);
        if !missing.ports.iter().chain(cut).any(|port| on.contains(port)) {
            count.in_force = count.in_force.saturating_add(*workloads);
        }
        if missing.refused.iter().any(|port| on.contains(port)) {
            count.refused = count.refused.saturating_add(*workloads);
        }
    }
    count
}
