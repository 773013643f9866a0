//! Servers on which nothing is granted.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::question::grant::ServerGrants;
use crate::question::route::Attached;
use policy_core::{DefaultPolicy, Route};
use policy_crds::ObjectKey;
use policy_crds::resource::Server;

impl Finder<'_> {
    /// A Server that refuses everybody, although it says nothing of the kind. A grant that came to
    /// nothing is told at the object that was to give it.
    pub(super) fn grants_nobody(&mut self, key: &ObjectKey, server: &Server) -> Option<Finding> {
        if server.access_policy != DefaultPolicy::Deny {
            return None;
        }
        let own = self.ask(&ServerGrants(key.clone()));
        let attached = self.ask(&Attached(key.clone()));
        let granted =
            |route: &Route| !route.authorizations.is_empty() || !route.withheld.is_empty();
        let some = !own.authorizations.is_empty()
            || !own.withheld.is_empty()
            || attached.routes.iter().any(|route| granted(route));
        // Routes that are all invalid are told by a remark.
        if some || (attached.bound && attached.routes.is_empty()) {
            return None;
        }
        let kind = FindingKind::GrantsNobody { stated: server.access_policy_stated };
        let message = "grants nobody: every connection and request to its port is refused until a \
                       policy grants it";
        Some(finding(key, kind, "spec.accessPolicy", message.to_owned()))
    }
}
