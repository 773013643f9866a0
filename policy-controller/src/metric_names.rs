//! Every metric of the controller: its name and what it says, in one place. Names that Linkerd's
//! policy controller has too are spelled as there (controller-semantics 6.4).

/// A metric's name without what its type adds (`_total`), and its help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Name.
    pub(crate) name: &'static str,
    /// What it says.
    pub(crate) help: &'static str,
}

// Watches (source/kubernetes).

// Admission.

// Status, lease, events.

// What is in force, replicas.

// Who may watch.

// The index and the process.
