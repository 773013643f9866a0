//! The state of an InboundRoute, beyond its conditions, as its status and commands show it.

use super::condition::Reason;
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use policy_crds::resource::PathPrefix;
use std::sync::Arc;

/// The state of an InboundRoute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DelegationStateOf(pub(crate) ObjectKey);

/// See [`DelegationStateOf`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DelegationState {
    /// The claims of a root, by host in the order of the object, and by path.
    pub claims: ClaimEntries,
    /// The places at which trees reach a vertex, or do not.
    pub delegations: Vec<DelegationEntry>,
    /// The rules of the object.
    pub routes: Vec<RouteEntry>,
    /// The objects that its rules name and that cannot be used, or not for all of a rule.
    pub faults: Vec<RuleFault>,
}

/// An object that a rule names and that cannot be used, or not for all of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleFault {
    /// For programs.
    pub reason: Reason,
    /// For people, with the path of the rule.
    pub message: Arc<str>,
}

/// A claim of a root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimEntry {
    /// The host.
    pub host: HostPattern,
    /// The path.
    pub path: PathPrefix,
    /// True if the root holds the path of the host.
    pub active: bool,
    /// True if the rules in effect admit it. One that they do not has no time, in the status either.
    pub admitted: bool,
    /// The time of the claim, in seconds since the epoch; `None`: it has none until its status
    /// records one.
    pub claimed_at: Option<i64>,
    /// Of a claim without a time: the latest time of claims of other roots that are in force on the host
    /// or on one that overlaps with it. The claim is later than these, whatever the clock says.
    pub after: Option<i64>,
    /// The reason of an inactive claim, and a remark on an active one.
    pub reason: Option<Reason>,
    /// The same for people. Of another namespace no object is named.
    pub message: Arc<str>,
}

/// The claims of a root. A root of a few lines has a thousand, so hosts of which all is the same share a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimEntries(Vec<(HostPattern, Arc<[PathEntry]>)>);

/// A claim without its host. See [`ClaimEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PathEntry {
    path: PathPrefix,
    active: bool,
    admitted: bool,
    claimed_at: Option<i64>,
    after: Option<i64>,
    reason: Option<Reason>,
    /// The message with [`HOST`] and [`PATH`] in place of both, so that many claims have one.
    message: Arc<str>,
}

/// The place of the host in a message.
const HOST: &str = "\u{1}";
/// The place of the path in a message.
const PATH: &str = "\u{2}";

/// The text of a message without host and path.
fn outlined(message: &str, host: &HostPattern, path: &PathPrefix) -> String {
    message.replace(&host.to_string(), HOST).replace(path.as_str(), PATH)
}

/// The message of which this is the text without host and path.
fn filled(outline: &str, host: &HostPattern, path: &PathPrefix) -> Arc<str> {
    outline.replace(PATH, path.as_str()).replace(HOST, &host.to_string()).into()
}

impl ClaimEntries {
    /// The claims.
    pub fn iter(&self) -> impl Iterator<Item = ClaimEntry> {
        let entry = |host: &HostPattern, own: &PathEntry| {
            let PathEntry { path, active, admitted, claimed_at, after, reason, message } =
                own.clone();
            let message = match message.is_empty() {
                true => message,
                false => filled(&message, host, &path),
            };
            let host = host.clone();
            ClaimEntry { host, path, active, admitted, claimed_at, after, reason, message }
        };
        let all = self.0.iter();
        all.flat_map(move |(host, list)| list.iter().map(move |own| entry(host, own)))
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(_, list)| list.len()).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, list)| list.is_empty())
    }

    /// The number of those that are active.
    pub(crate) fn active(&self) -> usize {
        let active = |list: &[PathEntry]| list.iter().filter(|entry| entry.active).count();
        self.0.iter().map(|(_, list)| active(list)).sum()
    }

    fn add(&mut self, host: HostPattern, list: &mut Vec<PathEntry>) {
        let list = std::mem::take(list);
        let equal = self.0.iter().find(|(_, other)| **other == *list);
        let list = equal.map_or_else(|| list.into(), |(_, other)| other.clone());
        self.0.push((host, list));
    }
}

impl FromIterator<ClaimEntry> for ClaimEntries {
    fn from_iter<I: IntoIterator<Item = ClaimEntry>>(entries: I) -> Self {
        let mut all = Self::default();
        let mut list: Vec<PathEntry> = Vec::new();
        let mut of: Option<HostPattern> = None;
        for entry in entries {
            let ClaimEntry { host, path, active, admitted, claimed_at, after, reason, message } =
                entry;
            if let Some(of) = of.take_if(|of| *of != host) {
                all.add(of, &mut list);
            }
            let message = match message.is_empty() {
                true => message,
                false => {
                    // Mostly all claims on a host have one.
                    let outline = outlined(&message, &host, &path);
                    let last = list.last().map(|last| &last.message);
                    let same = last.filter(|last| ***last == *outline).cloned();
                    same.unwrap_or_else(|| outline.into())
                }
            };
            of = Some(host);
            list.push(PathEntry { path, active, admitted, claimed_at, after, reason, message });
        }
        if let Some(of) = of {
            all.add(of, &mut list);
        }
        all
    }
}

/// A place of a vertex in a tree, or one that it had.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DelegationEntry {
    /// A tree reaches it.
    Connected {
        /// The object that delegates to it.
        parent: ObjectKey,
        /// The path that is delegated.
        prefix: PathPrefix,
        /// The fqdn of the root.
        fqdn: HostPattern,
        /// The hosts that reach it.
        hosts: Vec<HostPattern>,
        /// The time since which its status says so.
        connected_at: Option<i64>,
    },
    /// No tree reaches it.
    Orphaned {
        /// The object that delegated to it last.
        last_parent: Option<ObjectKey>,
        /// The reason.
        reason: OrphanReason,
        /// The time since which its status says so.
        since: Option<i64>,
    },
    /// An object delegates to it, and the delegation is refused.
    Rejected {
        /// The object that delegates to it.
        parent: ObjectKey,
        /// The path that would be delegated.
        prefix: PathPrefix,
        /// The reason.
        reason: Reason,
        /// The same for people.
        message: Arc<str>,
    },
}

impl DelegationEntry {
    /// The refusal of a delegation in words; `None` for another state.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Rejected { parent, prefix, reason: _, message } => {
                Some(format!("{parent} delegates `{prefix}` to it, which is refused: {message}"))
            }
            Self::Connected { .. } | Self::Orphaned { .. } => None,
        }
    }
}

/// The reason why no tree reaches a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrphanReason {
    /// Nothing has delegated to it yet.
    NeverDelegated,
    /// The object that delegated to it does not exist any more.
    ParentRemoved,
    /// The object that delegated to it is invalid.
    ParentInvalid,
    /// The object that delegated to it is reached by no tree.
    ParentOrphaned,
    /// The root that delegated to it lost its claims.
    RootInactive,
    /// The object that delegated to it does so no more.
    DelegationRemoved,
    /// It does not consent any more.
    NotPermitted,
    /// No ReferenceGrant permits the delegation any more.
    GrantRevoked,
    /// The delegation breaks another rule.
    DelegationRefused,
}

impl OrphanReason {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::NeverDelegated,
        Self::ParentRemoved,
        Self::ParentInvalid,
        Self::ParentOrphaned,
        Self::RootInactive,
        Self::DelegationRemoved,
        Self::NotPermitted,
        Self::GrantRevoked,
        Self::DelegationRefused,
    ];

    /// The `reason` in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverDelegated => "NeverDelegated",
            Self::ParentRemoved => "ParentRemoved",
            Self::ParentInvalid => "ParentInvalid",
            Self::ParentOrphaned => "ParentOrphaned",
            Self::RootInactive => "RootInactive",
            Self::DelegationRemoved => "DelegationRemoved",
            Self::NotPermitted => "NotPermitted",
            Self::GrantRevoked => "GrantRevoked",
            Self::DelegationRefused => "DelegationRefused",
        }
    }
}

/// A rule of an InboundRoute, over all trees that have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteEntry {
    /// Its match.
    pub path: PathPrefix,
    /// Its state.
    pub state: RouteState,
    /// The reason why its path is denied, on all of its hosts or on some.
    pub reason: Option<Reason>,
}

impl RouteEntry {
    /// True if some tree has the rule.
    pub(crate) fn is_reached(&self) -> bool {
        match self.state {
            RouteState::Blackholed | RouteState::Delegated | RouteState::Programmed => true,
            RouteState::Inactive | RouteState::Shadowed => false,
        }
    }
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteState {
    /// No tree has it, or another root holds its path.
    Inactive,
    /// An ancestor or an older object has its path.
    Shadowed,
    /// Its path is denied, because the delegation is refused or no Server can answer it.
    Blackholed,
    /// Others answer.
    Delegated,
    /// A Server answers.
    Programmed,
}

impl RouteState {
    /// The `state` in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "Inactive",
            Self::Shadowed => "Shadowed",
            Self::Blackholed => "Blackholed",
            Self::Delegated => "Delegated",
            Self::Programmed => "Programmed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, path: &str, message: &str) -> ClaimEntry {
        ClaimEntry {
            host: HostPattern::parse(host),
            path: PathPrefix::parse(path).unwrap(),
            active: message.is_empty(),
            admitted: true,
            claimed_at: Some(1),
            after: None,
            reason: None,
            message: message.into(),
        }
    }

    #[test]
    fn entries_are_what_they_were_made_of_and_hosts_with_the_same_claims_share_a_list() {
        let held = |host: &str, path: &str| {
            entry(
                host,
                path,
                &format!("InboundRoute a/b holds {host} {path} and claimed it earlier"),
            )
        };
        let all = vec![
            held("a.io", "/"),
            held("a.io", "/a.io"),
            held("b.io", "/"),
            held("b.io", "/b.io"),
            held("*.c.io", "/"),
            entry("d.io", "/", ""),
            entry("d.io", "/x", "elsewhere"),
        ];
        let entries: ClaimEntries = all.iter().cloned().collect();
        assert_eq!(entries.iter().collect::<Vec<_>>(), all);
        assert_eq!((entries.len(), entries.active(), entries.is_empty()), (7, 1, false));
        let same: ClaimEntries = ["a.io", "b.io"]
            .into_iter()
            .flat_map(|host| ["/", "/x"].map(|path| held(host, path)))
            .collect();
        assert!(Arc::ptr_eq(&same.0[0].1, &same.0[1].1));
        assert_eq!(ClaimEntries::default().iter().count(), 0);
    }
}
