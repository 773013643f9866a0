//! The settings of the admin port.

use super::parse;
use super::reader::Reader;
use crate::admin::{AdminConfig, MetricsAccess};
use crate::args::RunArgs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub(super) fn admin(args: &RunArgs, reader: &mut Reader<'_>) -> AdminConfig {
    let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4191);
    let given = reader.given("admin", args.admin.admin.as_ref(), &["ADMIN_LISTEN_ADDR"]);
    let listen = reader.read(given, default, parse::socket);
    let given = reader.given("admin-metrics", args.admin.admin_metrics.as_ref(), &[]);
    let metrics = reader.read(given, MetricsAccess::Policy, |text| match text {
        "policy" => Ok(MetricsAccess::Policy),
        "local" => Ok(MetricsAccess::Local),
        "all" => Ok(MetricsAccess::All),
        _ => Err("expected policy, local or all"),
    });
    let given = reader.given(
        "admin-shutdown",
        args.admin.admin_shutdown.as_ref(),
        &["SHUTDOWN_ENDPOINT_ENABLED"],
    );
    let shutdown = reader.read(given, false, parse::boolean);
    AdminConfig { listen, metrics, shutdown }
}
