//! The conditions of an object.

use policy_core::HostPattern;
use policy_crds::ObjectKey;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Conditions of every object that has any, by object.
pub type ConditionTable = BTreeMap<ObjectKey, Arc<[ObjectCondition]>>;

/// One condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCondition {
    /// The object it is about.
    pub object: ObjectKey,
    /// The parent or target that it is about; absent: the object as a whole.
    pub parent: Option<ObjectKey>,
    /// The section of the parent, where the reference names one.
    pub section: Option<Arc<str>>,
    /// The port of the parent, where the reference names one.
    pub port: Option<u16>,
    /// Type of the condition.
    pub kind: ConditionKind,
    /// Status of the condition: true for `True`, false for `False`.
    pub status: bool,
    /// Reason, for programs.
    pub reason: Reason,
    /// Message, for people.
    pub message: Arc<str>,
    /// The hostnames of a route that are attached, in the condition that accepts it on a Server of its
    /// namespace.
    pub hostnames: Vec<AttachedHostname>,
}

/// A hostname with which a route is attached to a Server of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttachedHostname {
    /// The hostname.
    pub host: HostPattern,
    /// The time of the latest claim of another namespace that it is behind, in seconds since the epoch.
    pub after: Option<i64>,
}

/// The type of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionKind {
    /// The object takes effect.
    Accepted,
    /// Some rules of a route are denied; stated only where others of it take effect (Gateway API).
    PartiallyInvalid,
    /// Everything it refers to can be used.
    ResolvedRefs,
    /// It takes effect, but Linkerd's proxies would pick another rule for some requests.
    PrecedenceDiffers,
    /// It takes effect, and its order among others of its kind matters.
    Overlaps,
    /// Its annotations can be read; stated only where one cannot.
    AnnotationsValid,
}

/// The `type` of the condition about parts of an object that are not sent to current clients,
/// because these could not enforce them; present only if there are some.
pub const PROXY_UNSUPPORTED: &str = "ProxyUnsupported";

impl ConditionKind {
    /// The `type` of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::PartiallyInvalid => "PartiallyInvalid",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::PrecedenceDiffers => "PrecedenceDiffers",
            Self::Overlaps => "Overlaps",
            Self::AnnotationsValid => "AnnotationsValid",
        }
    }
}

/// Reasons, in the spelling of Linkerd and Gateway API where they have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It takes effect.
    Accepted,
    /// Everything it refers to can be used.
    ResolvedRefs,
    /// Gateway API's order of rules and Linkerd's disagree.
    PrecedenceDiffers,
    /// It changes headers of some requests that another policy changes before.
    Overlaps,
    /// It breaks a rule of its kind.
    Invalid,
    /// The parent does not exist or is invalid.
    NoMatchingParent,
    /// The target does not exist.
    NoMatchingTarget,
    /// The parent's protocol does not carry such routes.
    NotAllowedByListeners,
    /// A field has a value that has no meaning here.
    UnsupportedValue,
    /// Other Servers own the port of every workload that it selects.
    Conflicted,
    /// Another rate limit of the same target is older.
    RateLimitAlreadyExists,
    /// An object of another namespace cannot be used.
    RefNotPermitted,
    /// An object of another namespace is used although no ReferenceGrant permits it; the same
    /// reason for programs.
    RefWarned,
    /// An object it refers to does not exist.
    RefNotFound,
    /// An object it refers to is invalid.
    RefInvalid,
    /// The reference cannot name such a kind.
    InvalidKind,
    /// Another root claimed its hosts earlier.
    HostAlreadyClaimed,
    /// Roots are not allowed in its namespace.
    RootNotAllowedInNamespace,
    /// Hosts that are wildcards are not allowed.
    WildcardNotAllowed,
    /// The object that it delegates to does not consent.
    NotPermitted,
    /// The object that it delegates to is a root itself.
    RootIncludesRoot,
    /// One of the objects that it selects is a root.
    SelectorMatchesRoot,
    /// The object that it delegates to leads back to it.
    Cycle,
    /// The object that it delegates to has a match outside of the path.
    PrefixNotContained,
    /// The chain of delegations is too long.
    TooDeep,
    /// The tree has too many objects or paths.
    TooLarge,
    /// The claims of other namespaces on the host are not known.
    HostNotAssumed,
    /// Services of another namespace are called by the host.
    ServiceOfAnotherNamespace,
    /// The object that it delegates to has a filter that the delegation does not allow.
    FilterNotAllowed,
    /// A root in another namespace holds a path above or below.
    SubpathClaimedByOther,
    /// A route of another namespace was attached with the host before a root claimed it.
    HostnameAttachedEarlier,
    /// The Server's protocol carries no requests.
    ProtocolMismatch,
    /// The Server's protocol has no such paths.
    NotProgrammable,
    /// The class selects no route that is bound to a Server.
    NoRoutesSelected,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 34] = [
        Self::Accepted,
        Self::ResolvedRefs,
        Self::PrecedenceDiffers,
        Self::Overlaps,
        Self::Invalid,
        Self::NoMatchingParent,
        Self::NoMatchingTarget,
        Self::NotAllowedByListeners,
        Self::UnsupportedValue,
        Self::Conflicted,
        Self::RateLimitAlreadyExists,
        Self::RefNotPermitted,
        Self::RefWarned,
        Self::RefNotFound,
        Self::RefInvalid,
        Self::InvalidKind,
        Self::HostAlreadyClaimed,
        Self::RootNotAllowedInNamespace,
        Self::WildcardNotAllowed,
        Self::NotPermitted,
        Self::RootIncludesRoot,
        Self::SelectorMatchesRoot,
        Self::Cycle,
        Self::PrefixNotContained,
        Self::TooDeep,
        Self::TooLarge,
        Self::HostNotAssumed,
        Self::ServiceOfAnotherNamespace,
        Self::FilterNotAllowed,
        Self::SubpathClaimedByOther,
        Self::HostnameAttachedEarlier,
        Self::ProtocolMismatch,
        Self::NotProgrammable,
        Self::NoRoutesSelected,
    ];

    /// The `reason` of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::PrecedenceDiffers => "PrecedenceDiffers",
            Self::Overlaps => "Overlaps",
            Self::Invalid => "Invalid",
            Self::NoMatchingParent => "NoMatchingParent",
            Self::NoMatchingTarget => "NoMatchingTarget",
            Self::NotAllowedByListeners => "NotAllowedByListeners",
            Self::UnsupportedValue => "UnsupportedValue",
            Self::Conflicted => "Conflicted",
            Self::RateLimitAlreadyExists => "RateLimitReasonAlreadyExists",
            Self::RefNotPermitted | Self::RefWarned => "RefNotPermitted",
            Self::RefNotFound => "RefNotFound",
            Self::RefInvalid => "RefInvalid",
            Self::InvalidKind => "InvalidKind",
            Self::HostAlreadyClaimed => "HostAlreadyClaimed",
            Self::RootNotAllowedInNamespace => "RootNotAllowedInNamespace",
            Self::WildcardNotAllowed => "WildcardNotAllowed",
            Self::NotPermitted => "NotPermitted",
            Self::RootIncludesRoot => "RootIncludesRoot",
            Self::SelectorMatchesRoot => "SelectorMatchesRoot",
            Self::Cycle => "Cycle",
            Self::PrefixNotContained => "PrefixNotContained",
            Self::TooDeep => "TooDeep",
            Self::TooLarge => "TooLarge",
            Self::HostNotAssumed => "HostNotAssumed",
            Self::ServiceOfAnotherNamespace => "ServiceOfAnotherNamespace",
            Self::FilterNotAllowed => "FilterNotAllowed",
            Self::SubpathClaimedByOther => "SubpathClaimedByOther",
            Self::HostnameAttachedEarlier => "HostnameAttachedEarlier",
            Self::ProtocolMismatch => "ProtocolMismatch",
            Self::NotProgrammable => "NotProgrammable",
            Self::NoRoutesSelected => "NoRoutesSelected",
        }
    }
}

/// `Accepted=False (NoMatchingTarget): …`
impl fmt::Display for ObjectCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = if self.status { "True" } else { "False" };
        write!(f, "{}={status} ({})", self.kind.as_str(), self.reason.as_str())?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

/// The conditions of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Conditions(pub(crate) ObjectKey);
