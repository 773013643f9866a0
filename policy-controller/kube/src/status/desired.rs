//! The desired status of an object: conditions of four types, whatever the number of findings behind
//! them.

use super::message::bounded;
use foldhash::fast::FixedState;
use policy_crds::{HOSTNAMES_ATTACHED, ObjectKey};
use policy_engine::conditions::{
    AttachedHostname, ConditionKind, ObjectCondition, PROXY_UNSUPPORTED,
};
use policy_engine::desired_conditions::{DesiredConditions, StatusFields};
use policy_engine::programmed::{COMPATIBLE_PROXIES, NOWHERE, Programmed, ProgrammedAt};
use policy_engine::unsent::Unsent;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A desired condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DesiredCondition {
    /// One of [`TYPES`].
    pub(crate) kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'static str,
    /// The reason.
    pub(crate) reason: Arc<str>,
    /// The message, truncated.
    pub(crate) message: Arc<str>,
}

/// Our condition types. Those of other controllers are preserved.
pub const TYPES: [&str; 6] = [
    "Accepted",
    "PartiallyInvalid",
    "ResolvedRefs",
    "Programmed",
    PROXY_UNSUPPORTED,
    HOSTNAMES_ATTACHED,
];

/// The desired status about one parent of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ParentStatus {
    /// The Server, or the InboundRoute.
    pub(crate) server: ObjectKey,
    /// The section that the reference names.
    pub(crate) section: Option<Arc<str>>,
    /// The port that the reference names.
    pub(crate) port: Option<u16>,
    /// The conditions about it.
    pub(crate) conditions: Vec<DesiredCondition>,
    /// True if the proxy conditions are preserved, because this version has not been counted yet.
    pub(crate) keep: bool,
    /// The hostnames with which the route is attached to it, if it is a Server of the route's namespace.
    pub(crate) hostnames: Vec<AttachedHostname>,
}

/// The desired status of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DesiredStatus {
    /// The generation that it is about.
    pub(crate) generation: Option<i64>,
    /// The uid that it is about, because another object may have the same name.
    pub(crate) uid: Option<Arc<str>>,
    /// Conditions of the object as a whole.
    pub(crate) conditions: Vec<DesiredCondition>,
    /// True if the proxy conditions are preserved, because this version has not been counted yet.
    pub(crate) keep: bool,
    /// True while counts may be incomplete and this one is: a condition `Programmed` of this
    /// generation is preserved.
    pub(crate) provisional: bool,
    /// The status about each parent of a route, in the order of the references.
    pub(crate) parents: Vec<ParentStatus>,
    /// The fields besides the conditions.
    pub(crate) fields: Option<StatusFields>,
}

/// Hashes of a [`DesiredStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Hash of all of it.
    pub(crate) full: u64,
    /// Hash of all but the progress of `Programmed`, which may lag.
    pub(crate) urgent: u64,
    /// Hash of all but `Programmed`.
    pub(crate) without_programmed: u64,
    /// The level of `Programmed`.
    pub(crate) level: Level,
    /// Hash of what clients are not sent; `None` if they are sent all of it.
    pub(crate) unsent: Option<u64>,
}

/// The level of `Programmed`, over all parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// There is no such condition.
    Unset,
    /// Not everywhere.
    Partial,
    /// Nowhere, as long as its workloads stay as they are.
    Nowhere,
    /// The count is unknown.
    Unknown,
    /// Everywhere.
    Everywhere,
}

impl DesiredStatus {
    /// The desired status from an object's conditions and counts. The conditions of a route are about
    /// its parents, those of others about the object. A count of another version is ignored.
    pub(crate) fn new(
        key: &ObjectKey,
        stated: &DesiredConditions,
        counted: Option<&ProgrammedAt>,
    ) -> Self {
        let same = |at: &&ProgrammedAt| at.generation == stated.generation && at.uid == stated.uid;
        let counted = counted.filter(same);
        let programmed =
            counted.map(|at| DesiredCondition::programmed(&at.programmed.of(&stated.conditions)));
        let unsent = counted.and_then(|at| DesiredCondition::unsent(&at.unsent));
        let mut desired = Self {
            generation: stated.generation,
            uid: stated.uid.clone(),
            conditions: Vec::new(),
            keep: programmed.is_none(),
            provisional: false,
            parents: Vec::new(),
            fields: stated.fields.clone(),
        };
        if !is_route(key) {
            desired.conditions = collect_conditions(stated.conditions.iter());
            if let Some(words) = stated.fields.as_ref().and_then(super::fields::omissions) {
                remark(&mut desired.conditions, "", &words);
            }
            desired.conditions.extend(programmed.into_iter().chain(unsent));
            return desired;
        }
        for condition in stated.conditions.iter().filter(|c| c.parent.is_some()) {
            desired.about(condition);
        }
        for parent in &mut desired.parents {
            // A route is in force nowhere on behalf of a parent that refuses it.
            let mut conditions = parent.conditions.iter();
            let accepted = conditions.any(|t| t.kind == "Accepted" && t.status == "True");
            parent.keep = accepted && programmed.is_none();
            let more = programmed.iter().chain(&unsent).filter(|_| accepted);
            parent.conditions.extend(more.cloned());
        }
        desired
    }

    fn about(&mut self, condition: &ObjectCondition) {
        let Some(server) = &condition.parent else { return };
        let found = self.parents.iter_mut().find(|parent| {
            parent.server == *server
                && parent.section == condition.section
                && parent.port == condition.port
        });
        match found {
            Some(parent) => {
                parent.hostnames.extend(condition.hostnames.iter().cloned());
                add(&mut parent.conditions, condition);
            }
            None => {
                let (section, port) = (condition.section.clone(), condition.port);
                let conditions = collect_conditions(std::iter::once(condition));
                let (server, hostnames) = (server.clone(), condition.hostnames.clone());
                let keep = false;
                let parent = ParentStatus { server, section, port, conditions, keep, hostnames };
                self.parents.push(parent);
            }
        }
    }

    /// The same while counts may be incomplete.
    pub(crate) fn while_incomplete(self) -> Self {
        let provisional = matches!(self.level(), Level::Partial | Level::Unknown);
        Self { provisional, ..self }
    }

    /// All conditions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &DesiredCondition> {
        self.conditions.iter().chain(self.parents.iter().flat_map(|parent| &parent.conditions))
    }

    /// The hashes of it.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let brief = |condition: &DesiredCondition| {
            let message = (condition.kind != "Programmed").then(|| condition.message.clone());
            (condition.kind, condition.status, condition.reason.clone(), message)
        };
        let state = FixedState::default();
        let about = (self.generation, &self.uid, state.hash_one(&self.fields));
        let urgent: Vec<_> = self.all().map(brief).collect();
        let without_programmed: Vec<_> =
            self.all().filter(|condition| condition.kind != "Programmed").collect();
        Fingerprint {
            full: state.hash_one(self),
            urgent: state.hash_one((&about, urgent)),
            without_programmed: state.hash_one((&about, without_programmed)),
            level: self.level(),
            unsent: self.unsent().map(|condition| state.hash_one(condition)),
        }
    }

    /// The condition about what clients are not sent. It is the same for each parent.
    pub(crate) fn unsent(&self) -> Option<&DesiredCondition> {
        self.all().find(|condition| condition.kind == PROXY_UNSUPPORTED)
    }

    /// True if this version has not been counted yet for some condition.
    pub(crate) fn keeps_proxy_conditions(&self) -> bool {
        self.keep || self.parents.iter().any(|parent| parent.keep)
    }

    fn level(&self) -> Level {
        let programmed = self.all().filter(|condition| condition.kind == "Programmed");
        let level = |condition: &DesiredCondition| match (&*condition.reason, condition.status) {
            (reason, _) if NOWHERE.contains(&reason) => Level::Nowhere,
            // The state of proxies of Linkerd's API will not be known later either, so it is written
            // at once.
            (COMPATIBLE_PROXIES, _) | (_, "False") => Level::Partial,
            (_, "Unknown") => Level::Unknown,
            _ => Level::Everywhere,
        };
        let levels: Vec<Level> = programmed.map(level).collect();
        match () {
            () if levels.is_empty() => Level::Unset,
            () if levels.iter().all(|level| *level == Level::Nowhere) => Level::Nowhere,
            () if levels.iter().any(|level| [Level::Partial, Level::Nowhere].contains(level)) => {
                Level::Partial
            }
            () if levels.contains(&Level::Unknown) => Level::Unknown,
            () => Level::Everywhere,
        }
    }
}

/// True if the conditions of this kind are about its parents rather than the object.
pub(crate) fn is_route(key: &ObjectKey) -> bool {
    key.kind.is_route()
}

impl DesiredCondition {
    fn programmed(programmed: &Programmed) -> Self {
        Self {
            kind: "Programmed",
            status: programmed.status(),
            reason: programmed.reason(),
            message: bounded(&programmed.to_string()),
        }
    }

    /// Returns `None` where clients are sent all of it.
    fn unsent(unsent: &Unsent) -> Option<Self> {
        (!unsent.is_empty()).then(|| Self {
            kind: PROXY_UNSUPPORTED,
            status: "True",
            reason: unsent.reason().into(),
            message: bounded(&unsent.to_string()),
        })
    }

    /// True if an operator should look at it.
    pub(crate) fn is_warning(&self) -> bool {
        match self.kind {
            PROXY_UNSUPPORTED | "PartiallyInvalid" => true,
            "Programmed" => &*self.reason == "Refused",
            _ => {
                self.status != "True"
                    || [ANNOTATIONS_INVALID, PRECEDENCE_DIFFERS, OVERLAPS].contains(&&*self.reason)
            }
        }
    }
}

/// The reason of an object that takes effect although an annotation of it cannot be read.
const ANNOTATIONS_INVALID: &str = "AnnotationsInvalid";
/// The reason of an object that takes effect, but not for Linkerd's proxies as it does for ours.
const PRECEDENCE_DIFFERS: &str = "PrecedenceDiffers";
/// The reason of an object that takes effect, and whose order among others matters.
const OVERLAPS: &str = "Overlaps";
/// The reason of an object that stopped matching without being edited.
pub(crate) const STOPPED_MATCHING: &str = "StoppedMatching";

/// The reason of the condition that records times of a route.
pub(crate) const RECORDED: &str = "Recorded";

/// Every reason that the status has besides those of the conditions that it is made from.
pub const REASONS: [&str; 5] =
    [ANNOTATIONS_INVALID, PRECEDENCE_DIFFERS, OVERLAPS, STOPPED_MATCHING, RECORDED];

fn collect_conditions<'a>(
    conditions: impl Iterator<Item = &'a ObjectCondition>,
) -> Vec<DesiredCondition> {
    let mut collected = Vec::new();
    for condition in conditions {
        add(&mut collected, condition);
    }
    collected
}

/// Adds a finding: a condition of its own, or part of `Accepted`, whose reason it becomes unless that
/// has the reason of a failure.
fn add(conditions: &mut Vec<DesiredCondition>, condition: &ObjectCondition) {
    let status = if condition.status { "True" } else { "False" };
    let (kind, reason) = match condition.kind {
        ConditionKind::Accepted => ("Accepted", condition.reason.as_str()),
        ConditionKind::PartiallyInvalid => ("PartiallyInvalid", condition.reason.as_str()),
        ConditionKind::ResolvedRefs => ("ResolvedRefs", condition.reason.as_str()),
        ConditionKind::PrecedenceDiffers => {
            return remark(conditions, PRECEDENCE_DIFFERS, &condition.message);
        }
        ConditionKind::Overlaps => return remark(conditions, OVERLAPS, &condition.message),
        ConditionKind::AnnotationsValid => {
            return remark(conditions, ANNOTATIONS_INVALID, &condition.message);
        }
    };
    let message = bounded(&condition.message);
    conditions.push(DesiredCondition { kind, status, reason: reason.into(), message });
}

/// Adds words to `Accepted`, and a reason unless it is empty.
fn remark(conditions: &mut Vec<DesiredCondition>, reason: &'static str, message: &str) {
    let Some(accepted) = conditions.iter_mut().find(|condition| condition.kind == "Accepted")
    else {
        let message = bounded(message);
        conditions.push(DesiredCondition {
            kind: "Accepted",
            status: "True",
            reason: reason.into(),
            message,
        });
        return;
    };
    if !reason.is_empty() && accepted.status == "True" && &*accepted.reason == "Accepted" {
        accepted.reason = reason.into();
    }
    accepted.message = match &*accepted.message {
        "" => bounded(message),
        before => bounded(&format!("{before}; {message}")),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_crds::Kind;
    use policy_engine::conditions::Reason;
    use policy_engine::reach::Reach;
    use policy_engine::testing::key;

    fn condition(
        object: &ObjectKey,
        parent: Option<&ObjectKey>,
        kind: ConditionKind,
        (status, reason): (bool, Reason),
        message: &str,
    ) -> ObjectCondition {
        ObjectCondition {
            object: object.clone(),
            parent: parent.cloned(),
            section: None,
            port: None,
            kind,
            status,
            reason,
            message: message.into(),
            hostnames: Vec::new(),
        }
    }

    fn stated(conditions: Vec<ObjectCondition>) -> DesiredConditions {
        DesiredConditions {
            conditions: conditions.into(),
            generation: Some(3),
            uid: Some("u".into()),
            fields: None,
        }
    }

    fn counted(programmed: Programmed, generation: i64) -> ProgrammedAt {
        let unsent = Unsent::default();
        ProgrammedAt { uid: Some("u".into()), generation: Some(generation), programmed, unsent }
    }

    #[test]
    fn a_count_of_another_version_says_nothing() {
        let server = key(Kind::Server, "ns", "s");
        let stated = stated(vec![condition(&server, None, ConditionKind::Accepted, ACCEPTED, "")]);
        let programmed = Programmed::counted(2, 2, 0);
        let outcome = |at: &ProgrammedAt| {
            let desired = DesiredStatus::new(&server, &stated, Some(at));
            (desired.conditions.len(), desired.keep)
        };
        assert_eq!(outcome(&counted(programmed.clone(), 3)), (2, false));
        assert_eq!(outcome(&counted(programmed.clone(), 2)), (1, true));
        let other = ProgrammedAt { uid: Some("v".into()), ..counted(programmed, 3) };
        assert_eq!(outcome(&other), (1, true));
        let desired = DesiredStatus::new(&server, &stated, None);
        assert_eq!((desired.conditions.len(), desired.keep), (1, true));
    }

    fn lines(conditions: &[DesiredCondition]) -> Vec<String> {
        let line =
            |t: &DesiredCondition| format!("{}={} {} {}", t.kind, t.status, t.reason, t.message);
        conditions.iter().map(line).collect()
    }

    const ACCEPTED: (bool, Reason) = (true, Reason::Accepted);
    const DIFFERS: (bool, Reason) = (true, Reason::PrecedenceDiffers);

    #[test]
    fn what_is_not_one_of_the_three_types_becomes_the_reason_of_accepted() {
        let server = key(Kind::Server, "ns", "s");
        let accepted = |s, m| condition(&server, None, ConditionKind::Accepted, s, m);
        let differs = |m| condition(&server, None, ConditionKind::PrecedenceDiffers, DIFFERS, m);
        let unreadable = |m| {
            let what = (false, Reason::UnsupportedValue);
            condition(&server, None, ConditionKind::AnnotationsValid, what, m)
        };
        let conditions_of =
            |conditions| lines(&DesiredStatus::new(&server, &stated(conditions), None).conditions);
        assert_eq!(
            conditions_of(vec![accepted(ACCEPTED, ""), differs("a before b")]),
            ["Accepted=True PrecedenceDiffers a before b"]
        );
        assert_eq!(
            conditions_of(vec![accepted(ACCEPTED, "one"), unreadable("two"), differs("three")]),
            ["Accepted=True AnnotationsInvalid one; two; three"]
        );
        let overlaps = (true, Reason::Overlaps);
        let overlaps = condition(&server, None, ConditionKind::Overlaps, overlaps, "two");
        assert_eq!(
            conditions_of(vec![accepted(ACCEPTED, ""), overlaps]),
            ["Accepted=True Overlaps two"]
        );
        assert_eq!(
            conditions_of(vec![accepted((false, Reason::Invalid), "one"), unreadable("two")]),
            ["Accepted=False Invalid one; two"]
        );
    }

    #[test]
    fn a_route_is_told_about_each_parent_and_programmed_only_where_it_is_accepted() {
        let route = key(Kind::GatewayHttpRoute, "ns", "r");
        let (a, b) = (key(Kind::Server, "ns", "a"), key(Kind::Server, "ns", "b"));
        let refused = (false, Reason::NoMatchingParent);
        let resolved = (true, Reason::ResolvedRefs);
        let conditions = vec![
            condition(&route, Some(&a), ConditionKind::Accepted, ACCEPTED, ""),
            condition(&route, Some(&a), ConditionKind::ResolvedRefs, resolved, ""),
            condition(&route, Some(&a), ConditionKind::PrecedenceDiffers, DIFFERS, "x"),
            condition(&route, Some(&b), ConditionKind::Accepted, refused, "gone"),
        ];
        let programmed = Programmed::counted(1, 2, 0);
        let at = counted(programmed, 3);
        let desired = DesiredStatus::new(&route, &stated(conditions), Some(&at));
        assert!(desired.conditions.is_empty());
        let about: Vec<_> =
            desired.parents.iter().map(|p| (p.server.clone(), lines(&p.conditions))).collect();
        let of_a = [
            "Accepted=True PrecedenceDiffers x",
            "ResolvedRefs=True ResolvedRefs ",
            "Programmed=False Pending in force on 1 of 2 proxies",
        ];
        let of_b = ["Accepted=False NoMatchingParent gone"];
        let expected =
            vec![(a, of_a.map(str::to_owned).to_vec()), (b, of_b.map(str::to_owned).to_vec())];
        assert_eq!(about, expected);
    }

    #[test]
    fn what_clients_are_not_sent_is_told_where_it_is_accepted() {
        let route = key(Kind::GatewayHttpRoute, "ns", "r");
        let (a, b) = (key(Kind::Server, "ns", "a"), key(Kind::Server, "ns", "b"));
        let refused = (false, Reason::NoMatchingParent);
        let stated = stated(vec![
            condition(&route, Some(&a), ConditionKind::Accepted, ACCEPTED, ""),
            condition(&route, Some(&b), ConditionKind::Accepted, refused, "gone"),
        ]);
        let programmed = Programmed::counted(0, 0, 0);
        let mut at = counted(programmed, 3);
        let all = DesiredStatus::new(&route, &stated, Some(&at));
        assert_eq!(all.fingerprint().unsent, None);
        at.unsent.left_out.insert("old clients: a timeout: not sent".into());
        let desired = DesiredStatus::new(&route, &stated, Some(&at));
        let parents: Vec<_> =
            desired.parents.iter().map(|parent| lines(&parent.conditions)).collect();
        let last = parents.first().and_then(|parents| parents.last()).map(String::as_str);
        assert_eq!(last, Some("ProxyUnsupported=True LeftOut old clients: a timeout: not sent"));
        assert_eq!(parents.get(1).map(Vec::len), Some(1), "{parents:?}");
        assert!(desired.unsent().is_some_and(DesiredCondition::is_warning));
        assert_ne!(desired.fingerprint().urgent, all.fingerprint().urgent, "it is urgent");
    }

    #[test]
    fn that_only_compatible_proxies_have_it_is_known() {
        let server = key(Kind::Server, "ns", "s");
        let stated = stated(vec![condition(&server, None, ConditionKind::Accepted, ACCEPTED, "")]);
        let level = |programmed| {
            DesiredStatus::new(&server, &stated, Some(&counted(programmed, 3))).fingerprint().level
        };
        let reach = Arc::new(Reach { compatible: 1, ..Reach::default() });
        let programmed = Programmed::Counted { in_force: 0, concerned: 0, refused: 0, reach };
        assert_eq!(programmed.status(), "Unknown");
        assert_eq!(level(programmed), Level::Partial);
        let unknown = Programmed::Unknown { reason: "x".into(), message: "x".into() };
        assert_eq!(level(unknown), Level::Unknown);
    }

    #[test]
    fn that_no_workload_has_it_is_another_level_than_that_some_have_not() {
        let server = key(Kind::Server, "ns", "s");
        let stated = stated(vec![condition(&server, None, ConditionKind::Accepted, ACCEPTED, "")]);
        let level = |concerned, reach| {
            let (in_force, refused, reach) = (0, 0, Arc::new(reach));
            let programmed = Programmed::Counted { in_force, concerned, refused, reach };
            DesiredStatus::new(&server, &stated, Some(&counted(programmed, 3))).fingerprint().level
        };
        assert_eq!(level(1, Reach::default()), Level::Partial);
        assert_eq!(level(0, Reach { idle: 1, ..Reach::default() }), Level::Nowhere);
        assert_eq!(level(0, Reach { bare: 1, ..Reach::default() }), Level::Nowhere);
        assert_eq!(level(0, Reach::nowhere("NoTarget", "x")), Level::Nowhere);
        // These are caused by an edit.
        assert_eq!(level(0, Reach::nowhere("Conflicted", "x")), Level::Partial);
        assert_eq!(level(0, Reach::nowhere("NotReferenced", "x")), Level::Partial);
    }

    #[test]
    fn progress_alone_is_not_urgent() {
        let server = key(Kind::Server, "ns", "s");
        let stated = stated(vec![condition(&server, None, ConditionKind::Accepted, ACCEPTED, "")]);
        let at = |in_force| {
            let programmed = Programmed::counted(in_force, 9, 0);
            DesiredStatus::new(&server, &stated, Some(&counted(programmed, 3))).fingerprint()
        };
        assert_eq!(at(1), at(1));
        assert_ne!(at(1).full, at(2).full);
        assert_eq!(at(1).urgent, at(2).urgent);
        assert_ne!(at(8).urgent, at(9).urgent, "it became true");
    }

    #[test]
    fn messages_are_bounded_without_cutting_a_character() {
        assert_eq!(&*bounded("short"), "short");
        let long = bounded(&"ä".repeat(2000));
        assert!(long.len() <= 1024 && long.ends_with("ä…"), "{}", long.len());
    }
}
