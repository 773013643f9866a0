//! Helm releases of the chart, and the command that upgrades one.

use super::metadata::annotation;
use serde_json::Value;
use std::fmt;

/// A Helm release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its namespace.
    pub(crate) namespace: &'a str,
}

/// `release NAME of namespace NAMESPACE`
impl fmt::Display for Release<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "release {} of namespace {}", self.name, self.namespace)
    }
}

impl<'a> Release<'a> {
    /// Release that owns an object, according to Helm's annotations; `None` without one.
    pub(crate) fn of(object: &'a Value) -> Option<Self> {
        let name = annotation(object, "meta.helm.sh/release-name")?;
        Some(Self { name, namespace: annotation(object, "meta.helm.sh/release-namespace")? })
    }

    /// The command that upgrades it and changes no value, in a checkout.
    pub(crate) fn upgrade(&self) -> String {
        let Self { name, namespace } = self;
        format!(
            "helm upgrade {name} charts/portcullis --namespace {namespace} --reset-then-reuse-values"
        )
    }
}
