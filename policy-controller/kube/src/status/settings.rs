//! Settings of the status writer.

use policy_crds::Kind;
use policy_crds::spec::{Conditions, StatusStyle};
use std::sync::Arc;
use std::time::Duration;

/// The default controller name in the status of routes.
pub const CONTROLLER_NAME: &str = policy_engine::CONTROLLER_NAME;

/// The way in which the status of a kind is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportChannel {
    /// By the status subresource, in this version.
    Status(&'static str),
    /// By Events, which name this version.
    Events(&'static str),
    /// Not at all, because the kind is not served.
    Nothing,
}

/// Settings of the status writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSettings {
    /// Name of this controller.
    pub controller_name: Arc<str>,
    /// If true, only our own entries on routes are written; everything else is reported by Events.
    pub beside_linkerd: bool,
    /// The namespaces whose objects are written; `None`: all.
    pub namespaces: Option<Vec<Arc<str>>>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Maximum number of objects that are written per second.
    pub writes_per_second: u32,
    /// Maximum number of concurrent writes.
    pub parallelism: usize,
    /// Interval at which every status is compared with the API server's, for each
    /// [`OBJECTS_PER_RESYNC`] objects or part of them.
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
            resync: Duration::from_secs(30),
        }
    }
}

/// Objects for which the interval of a resync is enough: more take their multiple, so that its load on
/// API server and leader has a bound.
const OBJECTS_PER_RESYNC: usize = 5_000;

impl StatusSettings {
    /// The time until the next resync of this many objects.
    pub(crate) fn resync_interval(&self, objects: usize) -> Duration {
        let parts = u32::try_from(objects.div_ceil(OBJECTS_PER_RESYNC).max(1)).unwrap_or(u32::MAX);
        self.resync.saturating_mul(parts)
    }

    /// True if objects of a kind are reported by their status, where they have one.
    pub(crate) fn is_written(&self, kind: Kind) -> bool {
        match kind.spec().status {
            Some(StatusStyle::Parents) => true,
            Some(StatusStyle::Apply | StatusStyle::ApplyWithTarget | StatusStyle::Replace) => {
                !self.beside_linkerd
            }
            None => false,
        }
    }

    /// The kinds whose objects have conditions.
    pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| kind.spec().conditions != Conditions::None)
    }

    /// The namespaces to list for a kind, or `None` for all. No request goes anywhere else: objects of
    /// the cluster are not listed where only some namespaces are watched.
    pub(crate) fn list_scopes(&self, kind: Kind) -> Vec<Option<&str>> {
        match &self.namespaces {
            Some(_) if !kind.is_namespaced() => Vec::new(),
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

    #[test]
    fn objects_of_the_cluster_are_listed_by_those_who_may_list_everything() {
        let all = StatusSettings::default();
        assert_eq!(all.list_scopes(Kind::RouteAdmissionPolicy), [None]);
        let some = StatusSettings { namespaces: Some(vec!["ns".into()]), ..all };
        assert_eq!(some.list_scopes(Kind::InboundRoute), [Some("ns")]);
        assert!(some.list_scopes(Kind::RouteAdmissionPolicy).is_empty());
    }
}
