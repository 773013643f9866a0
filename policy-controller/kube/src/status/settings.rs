//! How status is written.

use policy_crds::Kind;
use policy_crds::spec::{Conditions, StatusStyle};
use std::sync::Arc;
use std::time::Duration;

/// How the controller is named in the status of routes, unless another name is stated.
pub const CONTROLLER_NAME: &str = "portcullis.dev/policy-controller";

/// How status is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSettings {
    /// Name of this controller.
    pub controller_name: Arc<str>,
    /// Only entries of our own are written; everything else is told by Events.
    pub beside_linkerd: bool,
    /// The namespaces whose objects are written; absent: all.
    pub namespaces: Option<Vec<Arc<str>>>,
    /// How long one request may take.
    pub timeout: Duration,
    /// Objects per second.
    pub writes_per_second: u32,
    /// Objects at the same time.
    pub parallelism: usize,
    /// How often everything is compared with what the API server has.
    pub resync: Duration,
}

impl Default for StatusSettings {
    fn default() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.into(),
            beside_linkerd: false,
            namespaces: None,
            timeout: Duration::from_secs(5),
            writes_per_second: 50,
            parallelism: 8,
            resync: Duration::from_secs(600),
        }
    }
}

impl StatusSettings {
    /// Whether objects of a kind are told by their status, where they have one.
    pub(crate) fn is_written(&self, kind: Kind) -> bool {
        match kind.spec().status {
            Some(StatusStyle::Parents) => true,
            Some(StatusStyle::Apply | StatusStyle::ApplyWithTarget | StatusStyle::Replace) => {
                !self.beside_linkerd
            }
            None => false,
        }
    }

    /// The kinds whose objects are told anything.
    pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| kind.spec().conditions != Conditions::None)
    }

    /// Where objects are listed: nowhere else is anything asked.
    pub(crate) fn places(&self) -> Vec<Option<&str>> {
        match &self.namespaces {
            None => vec![None],
            Some(namespaces) => namespaces.iter().map(|name| Some(&**name)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_linkerd_routes_alone_are_written() {
        let settings = StatusSettings { beside_linkerd: true, ..StatusSettings::default() };
        assert!(settings.is_written(Kind::GrpcRoute));
        assert!(!settings.is_written(Kind::HttpLocalRateLimitPolicy));
    }
}
