//! The settings of the stream from the controller.

use super::parse;
use super::reader::Reader;
use crate::args::RunArgs;
use crate::discover::DiscoverConfig;
use policy_core::Facts;
use policy_tls::control::ControllerAddress;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) fn discover(
    args: &RunArgs,
    reader: &mut Reader<'_>,
    facts: &Facts,
) -> Option<DiscoverConfig> {
    let given =
        reader.lookup("policy-addr", args.discover.policy_addr.as_ref(), &["POLICY_SVC_ADDR"]);
    let address = reader.required(given, "policy-addr", "POLICY_SVC_ADDR");
    let name =
        reader.lookup("policy-name", args.discover.policy_name.as_ref(), &["POLICY_SVC_NAME"]);
    let name = name.map(|given| given.value);
    let given = reader.lookup("workload", args.discover.workload.as_ref(), &["POLICY_WORKLOAD"]);
    let workload = reader.required(given, "workload", "POLICY_WORKLOAD");
    let given = reader.lookup("ports", args.discover.ports.as_ref(), &["INBOUND_PORTS"]);
    let declared = reader.read(given, BTreeSet::new(), parse::ports);
    let mut bound = |flag, typed, linkerd| {
        let given = reader.lookup(flag, typed, &[linkerd]);
        let given = given.filter(|given| !given.value.is_empty());
        reader.read(given, None, |text| parse::duration(text).map(Some))
    };
    let initial = bound(
        "stream-initial-timeout",
        args.discover.stream_initial_timeout.as_ref(),
        "CONTROL_STREAM_INITIAL_TIMEOUT",
    );
    let idle = bound(
        "stream-idle-timeout",
        args.discover.stream_idle_timeout.as_ref(),
        "CONTROL_STREAM_IDLE_TIMEOUT",
    );
    let lifetime =
        bound("stream-lifetime", args.discover.stream_lifetime.as_ref(), "CONTROL_STREAM_LIFETIME");
    if address.is_empty() {
        return None;
    }
    let controller = match ControllerAddress::parse(&address, name.as_deref()) {
        Ok(controller) => controller,
        Err(error) => {
            reader.fail(format!("--policy-addr: {error}"));
            return None;
        }
    };
    let remote = !controller.is_loopback();
    let mut config = DiscoverConfig::new(controller, &workload);
    config.declared = declared;
    config.facts = Arc::new(facts.clone());
    // Linkerd sets no bounds on streams over loopback (docs/spec/proxy.md 2.1).
    config.initial_timeout = initial.filter(|_| remote);
    config.idle_timeout = idle.filter(|_| remote);
    config.lifetime = lifetime.filter(|_| remote);
    Some(config)
}
