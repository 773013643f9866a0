//! Ports whose policies take more than half of what a message may have.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::contributions::{contributions, size};
use crate::query::effective_servers::EffectiveServersOf;
use crate::query::policy::ServerBaseOf;
use policy_crds::ObjectKey;

impl Finder<'_> {
    /// Findings about the Servers through which an object takes effect. Its author is told before the
    /// paths of others, or their own, are denied for it.
    pub(crate) fn large_ports(&mut self, key: &ObjectKey) -> Vec<Finding> {
        let effective = self.query(&EffectiveServersOf(key.clone()));
        effective.servers.iter().filter_map(|server| self.large_port(key, server)).collect()
    }

    fn large_port(&mut self, key: &ObjectKey, server: &ObjectKey) -> Option<Finding> {
        let limit = self.config.limits.update_bytes;
        let policy = self.query(&ServerBaseOf(server.clone()));
        let bytes = size(&policy);
        if bytes.saturating_mul(2) <= limit {
            return None;
        }
        let words = "more than half of what is sent to a proxy";
        let beyond =
            "Beyond that the paths of other namespaces are denied, the largest contribution first";
        // Who is in another namespace learns nothing of the Server.
        let message = if key.namespace == server.namespace {
            let largest = contributions(&policy).into_iter().next();
            let largest = largest.map(|one| format!("; at present {one}")).unwrap_or_default();
            format!(
                "the policy of {server} has some {bytes} bytes of {limit}, {words}. {beyond}{largest}"
            )
        } else {
            format!(
                "the policy of a Server that answers for it has {words} ({limit} bytes). {beyond}"
            )
        };
        Some(finding(key, FindingKind::LargePort, "spec", message))
    }
}
