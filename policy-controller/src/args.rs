//! The command line of `policy-controller`, in two stages: [`RunArgs`] is what was written,
//! [`Settings`] is what it means. Every rule and every message is in the second.
//!
//! Flags that Linkerd's policy controller has keep their names and defaults
//! (controller-semantics 6.1).

use crate::config::{
    ConfigError, ControllerConfig, KubeletExemption, Limits, ProbeRoutes, ReferenceGrants,
};
use crate::publish::UndeclaredPorts;
use crate::serve::ServeConfig;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use policy_core::{DefaultPolicy, NetworkMatch, NetworkSymbol};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Indexes policy resources and streams one policy per workload port.
#[derive(Debug, Parser)]
#[command(name = "policy-controller", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `policy-controller` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read policy resources and serve the policies they make.
    Run(Box<RunArgs>),
}

/// Flags of `policy-controller run`, as written.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Directory of manifests (YAML or JSON, any layout) to read and follow.
    #[arg(long, value_name = "DIR")]
    pub manifests: PathBuf,

    /// Which log lines are written, in the syntax of tracing filters.
    #[arg(
        long,
        value_name = "FILTER",
        env = "LINKERD_POLICY_CONTROLLER_LOG",
        default_value = "policy_controller=info,warn"
    )]
    pub log_level: String,

    /// How log lines are written.
    #[arg(long, value_enum, default_value_t = LogFormat::Plain)]
    pub log_format: LogFormat,

    /// Where /live, /ready and /metrics are served.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080")]
    pub admin_addr: String,

    /// Where policies are served over gRPC. Callers are not authenticated there: name another
    /// address than loopback only where something in front of it does that.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    pub grpc_addr: String,

    /// What `cluster` means in policies: CIDRs, separated by commas.
    #[arg(
        long,
        value_name = "CIDRS",
        default_value = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8"
    )]
    pub cluster_networks: String,

    /// Policy of ports that no Server selects and no annotation decides.
    #[arg(long, value_name = "POLICY", default_value = "all-unauthenticated")]
    pub default_policy: String,

    /// Trust domain that ends every mesh identity.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub identity_domain: String,

    /// Namespace of the control plane, which is part of every mesh identity.
    #[arg(long, value_name = "NAMESPACE", default_value = "linkerd")]
    pub control_plane_namespace: String,

    /// Where kubelet probes may come from: CIDRs and `node-local` (the pod's own node), separated
    /// by commas; empty: nowhere.
    #[arg(long, value_name = "NETWORKS", default_value = "node-local")]
    pub probe_networks: String,

    /// What the kubelet may do without an authorization.
    #[arg(long, value_enum, default_value_t = KubeletArg::Probes)]
    pub kubelet_exemption: KubeletArg,

    /// On which ports probes are let through.
    #[arg(long, value_enum, default_value_t = ProbeRoutesArg::Always)]
    pub probe_routes: ProbeRoutesArg,

    /// Authorize loopback addresses on every port, as Linkerd's proxies do.
    #[arg(long)]
    pub localhost_authorization: bool,

    /// Whether an authentication of another namespace needs a ReferenceGrant.
    #[arg(long, value_enum, default_value_t = GrantsArg::Enforce)]
    pub reference_grants: GrantsArg,

    /// Namespaces whose authentications anybody may refer to, separated by commas; by default the
    /// control plane's.
    #[arg(long, value_name = "NAMESPACES")]
    pub shared_namespaces: Option<String>,

    /// What holds on ports that no container port, probe or Server names.
    #[arg(long, value_enum, default_value_t = UndeclaredArg::Default)]
    pub undeclared_ports: UndeclaredArg,

    /// Ports of the proxy itself, declared on every workload beside the one that its annotation
    /// config.linkerd.io/admin-port states, separated by commas; empty: there is no proxy.
    #[arg(long, value_name = "PORTS", default_value = "4191")]
    pub proxy_ports: String,

    /// Bounds on serving.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Bounds on serving, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub struct ServeArgs {
    /// Open watches of one client address.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_streams_per_peer)]
    pub max_streams_per_peer: u32,

    /// Open connections of one client address.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_connections_per_peer)]
    pub max_connections_per_peer: u32,

    /// Open streams of one connection.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_concurrent_streams)]
    pub max_concurrent_streams: u32,

    /// Ports of one native watch that the workload does not declare.
    #[arg(long, value_name = "N", default_value_t = ServeConfig::default().max_ports_per_stream)]
    pub max_ports_per_stream: usize,

    /// Watched ports of one workload that the workload does not declare.
    #[arg(long, value_name = "N", default_value_t = Limits::default().undeclared_ports_per_workload)]
    pub max_undeclared_ports: NonZeroUsize,

    /// Largest manifest file read, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().file_bytes)]
    pub max_file_bytes: u64,

    /// Largest message accepted from a client, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().max_request_bytes)]
    pub max_request_bytes: usize,

    /// Largest policy sent to a client of Linkerd's API, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().max_policy_bytes)]
    pub max_policy_bytes: usize,

    /// Largest message sent to a native client, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().max_update_bytes)]
    pub max_update_bytes: usize,

    /// HTTP/2 window of a stream and of a connection, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = ServeConfig::default().window_bytes)]
    pub http2_window_bytes: u32,

    /// Seconds of silence after which a connection is pinged.
    #[arg(long, value_name = "S", default_value_t = ServeConfig::default().keepalive_interval.as_secs())]
    pub keepalive_interval: u64,

    /// Seconds that the answer to a ping may take.
    #[arg(long, value_name = "S", default_value_t = ServeConfig::default().keepalive_timeout.as_secs())]
    pub keepalive_timeout: u64,

    /// Seconds after which a client is asked to connect again, more or less a fifth; 0: never.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    pub max_connection_age: u64,

    /// Seconds that connections may take to end when the controller stops.
    #[arg(long, value_name = "S", default_value_t = ServeConfig::default().drain_timeout.as_secs())]
    pub drain_timeout: u64,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Plain,
    /// One JSON object per line.
    Json,
}

/// See [`KubeletExemption`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KubeletArg {
    /// The probes and hooks that a pod declares.
    Probes,
    /// Everything from the probe networks.
    All,
}

/// See [`ProbeRoutes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbeRoutesArg {
    /// On all.
    Always,
    /// On those without routes, as Linkerd does.
    Unrouted,
}

/// See [`ReferenceGrants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GrantsArg {
    /// Yes.
    Enforce,
    /// No, but a missing one is reported.
    Warn,
}

/// See [`UndeclaredPorts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UndeclaredArg {
    /// The default policy.
    Default,
    /// They are refused.
    Deny,
}

/// What the flags mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where objects come from.
    pub manifests: PathBuf,
    /// What compiling depends on.
    pub controller: ControllerConfig,
    /// Bounds on serving.
    pub serve: ServeConfig,
    /// Where the admin server listens.
    pub admin: SocketAddr,
    /// Filter of log lines.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
}

/// A flag whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Not an address.
    #[error("--{flag}: `{value}` is not an address and port (for example `0.0.0.0:8090`)")]
    Address {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
    },
    /// Not a list of networks.
    #[error("--{flag}: `{value}` is not a CIDR or address{also}")]
    Network {
        /// The flag, without dashes.
        flag: &'static str,
        /// The item that is wrong.
        value: String,
        /// What else is allowed, in words; empty: nothing.
        also: &'static str,
    },
    /// Not a list of ports.
    #[error("--proxy-ports: `{0}` is not a port from 1 to 65535")]
    Port(String),
    /// Not a default policy.
    #[error("--default-policy: `{value}` is not one of {allowed}")]
    DefaultPolicy {
        /// What was written.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A bound that nothing could meet.
    #[error("--{flag}: `{value}` is out of range; {allowed}")]
    Range {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A setting of the controller that makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl TryFrom<RunArgs> for Settings {
    type Error = ArgsError;

    fn try_from(args: RunArgs) -> Result<Self, ArgsError> {
        let serve = args.serve.settings(address("grpc-addr", &args.grpc_addr)?)?;
        Ok(Self {
            admin: address("admin-addr", &args.admin_addr)?,
            controller: controller(&args)?,
            serve,
            manifests: args.manifests,
            log_level: args.log_level,
            log_format: args.log_format,
        })
    }
}

fn controller(args: &RunArgs) -> Result<ControllerConfig, ArgsError> {
    let namespace: Arc<str> = args.control_plane_namespace.as_str().into();
    let shared_namespaces = match &args.shared_namespaces {
        Some(list) => items(list).map(Arc::from).collect(),
        None => [namespace.clone()].into(),
    };
    let config = ControllerConfig {
        default_policy: default_policy(&args.default_policy)?,
        cluster_networks: items(&args.cluster_networks)
            .map(|item| network("cluster-networks", item, ""))
            .collect::<Result<_, _>>()?,
        probe_networks: probe_networks(&args.probe_networks)?,
        control_plane_namespace: namespace,
        identity_domain: args.identity_domain.as_str().into(),
        kubelet_exemption: match args.kubelet_exemption {
            KubeletArg::Probes => KubeletExemption::Probes,
            KubeletArg::All => KubeletExemption::All,
        },
        probe_routes: match args.probe_routes {
            ProbeRoutesArg::Always => ProbeRoutes::Always,
            ProbeRoutesArg::Unrouted => ProbeRoutes::Unrouted,
        },
        localhost_authorization: args.localhost_authorization,
        reference_grants: match args.reference_grants {
            GrantsArg::Enforce => ReferenceGrants::Enforce,
            GrantsArg::Warn => ReferenceGrants::Warn,
        },
        shared_namespaces,
        undeclared_ports: match args.undeclared_ports {
            UndeclaredArg::Default => UndeclaredPorts::Default,
            UndeclaredArg::Deny => UndeclaredPorts::Deny,
        },
        proxy_ports: items(&args.proxy_ports)
            .map(|item| item.parse().map_err(|_| ArgsError::Port(item.to_owned())))
            .collect::<Result<_, _>>()?,
        limits: Limits {
            undeclared_ports_per_workload: args.serve.max_undeclared_ports,
            file_bytes: args.serve.max_file_bytes,
        },
    };
    Ok(config.validated()?)
}

impl ServeArgs {
    fn settings(&self, listen: SocketAddr) -> Result<ServeConfig, ArgsError> {
        // RFC 9113 section 6.9.1: a window is at most 2^31-1; below 16 KiB a frame does not fit.
        if !(16 * 1024..=0x7fff_ffff).contains(&self.http2_window_bytes) {
            return Err(ArgsError::Range {
                flag: "http2-window-bytes",
                value: self.http2_window_bytes.into(),
                allowed: "16384 to 2147483647",
            });
        }
        for (flag, value) in [
            ("keepalive-interval", self.keepalive_interval),
            ("keepalive-timeout", self.keepalive_timeout),
        ] {
            if value == 0 {
                return Err(ArgsError::Range { flag, value, allowed: "at least 1" });
            }
        }
        Ok(ServeConfig {
            listen,
            max_streams_per_peer: self.max_streams_per_peer,
            max_connections_per_peer: self.max_connections_per_peer,
            max_concurrent_streams: self.max_concurrent_streams,
            max_ports_per_stream: self.max_ports_per_stream,
            max_request_bytes: self.max_request_bytes,
            max_policy_bytes: self.max_policy_bytes,
            max_update_bytes: self.max_update_bytes,
            window_bytes: self.http2_window_bytes,
            keepalive_interval: Duration::from_secs(self.keepalive_interval),
            keepalive_timeout: Duration::from_secs(self.keepalive_timeout),
            max_connection_age: match self.max_connection_age {
                0 => None,
                seconds => Some(Duration::from_secs(seconds)),
            },
            drain_timeout: Duration::from_secs(self.drain_timeout),
        })
    }
}

/// The items of a list separated by commas, without blanks and empty ones.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `:PORT` means every IPv4 address, as in Linkerd's chart.
fn address(flag: &'static str, value: &str) -> Result<SocketAddr, ArgsError> {
    let full = match value.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => value.to_owned(),
    };
    full.parse().map_err(|_| ArgsError::Address { flag, value: value.to_owned() })
}

fn network(flag: &'static str, item: &str, also: &'static str) -> Result<IpNet, ArgsError> {
    item.parse::<IpNet>()
        .or_else(|_| item.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| ArgsError::Network { flag, value: item.to_owned(), also })
}

fn probe_networks(list: &str) -> Result<Vec<NetworkMatch>, ArgsError> {
    items(list)
        .map(|item| match item {
            "node-local" => Ok(NetworkMatch::symbol(NetworkSymbol::NodeLocal)),
            item => network("probe-networks", item, " or `node-local`").map(NetworkMatch::net),
        })
        .collect()
}

fn default_policy(value: &str) -> Result<DefaultPolicy, ArgsError> {
    DefaultPolicy::parse(value).ok_or_else(|| ArgsError::DefaultPolicy {
        value: value.to_owned(),
        allowed: DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU16;

    fn settings(flags: &[&str]) -> Result<Settings, ArgsError> {
        let command = ["policy-controller", "run", "--manifests", "/m"];
        let cli = Cli::try_parse_from(command.iter().chain(flags)).unwrap();
        let Command::Run(args) = cli.command;
        Settings::try_from(*args)
    }

    fn refusal(flags: &[&str]) -> String {
        settings(flags).unwrap_err().to_string()
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        let settings = settings(&[]).unwrap();
        // Whoever runs the binary has proxies; who embeds the controller may not.
        let proxy_ports = [NonZeroU16::new(4191).unwrap()].into();
        assert_eq!(settings.controller, ControllerConfig { proxy_ports, ..Default::default() });
        assert_eq!(settings.serve, ServeConfig::default());
        assert_eq!(settings.admin.to_string(), "0.0.0.0:8080");
        assert_eq!(settings.log_format, LogFormat::Plain);
    }

    #[test]
    fn every_flag_reaches_its_setting() {
        let settings = settings(&[
            "--grpc-addr=:8091",
            "--admin-addr=[::]:9990",
            "--cluster-networks=10.0.0.0/8, 192.0.2.1",
            "--default-policy=deny",
            "--control-plane-namespace=mesh",
            "--probe-networks=node-local,192.0.2.0/24",
            "--kubelet-exemption=all",
            "--probe-routes=unrouted",
            "--localhost-authorization",
            "--reference-grants=warn",
            "--undeclared-ports=deny",
            "--proxy-ports=4190,4191",
            "--max-connection-age=0",
            "--max-streams-per-peer=7",
            "--max-undeclared-ports=9",
            "--log-format=json",
        ])
        .unwrap();
        let controller = settings.controller;
        assert_eq!(settings.serve.listen.to_string(), "0.0.0.0:8091");
        assert_eq!(settings.admin.to_string(), "[::]:9990");
        let networks: Vec<_> = controller.cluster_networks.iter().map(IpNet::to_string).collect();
        assert_eq!(networks, ["10.0.0.0/8", "192.0.2.1/32"]);
        assert_eq!(controller.default_policy, DefaultPolicy::Deny);
        assert!(controller.shared_namespaces.contains("mesh"));
        assert_eq!(controller.probe_networks.len(), 2);
        assert_eq!(controller.kubelet_exemption, KubeletExemption::All);
        assert_eq!(controller.probe_routes, ProbeRoutes::Unrouted);
        assert!(controller.localhost_authorization);
        assert_eq!(controller.reference_grants, ReferenceGrants::Warn);
        assert_eq!(controller.undeclared_ports, UndeclaredPorts::Deny);
        assert_eq!(controller.proxy_ports.len(), 2);
        assert_eq!(controller.limits.undeclared_ports_per_workload.get(), 9);
        assert_eq!(settings.serve.max_connection_age, None);
        assert_eq!(settings.serve.max_streams_per_peer, 7);
        assert_eq!(settings.log_format, LogFormat::Json);
    }

    #[test]
    fn refusals_name_the_flag_the_value_and_what_is_allowed() {
        assert_eq!(
            refusal(&["--grpc-addr=localhost"]),
            "--grpc-addr: `localhost` is not an address and port (for example `0.0.0.0:8090`)"
        );
        assert_eq!(
            refusal(&["--cluster-networks=10.0.0.0/33"]),
            "--cluster-networks: `10.0.0.0/33` is not a CIDR or address"
        );
        assert_eq!(
            refusal(&["--probe-networks=node"]),
            "--probe-networks: `node` is not a CIDR or address or `node-local`"
        );
        assert!(refusal(&["--default-policy=Deny"]).contains("`Deny` is not one of all-unauth"));
        assert_eq!(
            refusal(&["--proxy-ports=0"]),
            "--proxy-ports: `0` is not a port from 1 to 65535"
        );
        assert_eq!(
            refusal(&["--http2-window-bytes=100"]),
            "--http2-window-bytes: `100` is out of range; 16384 to 2147483647"
        );
        assert!(refusal(&["--keepalive-interval=0"]).contains("at least 1"));
        assert!(refusal(&["--identity-domain=Cluster"]).contains("`Cluster`"));
    }
}
