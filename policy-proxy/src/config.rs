//! The settings as they are understood: read once, checked once, all errors at once.

mod parse;
mod reader;

pub use reader::{ConfigError, Environment};

use crate::admin::{AdminConfig, MetricsAccess};
use crate::args::RunArgs;
use crate::discover::{ControllerAddress, DiscoverConfig};
use crate::record::Format;
use crate::sidecar::{Listener, SidecarConfig, Target};
use crate::store::StoreConfig;
use policy_core::{DefaultPolicy, Facts, Owner, Protocol, ServerPolicy};
use reader::Reader;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything that `policy-proxy run` does is settled here.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data path.
    pub sidecar: SidecarConfig,
    /// The store.
    pub store: StoreConfig,
    /// The stream from the controller.
    pub discover: DiscoverConfig,
    /// The admin server.
    pub admin: AdminConfig,
    /// Where our identity comes from; absent: we have none.
    pub identity: Option<IdentityFiles>,
    /// The access log's format; absent: no access log.
    pub access_log: Option<Format>,
}

/// Where an identity on disk is found. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// PEM with our certificate, leaf first.
    pub certificate: PathBuf,
    /// PEM with its private key.
    pub key: PathBuf,
    /// The mesh's roots.
    pub roots: Roots,
    /// The name that clients ask for in SNI.
    pub name: Arc<str>,
}

/// The mesh's roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// A PEM file.
    File(PathBuf),
    /// PEM text from the environment, fixed for the life of the process.
    Text(String),
}

/// How this process logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A filter as `tracing` takes it.
    pub filter: String,
    /// JSON instead of text.
    pub json: bool,
}

/// Reads how to log, which must be known before anything else can be said.
///
/// # Errors
/// [`ConfigError`] names each setting that is invalid.
pub fn log(args: &RunArgs, environment: Environment<'_>) -> Result<LogConfig, ConfigError> {
    let mut reader = Reader::new(environment);
    let filter = reader.given("log", args.log.as_ref(), &["LOG"]);
    let filter = filter.map_or_else(|| "info".to_owned(), |given| given.value);
    let format = reader.given("log-format", args.log_format.as_ref(), &["LOG_FORMAT"]);
    let json = reader.read(format, false, |text| match text.to_ascii_lowercase().as_str() {
        "plain" => Ok(false),
        "json" => Ok(true),
        _ => Err("expected plain or json"),
    });
    reader.finish(LogConfig { filter, json })
}

/// Reads all settings of `run`.
///
/// # Errors
/// [`ConfigError`] names each setting that is missing or invalid.
pub fn read(args: &RunArgs, environment: Environment<'_>) -> Result<Config, ConfigError> {
    let mut reader = Reader::new(environment);
    let facts = facts(args, &mut reader);
    let discover = discover(args, &mut reader, &facts);
    let admin = admin(args, &mut reader);
    let sidecar = sidecar(args, &mut reader, &facts);
    let store = store(args, &mut reader, facts, sidecar.timeouts.detect);
    let identity = identity(args, &mut reader);
    let given = reader.given("access-log", args.access_log.as_ref(), &["ACCESS_LOG"]);
    let access_log = reader.read(given, None, |text| match text {
        "" | "off" => Ok(None),
        "apache" => Ok(Some(Format::Apache)),
        "json" => Ok(Some(Format::Json)),
        _ => Err("expected off, apache or json"),
    });
    let Some(mut discover) = discover else {
        return reader
            .finish(())
            .and(Err(ConfigError(vec!["--policy-addr: must be given".to_owned()])));
    };
    // The proxy's own admin port is watched too (product: Admin port).
    discover.declared.extend(NonZeroU16::new(admin.listen.port()));
    reader.finish(Config { sidecar, store, discover, admin, identity, access_log })
}

fn facts(args: &RunArgs, reader: &mut Reader<'_>) -> Facts {
    let given = reader.given("inbound-ips", args.inbound_ips.as_ref(), &["INBOUND_IPS"]);
    let pod_addresses = reader.read(given, Vec::new(), parse::addresses);
    let given = reader.given(
        "cluster-networks",
        args.cluster_networks.as_ref(),
        &["POLICY_CLUSTER_NETWORKS"],
    );
    let cluster = reader.read(given, Vec::new(), parse::networks);
    Facts { pod_addresses, node_local: Vec::new(), cluster }
}

fn discover(args: &RunArgs, reader: &mut Reader<'_>, facts: &Facts) -> Option<DiscoverConfig> {
    let given = reader.given("policy-addr", args.policy_addr.as_ref(), &["POLICY_SVC_ADDR"]);
    let address = reader.required(given, "policy-addr", "POLICY_SVC_ADDR");
    let name = reader.given("policy-name", args.policy_name.as_ref(), &["POLICY_SVC_NAME"]);
    let name = name.map(|given| given.value);
    let given = reader.given("workload", args.workload.as_ref(), &["POLICY_WORKLOAD"]);
    let workload = reader.required(given, "workload", "POLICY_WORKLOAD");
    let given = reader.given("ports", args.ports.as_ref(), &["INBOUND_PORTS"]);
    let declared = reader.read(given, BTreeSet::new(), parse::ports);
    let mut bound = |flag, typed, linkerd| {
        let given = reader.given(flag, typed, &[linkerd]);
        let given = given.filter(|given| !given.value.is_empty());
        reader.read(given, None, |text| parse::duration(text).map(Some))
    };
    let initial = bound(
        "stream-initial-timeout",
        args.stream_initial_timeout.as_ref(),
        "CONTROL_STREAM_INITIAL_TIMEOUT",
    );
    let idle = bound(
        "stream-idle-timeout",
        args.stream_idle_timeout.as_ref(),
        "CONTROL_STREAM_IDLE_TIMEOUT",
    );
    let lifetime =
        bound("stream-lifetime", args.stream_lifetime.as_ref(), "CONTROL_STREAM_LIFETIME");
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
    // Linkerd sets no bounds on streams over loopback (proxy-semantics 2.1).
    config.initial_timeout = initial.filter(|_| remote);
    config.idle_timeout = idle.filter(|_| remote);
    config.lifetime = lifetime.filter(|_| remote);
    Some(config)
}

fn admin(args: &RunArgs, reader: &mut Reader<'_>) -> AdminConfig {
    let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4191);
    let given = reader.given("admin", args.admin.as_ref(), &["ADMIN_LISTEN_ADDR"]);
    let listen = reader.read(given, default, parse::socket);
    let given = reader.given("admin-metrics", args.admin_metrics.as_ref(), &[]);
    let metrics = reader.read(given, MetricsAccess::Policy, |text| match text {
        "policy" => Ok(MetricsAccess::Policy),
        "local" => Ok(MetricsAccess::Local),
        "all" => Ok(MetricsAccess::All),
        _ => Err("expected policy, local or all"),
    });
    let given = reader.given(
        "admin-shutdown",
        args.admin_shutdown.as_ref(),
        &["SHUTDOWN_ENDPOINT_ENABLED"],
    );
    let shutdown = reader.read(given, false, parse::boolean);
    AdminConfig { listen, metrics, shutdown }
}

fn sidecar(args: &RunArgs, reader: &mut Reader<'_>, facts: &Facts) -> SidecarConfig {
    let given = reader.given("workload", args.workload.as_ref(), &["POLICY_WORKLOAD"]);
    let mut config = SidecarConfig::new(&given.map(|given| given.value).unwrap_or_default());
    config.pod_addresses = facts.pod_addresses.clone();
    let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4143);
    let given = reader.given("listen", args.listen.as_ref(), &["INBOUND_LISTEN_ADDR"]);
    let redirected =
        Listener { address: reader.read(given, default, parse::socket), target: Target::Original };
    let given = reader.given("forward", args.forward.as_ref(), &[]);
    let forwards = reader.read(given, Vec::new(), parse::forwards);
    let fixed =
        |(address, port, upstream)| Listener { address, target: Target::Fixed { port, upstream } };
    config.listeners = if forwards.is_empty() {
        vec![redirected]
    } else {
        forwards.into_iter().map(fixed).collect()
    };
    let given = reader.given("workers", args.workers.as_ref(), &["CORES", "CORES_MAX"]);
    config.workers = reader.read(given, NonZeroUsize::MIN, parse::count);
    let mut bound = |flag, typed, linkerd: &[&str], default| {
        let given = reader.given(flag, typed, linkerd);
        reader.read(given, default, parse::duration)
    };
    let timeouts = &mut config.timeouts;
    timeouts.detect = bound(
        "detect-timeout",
        args.detect_timeout.as_ref(),
        &["INBOUND_DETECT_TIMEOUT"],
        timeouts.detect,
    );
    timeouts.connect = bound(
        "connect-timeout",
        args.connect_timeout.as_ref(),
        &["INBOUND_CONNECT_TIMEOUT"],
        timeouts.connect,
    );
    timeouts.pending_policy =
        bound("pending-timeout", args.pending_timeout.as_ref(), &[], timeouts.pending_policy);
    timeouts.grace =
        bound("grace", args.grace.as_ref(), &["SHUTDOWN_GRACE_PERIOD"], timeouts.grace);
    config
}

fn store(args: &RunArgs, reader: &mut Reader<'_>, facts: Facts, detect: Duration) -> StoreConfig {
    let mut config = StoreConfig { facts: Arc::new(facts), ..StoreConfig::default() };
    let given =
        reader.given("default-policy", args.default_policy.as_ref(), &["INBOUND_DEFAULT_POLICY"]);
    let default = reader.read(given, DefaultPolicy::AllUnauthenticated, |name| {
        let known = DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
        DefaultPolicy::parse(name).ok_or_else(|| format!("expected one of {known}"))
    });
    let given = reader.given("pending-policy", args.pending_policy.as_ref(), &[]);
    let pending = reader.read(given, false, |text| match text {
        "wait" => Ok(false),
        "default" => Ok(true),
        _ => Err("expected wait or default"),
    });
    config.pending = pending.then(|| Arc::new(pending_policy(default, detect)));
    let linkerd = ["INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION"];
    let given = reader.given("opaque-ports", args.opaque_ports.as_ref(), &linkerd);
    config.pending_opaque = reader.read(given, BTreeSet::new(), parse::ports);
    let given = reader.given("maximum-policy-age", args.maximum_policy_age.as_ref(), &[]);
    config.maximum_age = reader.read(given, None, |text| parse::duration(text).map(Some));
    let given = reader.given(
        "discovery-idle-timeout",
        args.discovery_idle_timeout.as_ref(),
        &["INBOUND_DISCOVERY_IDLE_TIMEOUT"],
    );
    config.on_demand_idle = reader.read(given, config.on_demand_idle, parse::duration);
    config
}

/// What `--pending-policy=default` decides by (proxy-semantics 2.4).
fn pending_policy(default: DefaultPolicy, timeout: Duration) -> ServerPolicy {
    let protocol = Protocol::Detect { timeout };
    let mut policy = ServerPolicy::without_grants(Owner::Default(default), protocol);
    policy.authorizations = default.authorizations();
    policy
}

fn identity(args: &RunArgs, reader: &mut Reader<'_>) -> Option<IdentityFiles> {
    let given = reader.given("identity", args.identity.as_ref(), &[]);
    let wanted = reader.read(given, true, |text| match text {
        "files" => Ok(true),
        "none" => Ok(false),
        _ => Err("expected files or none"),
    });
    if !wanted {
        return None;
    }
    let file = |reader: &mut Reader<'_>, flag: &str, typed| {
        let given = reader.given(flag, typed, &[]);
        if given.is_none() {
            reader.fail(format!("--{flag}: must be given, or --identity=none"));
        }
        PathBuf::from(given.map(|given| given.value).unwrap_or_default())
    };
    let certificate = file(reader, "identity-cert", args.identity_cert.as_ref());
    let key = file(reader, "identity-key", args.identity_key.as_ref());
    let roots = match reader.given("identity-roots-text", None, &["IDENTITY_TRUST_ANCHORS"]) {
        Some(given) if args.identity_roots.is_none() => Roots::Text(given.value),
        Some(_) | None => Roots::File(file(reader, "identity-roots", args.identity_roots.as_ref())),
    };
    let names = ["IDENTITY_LOCAL_NAME", "IDENTITY_SERVER_NAME"];
    let given = reader.given("identity-name", args.identity_name.as_ref(), &names);
    let name = reader.required(given, "identity-name", "IDENTITY_SERVER_NAME").into();
    Some(IdentityFiles { certificate, key, roots, name })
}

#[cfg(test)]
mod tests;
