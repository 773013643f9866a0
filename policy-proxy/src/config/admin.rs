//! The settings of the admin port.

use super::parse;
use super::reader::Reader;
use crate::admin::{AdminConfig, MetricsAccess};
use crate::args::RunArgs;
use policy_core::Facts;
use policy_enforce::telemetry::RETAIN_IDLE;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(super) fn admin(args: &RunArgs, reader: &mut Reader<'_>, facts: &Facts) -> AdminConfig {
    let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4191);
    let given = reader.lookup("admin", args.admin.admin.as_ref(), &["ADMIN_LISTEN_ADDR"]);
    let listen = reader.read(given, default, parse::socket);
    let given = reader.lookup("admin-metrics", args.admin.admin_metrics.as_ref(), &[]);
    let metrics = reader.read(given, MetricsAccess::Policy, |text| match text {
        "policy" => Ok(MetricsAccess::Policy),
        "local" => Ok(MetricsAccess::Local),
        "all" => Ok(MetricsAccess::All),
        _ => Err("expected policy, local or all"),
    });
    let given = reader.lookup(
        "admin-shutdown",
        args.admin.admin_shutdown.as_ref(),
        &["SHUTDOWN_ENDPOINT_ENABLED"],
    );
    let shutdown = reader.read(given, false, parse::boolean);
    let given = reader.lookup("admin-log-level", args.admin.admin_log_level.as_ref(), &[]);
    let log_level = reader.read(given, false, parse::boolean);
    let given = reader.lookup("tcp-probe-ports", args.admin.tcp_probe_ports.as_ref(), &[]);
    let tcp_probe_ports = reader.read(given, BTreeSet::new(), parse::ports);
    let mut config = AdminConfig::new(listen);
    let given = reader.lookup("tcp-probe-timeout", args.admin.tcp_probe_timeout.as_ref(), &[]);
    config.tcp_probe_timeout = reader.read(given, config.tcp_probe_timeout, parse::duration);
    let pod_addresses = facts.pod_addresses.clone();
    AdminConfig { metrics, shutdown, log_level, tcp_probe_ports, pod_addresses, ..config }
}

/// Time that a metric is exported after it last changed.
pub(super) fn retain_idle(args: &RunArgs, reader: &mut Reader<'_>) -> Duration {
    let typed = args.admin.metrics_retain_idle.as_ref();
    let given = reader.lookup("metrics-retain-idle", typed, &["METRICS_RETAIN_IDLE"]);
    reader.read(given, RETAIN_IDLE, parse::duration)
}
