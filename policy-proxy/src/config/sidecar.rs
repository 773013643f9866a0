//! The settings of the data path.

use super::parse;
use super::reader::Reader;
use crate::args::RunArgs;
use crate::discover::workload_name;
use crate::sidecar::{Listener, SidecarConfig, Target, notices};
use policy_core::Facts;
use policy_enforce::record::{DecisionMode, Notices};
use policy_enforce::respond::RefusalDetail;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

pub(super) fn facts(args: &RunArgs, reader: &mut Reader<'_>) -> Facts {
    let given = reader.lookup("inbound-ips", args.sidecar.inbound_ips.as_ref(), &["INBOUND_IPS"]);
    let pod_addresses = reader.read(given, Vec::new(), parse::addresses);
    let given = reader.lookup(
        "cluster-networks",
        args.sidecar.cluster_networks.as_ref(),
        &["POLICY_CLUSTER_NETWORKS"],
    );
    let cluster = reader.read(given, Vec::new(), parse::networks);
    Facts { pod_addresses, cluster, ..Facts::default() }
}

pub(super) fn sidecar(args: &RunArgs, reader: &mut Reader<'_>, facts: &Facts) -> SidecarConfig {
    let given = reader.lookup("workload", args.discover.workload.as_ref(), &["POLICY_WORKLOAD"]);
    let token = given.map(|given| given.value).unwrap_or_default();
    let mut config = SidecarConfig::new(&workload_name(&token));
    config.notices = Arc::new(record(args, reader, &config.workload));
    config.pod_addresses = facts.pod_addresses.clone();
    let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4143);
    let given = reader.lookup("listen", args.sidecar.listen.as_ref(), &["INBOUND_LISTEN_ADDR"]);
    let redirected =
        Listener { address: reader.read(given, default, parse::socket), target: Target::Original };
    let given = reader.lookup("forward", args.sidecar.forward.as_ref(), &[]);
    let forwards = reader.read(given, Vec::new(), parse::forwards);
    let fixed =
        |(address, port, upstream)| Listener { address, target: Target::Fixed { port, upstream } };
    config.listeners = if forwards.is_empty() {
        vec![redirected]
    } else {
        forwards.into_iter().map(fixed).collect()
    };
    let given = reader.lookup("workers", args.sidecar.workers.as_ref(), &["CORES", "CORES_MAX"]);
    config.workers = reader.read(given, NonZeroUsize::MIN, parse::count);
    let given = reader.lookup("refusal-detail", args.sidecar.refusal_detail.as_ref(), &[]);
    config.refusal_detail = reader.read(given, config.refusal_detail, |text| {
        let known = RefusalDetail::ALL.into_iter().find(|detail| detail.as_str() == text);
        known.ok_or("expected reason or status")
    });
    let mut bound = |flag, typed, linkerd: &[&str], default| {
        let given = reader.lookup(flag, typed, linkerd);
        reader.read(given, default, parse::duration)
    };
    let timeouts = &mut config.timeouts;
    timeouts.detect = bound(
        "detect-timeout",
        args.sidecar.detect_timeout.as_ref(),
        &["INBOUND_DETECT_TIMEOUT"],
        timeouts.detect,
    );
    timeouts.connect = bound(
        "connect-timeout",
        args.sidecar.connect_timeout.as_ref(),
        &["INBOUND_CONNECT_TIMEOUT"],
        timeouts.connect,
    );
    timeouts.pending_policy =
        bound("pending-timeout", args.store.pending_timeout.as_ref(), &[], timeouts.pending_policy);
    timeouts.grace =
        bound("grace", args.sidecar.grace.as_ref(), &["SHUTDOWN_GRACE_PERIOD"], timeouts.grace);
    config
}

/// The log and the record of decisions.
fn record(args: &RunArgs, reader: &mut Reader<'_>, workload: &str) -> Notices {
    let given = reader.lookup("decisions", args.log.decisions.as_ref(), &[]);
    let mode = reader.read(given, DecisionMode::default(), |text| {
        let known = DecisionMode::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or("expected off, counts or full")
    });
    let given = reader.lookup("pod-uid", args.log.pod_uid.as_ref(), &[]);
    let uid = given.map(|given| given.value).filter(|uid| !uid.is_empty());
    notices(workload, mode, uid.as_deref().unwrap_or(workload))
}
