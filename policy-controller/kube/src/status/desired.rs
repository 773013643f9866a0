//! What an object's status should say: conditions of the four types, however many kinds of statement
//! there are inside.

use foldhash::fast::FixedState;
use policy_crds::ObjectKey;
use policy_engine::conditions::{ConditionKind, ObjectCondition, PROXY_UNSUPPORTED};
use policy_engine::desired_conditions::DesiredConditions;
use policy_engine::programmed::{COMPATIBLE_PROXIES, NOWHERE, Programmed, ProgrammedAt};
use policy_engine::unsent::Unsent;
use std::hash::BuildHasher;
use std::sync::Arc;

/// What a message may be long; the API server takes 32 KiB, people less.
const MESSAGE_BYTES: usize = 1024;

/// One condition as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Told {
    /// `Accepted`, `ResolvedRefs`, `Programmed` or `ProxyUnsupported`.
    pub(crate) kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'static str,
    /// Why, for programs.
    pub(crate) reason: Arc<str>,
    /// Why, for people; bounded.
    pub(crate) message: Arc<str>,
}

/// The types of condition that are ours; those of others are left alone.
pub(crate) const TYPES: [&str; 4] = ["Accepted", "ResolvedRefs", "Programmed", PROXY_UNSUPPORTED];

/// What is told about one parent of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AboutParent {
    /// The Server.
    pub(crate) server: ObjectKey,
    /// The section that the reference names.
    pub(crate) section: Option<Arc<str>>,
    /// The port that the reference names.
    pub(crate) port: Option<u16>,
    /// What is told.
    pub(crate) told: Vec<Told>,
    /// Whether the conditions about proxies stay as they are: nothing is known yet of this version.
    pub(crate) keep: bool,
}

/// What an object is to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Desired {
    /// The generation that it is about.
    pub(crate) generation: Option<i64>,
    /// The object that it is about, not another of the same name.
    pub(crate) uid: Option<Arc<str>>,
    /// About the object as a whole.
    pub(crate) own: Vec<Told>,
    /// Whether the conditions about proxies stay as they are: nothing is known yet of this version.
    pub(crate) keep: bool,
    /// About each parent of a route, in the order of the references.
    pub(crate) parents: Vec<AboutParent>,
}

/// Stands for a [`Desired`] that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// All of it.
    pub(crate) full: u64,
    /// All but how far it has been programmed, which may lag.
    pub(crate) urgent: u64,
    /// All but whether it is programmed.
    pub(crate) beside: u64,
    /// Whether it is programmed.
    pub(crate) level: Level,
    /// What clients are not sent of it; none if there is nothing.
    pub(crate) unsent: Option<u64>,
}

/// Whether something is programmed, over all that is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing is said of it.
    Unsaid,
    /// Not everywhere.
    Down,
    /// Nowhere, as long as its workloads are what they are.
    Lost,
    /// Nobody knows.
    Unknown,
    /// Everywhere.
    Up,
}

impl Desired {
    /// What an object is to be told by its conditions and counts. The conditions of a route are about
    /// its parents, those of others about the object. A count of another version says nothing.
    pub(crate) fn new(
        key: &ObjectKey,
        stated: &DesiredConditions,
        counted: Option<&ProgrammedAt>,
    ) -> Self {
        let same = |at: &&ProgrammedAt| at.generation == stated.generation && at.uid == stated.uid;
        let counted = counted.filter(same);
        let programmed = counted.map(|at| Told::programmed(&at.programmed.of(&stated.conditions)));
        let unsent = counted.and_then(|at| Told::unsent(&at.unsent));
        let mut desired = Self {
            generation: stated.generation,
            uid: stated.uid.clone(),
            own: Vec::new(),
            keep: programmed.is_none(),
            parents: Vec::new(),
        };
        if !is_route(key) {
            desired.own = gather(stated.conditions.iter());
            desired.own.extend(programmed.into_iter().chain(unsent));
            return desired;
        }
        for condition in stated.conditions.iter().filter(|c| c.parent.is_some()) {
            desired.about(condition);
        }
        for parent in &mut desired.parents {
            // What a parent refuses is in force nowhere for its sake.
            let mut told = parent.told.iter();
            let accepted = told.any(|t| t.kind == "Accepted" && t.status == "True");
            parent.keep = accepted && programmed.is_none();
            let more = programmed.iter().chain(&unsent).filter(|_| accepted);
            parent.told.extend(more.cloned());
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
            Some(parent) => add(&mut parent.told, condition),
            None => {
                let (section, port) = (condition.section.clone(), condition.port);
                let told = gather(std::iter::once(condition));
                let server = server.clone();
                self.parents.push(AboutParent { server, section, port, told, keep: false });
            }
        }
    }

    /// Everything that is told.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Told> {
        self.own.iter().chain(self.parents.iter().flat_map(|parent| &parent.told))
    }

    /// Stands for it.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let brief = |told: &Told| {
            let message = (told.kind != "Programmed").then(|| told.message.clone());
            (told.kind, told.status, told.reason.clone(), message)
        };
        let urgent: Vec<_> = self.all().map(brief).collect();
        let beside: Vec<_> = self.all().filter(|told| told.kind != "Programmed").collect();
        let state = FixedState::default();
        Fingerprint {
            full: state.hash_one(self),
            urgent: state.hash_one((self.generation, &self.uid, urgent)),
            beside: state.hash_one((self.generation, &self.uid, beside)),
            level: self.level(),
            unsent: self.unsent().map(|told| state.hash_one(told)),
        }
    }

    /// What clients are not sent of it. It is the same about each parent.
    pub(crate) fn unsent(&self) -> Option<&Told> {
        self.all().find(|told| told.kind == PROXY_UNSUPPORTED)
    }

    /// Whether nothing is known yet of what is in force of this version.
    pub(crate) fn keeps(&self) -> bool {
        self.keep || self.parents.iter().any(|parent| parent.keep)
    }

    fn level(&self) -> Level {
        let told = self.all().filter(|told| told.kind == "Programmed");
        let level = |told: &Told| match (&*told.reason, told.status) {
            (reason, _) if NOWHERE.contains(&reason) => Level::Lost,
            // What proxies of Linkerd's API have is not known later either: it is told at once.
            (COMPATIBLE_PROXIES, _) | (_, "False") => Level::Down,
            (_, "Unknown") => Level::Unknown,
            _ => Level::Up,
        };
        let levels: Vec<Level> = told.map(level).collect();
        match () {
            () if levels.is_empty() => Level::Unsaid,
            () if levels.iter().all(|level| *level == Level::Lost) => Level::Lost,
            () if levels.iter().any(|level| [Level::Down, Level::Lost].contains(level)) => {
                Level::Down
            }
            () if levels.contains(&Level::Unknown) => Level::Unknown,
            () => Level::Up,
        }
    }
}

/// Whether an object of this kind is told about its parents rather than itself.
pub(crate) fn is_route(key: &ObjectKey) -> bool {
    key.kind.is_route()
}

impl Told {
    fn programmed(programmed: &Programmed) -> Self {
        Self {
            kind: "Programmed",
            status: programmed.status(),
            reason: programmed.reason(),
            message: bounded(&programmed.to_string()),
        }
    }

    /// Nothing where clients are sent all of it.
    fn unsent(unsent: &Unsent) -> Option<Self> {
        (!unsent.is_empty()).then(|| Self {
            kind: PROXY_UNSUPPORTED,
            status: "True",
            reason: unsent.reason().into(),
            message: bounded(&unsent.to_string()),
        })
    }

    /// Whether somebody should look at it.
    pub(crate) fn is_warning(&self) -> bool {
        match self.kind {
            PROXY_UNSUPPORTED => true,
            "Programmed" => &*self.reason == "Refused",
            _ => self.status != "True" || [ANNOTATIONS, PRECEDENCE].contains(&&*self.reason),
        }
    }
}

/// The reason of what takes effect although an annotation of it cannot be read.
const ANNOTATIONS: &str = "AnnotationsInvalid";
/// The reason of what takes effect, but not for Linkerd's proxies as it does for ours.
const PRECEDENCE: &str = "PrecedenceDiffers";

fn gather<'a>(conditions: impl Iterator<Item = &'a ObjectCondition>) -> Vec<Told> {
    let mut told = Vec::new();
    for condition in conditions {
        add(&mut told, condition);
    }
    told
}

/// Adds a statement: a condition of its own, or part of `Accepted`, whose reason it becomes unless
/// that says why something has no effect.
fn add(told: &mut Vec<Told>, condition: &ObjectCondition) {
    let status = if condition.status { "True" } else { "False" };
    let (kind, reason) = match condition.kind {
        ConditionKind::Accepted => ("Accepted", condition.reason.as_str()),
        ConditionKind::ResolvedRefs => ("ResolvedRefs", condition.reason.as_str()),
        ConditionKind::PrecedenceDiffers => return remark(told, PRECEDENCE, &condition.message),
        ConditionKind::AnnotationsValid => return remark(told, ANNOTATIONS, &condition.message),
    };
    let message = bounded(&condition.message);
    told.push(Told { kind, status, reason: reason.into(), message });
}

fn remark(told: &mut Vec<Told>, reason: &'static str, message: &str) {
    let Some(accepted) = told.iter_mut().find(|told| told.kind == "Accepted") else {
        let message = bounded(message);
        told.push(Told { kind: "Accepted", status: "True", reason: reason.into(), message });
        return;
    };
    if accepted.status == "True" && &*accepted.reason == "Accepted" {
        accepted.reason = reason.into();
    }
    accepted.message = match &*accepted.message {
        "" => bounded(message),
        before => bounded(&format!("{before}; {message}")),
    };
}

/// The beginning of a message that is too long.
pub(crate) fn bounded(message: &str) -> Arc<str> {
    if message.len() <= MESSAGE_BYTES {
        return message.into();
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES.saturating_sub("…".len()));
    format!("{}…", message.get(..end).unwrap_or_default()).into()
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
        }
    }

    fn stated(conditions: Vec<ObjectCondition>) -> DesiredConditions {
        DesiredConditions {
            conditions: conditions.into(),
            generation: Some(3),
            uid: Some("u".into()),
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
        let told = |at: &ProgrammedAt| {
            let desired = Desired::new(&server, &stated, Some(at));
            (desired.own.len(), desired.keep)
        };
        assert_eq!(told(&counted(programmed.clone(), 3)), (2, false));
        assert_eq!(told(&counted(programmed.clone(), 2)), (1, true));
        let other = ProgrammedAt { uid: Some("v".into()), ..counted(programmed, 3) };
        assert_eq!(told(&other), (1, true));
        let desired = Desired::new(&server, &stated, None);
        assert_eq!((desired.own.len(), desired.keep), (1, true));
    }

    fn lines(told: &[Told]) -> Vec<String> {
        let line = |t: &Told| format!("{}={} {} {}", t.kind, t.status, t.reason, t.message);
        told.iter().map(line).collect()
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
        let told = |conditions| lines(&Desired::new(&server, &stated(conditions), None).own);
        assert_eq!(
            told(vec![accepted(ACCEPTED, ""), differs("a before b")]),
            ["Accepted=True PrecedenceDiffers a before b"]
        );
        assert_eq!(
            told(vec![accepted(ACCEPTED, "one"), unreadable("two"), differs("three")]),
            ["Accepted=True AnnotationsInvalid one; two; three"]
        );
        assert_eq!(
            told(vec![accepted((false, Reason::Invalid), "one"), unreadable("two")]),
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
        let desired = Desired::new(&route, &stated(conditions), Some(&at));
        assert!(desired.own.is_empty());
        let about: Vec<_> =
            desired.parents.iter().map(|p| (p.server.clone(), lines(&p.told))).collect();
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
        let all = Desired::new(&route, &stated, Some(&at));
        assert_eq!(all.fingerprint().unsent, None);
        at.unsent.left_out.insert("old clients: a timeout: not sent".into());
        let desired = Desired::new(&route, &stated, Some(&at));
        let told: Vec<_> = desired.parents.iter().map(|parent| lines(&parent.told)).collect();
        let last = told.first().and_then(|told| told.last()).map(String::as_str);
        assert_eq!(last, Some("ProxyUnsupported=True LeftOut old clients: a timeout: not sent"));
        assert_eq!(told.get(1).map(Vec::len), Some(1), "{told:?}");
        assert!(desired.unsent().is_some_and(Told::is_warning));
        assert_ne!(desired.fingerprint().urgent, all.fingerprint().urgent, "it is told at once");
    }

    #[test]
    fn that_only_compatible_proxies_have_it_is_known() {
        let server = key(Kind::Server, "ns", "s");
        let stated = stated(vec![condition(&server, None, ConditionKind::Accepted, ACCEPTED, "")]);
        let level = |programmed| {
            Desired::new(&server, &stated, Some(&counted(programmed, 3))).fingerprint().level
        };
        let reach = Arc::new(Reach { compatible: 1, ..Reach::default() });
        let programmed = Programmed::Counted { in_force: 0, concerned: 0, refused: 0, reach };
        assert_eq!(programmed.status(), "Unknown");
        assert_eq!(level(programmed), Level::Down);
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
            Desired::new(&server, &stated, Some(&counted(programmed, 3))).fingerprint().level
        };
        assert_eq!(level(1, Reach::default()), Level::Down);
        assert_eq!(level(0, Reach { idle: 1, ..Reach::default() }), Level::Lost);
        assert_eq!(level(0, Reach { bare: 1, ..Reach::default() }), Level::Lost);
        assert_eq!(level(0, Reach::nowhere("NoTarget", "x")), Level::Lost);
        // Somebody has edited something for these.
        assert_eq!(level(0, Reach::nowhere("Conflicted", "x")), Level::Down);
        assert_eq!(level(0, Reach::nowhere("NotReferenced", "x")), Level::Down);
    }

    #[test]
    fn progress_alone_is_not_urgent() {
        let server = key(Kind::Server, "ns", "s");
        let stated = stated(vec![condition(&server, None, ConditionKind::Accepted, ACCEPTED, "")]);
        let at = |in_force| {
            let programmed = Programmed::counted(in_force, 9, 0);
            Desired::new(&server, &stated, Some(&counted(programmed, 3))).fingerprint()
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
        assert!(long.len() <= MESSAGE_BYTES && long.ends_with("ä…"), "{}", long.len());
    }
}
