//! Configuration of the policy stream.

use crate::live_logs::LiveLogs;
use crate::outbound::table::Demand;
use policy_core::Facts;
use policy_enforce::record::Decisions;
use policy_proto::workload::parse_workload;
use policy_server::DefaultGateways;
use policy_tls::control::{Backoff, ControllerAddress};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// Returns the workload's name for logs from its token: `namespace/name`, or the token itself if it
/// cannot be parsed.
pub fn workload_name(token: &str) -> String {
    let read = parse_workload(token);
    read.map_or_else(|_| token.to_owned(), |key| format!("{}/{}", key.namespace, key.name))
}

/// Configuration of the policy stream.
#[derive(Clone, Debug)]
pub struct DiscoverConfig {
    /// Address and identity of the controller.
    pub controller: ControllerAddress,
    /// The workload's token, as the injector wrote it; opaque here.
    pub workload: Arc<str>,
    /// The ports that the workload declares; used with servers that do not state them (Linkerd's).
    pub declared: BTreeSet<NonZeroU16>,
    /// Facts for servers that do not state them (Linkerd's).
    pub facts: Arc<Facts>,
    /// Source of the workload's default gateways.
    pub gateways: DefaultGateways,
    /// Applies the log settings that the controller sends; absent: they are ignored.
    pub logs: Option<Arc<LiveLogs>>,
    /// Asks what connections lead to, and takes the answers; absent: nothing is asked.
    pub destinations: Option<Arc<dyn Demand>>,
    /// The record whose most frequent refusals are sent to the controller; absent: none.
    pub decisions: Option<Arc<Decisions>>,
    /// Timeout of a connect.
    pub connect_timeout: Duration,
    /// Timeout of the first message of a stream; absent: none.
    pub initial_timeout: Option<Duration>,
    /// Idle timeout after which a stream is renewed; absent: never.
    pub idle_timeout: Option<Duration>,
    /// Lifetime after which a stream is renewed; absent: never.
    pub lifetime: Option<Duration>,
    /// Interval and timeout of HTTP/2 PINGs.
    pub keep_alive: Duration,
    /// The first and the longest delay between attempts.
    pub backoff: (Duration, Duration),
    /// The largest message accepted, in bytes.
    pub max_message: usize,
    /// Time after which the native service is retried while Linkerd's is used.
    pub native_retry: Duration,
}

impl DiscoverConfig {
    /// The defaults for a workload (docs/spec/proxy.md 2.1, 2.3).
    pub fn new(controller: ControllerAddress, workload: &str) -> Self {
        let most = if controller.is_loopback() { 10 } else { 60 };
        Self {
            controller,
            workload: workload.into(),
            declared: BTreeSet::new(),
            facts: Arc::new(Facts::default()),
            gateways: DefaultGateways::of_process(),
            logs: None,
            destinations: None,
            decisions: None,
            connect_timeout: Duration::from_secs(5),
            initial_timeout: None,
            idle_timeout: None,
            lifetime: None,
            keep_alive: Duration::from_secs(10),
            backoff: (Duration::from_millis(100), Duration::from_secs(most)),
            max_message: 32 << 20,
            native_retry: Duration::from_secs(600),
        }
    }

    /// Returns the delays between attempts, from the first on.
    pub(super) fn new_backoff(&self) -> Backoff {
        Backoff::new(self.backoff.0, self.backoff.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_named_as_people_do() {
        for token in ["{\"ns\":\"shop\", \"pod\":\"web-0\"}\n", "shop:web-0"] {
            assert_eq!(workload_name(token), "shop/web-0");
        }
        assert_eq!(workload_name("web-0"), "web-0");
    }
}
