//! What a Namespace says about ports that no Server owns.

use policy_core::{DefaultPolicy, UndeclaredPorts};
use std::sync::Arc;

/// The settings of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NamespaceDefaults(pub(crate) Arc<str>);

/// See [`NamespaceDefaults`]; absent where the namespace says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceSettings {
    /// Default policy.
    pub(crate) default_policy: Option<DefaultPolicy>,
    /// Undeclared ports.
    pub(crate) undeclared: Option<UndeclaredPorts>,
    /// Opaque ports, as annotated: names mean ports of each workload.
    pub(crate) opaque: Option<Arc<str>>,
    /// Ports whose clients must have an identity, as annotated.
    pub(crate) require_identity: Option<Arc<str>>,
}
