//! The ways in which annotations are read: ours, or in part Linkerd's.

/// A way of reading annotations; by default ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnotationReading {
    /// The annotations that set the default policy.
    pub default_policy: DefaultPolicyNames,
    /// True if a default policy that cannot be read is as if it were not there. Else it denies.
    pub ignores_unknown: bool,
    /// True if an item that is neither a number nor a range voids its whole list of ports.
    pub voids_lists: bool,
}

/// The annotations that set the default policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultPolicyNames {
    /// All.
    #[default]
    All,
    /// Those without the names of Linkerd's first versions, which its controller no longer reads.
    Current,
    /// Ours alone.
    Own,
}
