//! A real sidecar between a client and an application, in this process.

use super::application::Application;
use super::policy::policy;
use policy_core::{Protocol, Revision, ServerPolicy, UndeclaredPorts};
use policy_enforce::store::{PolicyStore, StoreConfig};
use policy_enforce::telemetry::Telemetry;
use policy_proxy::sidecar::{Limits, Listener, Sidecar, SidecarConfig, Target};
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// A sidecar, and the application behind all of its ports.
pub(super) struct World {
    pub(super) application: Application,
    /// Address and policy of each port.
    pub(super) ports: Vec<(SocketAddr, ServerPolicy)>,
    _sidecar: Sidecar,
}

/// Longer than anything here may take, so that what relies on them hangs.
const NEVER: Duration = Duration::from_secs(60);

impl World {
    /// A sidecar with these bounds and a port of each kind: unknown, HTTP/1, HTTP/2.
    pub(super) fn start(limits: Limits) -> Self {
        static WATCHED: Once = Once::new();
        WATCHED.call_once(watch);
        let application = Application::start();
        let kinds = [Protocol::Detect { timeout: NEVER }, Protocol::Http1, Protocol::Http2];
        let numbers: Vec<NonZeroU16> = (1..).map_while(NonZeroU16::new).take(kinds.len()).collect();
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1)));
        let store = store.expect("a store");
        store.declare(&BTreeSet::from_iter(numbers.clone()), UndeclaredPorts::Deny);
        let mut config = SidecarConfig::new("checks/sidecar");
        config.limits = limits;
        config.timeouts.detect = NEVER;
        config.timeouts.request_head = NEVER;
        let mut policies = Vec::new();
        for (port, kind) in numbers.into_iter().zip(kinds) {
            let policy = policy(kind);
            let applied = store.apply(port, Arc::new(policy.clone()), Revision::default());
            applied.expect("the policy is applied");
            policies.push(policy);
            let target = Target::Fixed { port, upstream: application.address() };
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            config.listeners.push(Listener { address, target });
        }
        let sidecar = Sidecar::start(config, store, IdentityHandle::empty(), None);
        let sidecar = sidecar.expect("the sidecar starts");
        let ports = sidecar.addresses().iter().copied().zip(policies).collect();
        Self { application, ports, _sidecar: sidecar }
    }
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes note of panics of the sidecar's threads: its runtime keeps them from ending the process.
fn watch() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name().is_some_and(|name| name.starts_with("proxy-")) {
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
        }
        before(panic);
    }));
}

/// Messages of the sidecar's panics since the last call.
pub(super) fn panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner))
}
