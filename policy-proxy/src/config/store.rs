//! The settings of the store: decisions while policy is missing or stale.

use super::parse;
use super::reader::Reader;
use crate::args::RunArgs;
use policy_core::{DefaultPolicy, Facts, Owner, Protocol, ServerPolicy};
use policy_enforce::store::StoreConfig;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn store(
    args: &RunArgs,
    reader: &mut Reader<'_>,
    facts: Facts,
    detect: Duration,
) -> StoreConfig {
    let mut config = StoreConfig { facts: Arc::new(facts), ..StoreConfig::default() };
    let given = reader.lookup(
        "default-policy",
        args.store.default_policy.as_ref(),
        &["INBOUND_DEFAULT_POLICY"],
    );
    let known = DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    let default = reader.read(given, None, |name| {
        DefaultPolicy::parse(name).map(Some).ok_or_else(|| format!("expected one of {known}"))
    });
    let given = reader.lookup("pending-policy", args.store.pending_policy.as_ref(), &[]);
    let pending = reader.read(given, false, |text| match text {
        "wait" => Ok(false),
        "default" => Ok(true),
        _ => Err("expected wait or default"),
    });
    if pending && default.is_none() {
        // Linkerd's would permit everything.
        let text = format!(
            "--default-policy: must be given with --pending-policy=default, as one of {known}"
        );
        reader.fail(text);
    }
    let decides = default.filter(|_| pending);
    config.pending = decides.map(|default| Arc::new(pending_policy(default, detect)));
    let linkerd = ["INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION"];
    let given = reader.lookup("opaque-ports", args.store.opaque_ports.as_ref(), &linkerd);
    config.pending_opaque = reader.read(given, BTreeSet::new(), parse::ports);
    let given = reader.lookup("maximum-policy-age", args.store.maximum_policy_age.as_ref(), &[]);
    config.maximum_age = reader.read(given, None, |text| parse::duration(text).map(Some));
    let given = reader.lookup(
        "discovery-idle-timeout",
        args.store.discovery_idle_timeout.as_ref(),
        &["INBOUND_DISCOVERY_IDLE_TIMEOUT"],
    );
    config.on_demand_idle = reader.read(given, config.on_demand_idle, parse::duration);
    config
}

/// The policy of `--pending-policy=default` (docs/spec/proxy.md 2.4).
fn pending_policy(default: DefaultPolicy, timeout: Duration) -> ServerPolicy {
    let protocol = Protocol::Detect { timeout };
    let mut policy = ServerPolicy::without_grants(Owner::Default(default), protocol);
    policy.authorizations = default.authorizations();
    policy
}
