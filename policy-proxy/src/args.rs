//! The command line as it was typed. [`crate::config`] says what it means.

use clap::{Args, Parser, Subcommand};

/// The command line of `policy-proxy`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "policy-proxy",
    version,
    about = "Enforces policy on every connection and request to a workload"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the sidecar until SIGTERM.
    Run(Box<RunArgs>),
}

/// The settings of `run`. Each may come from a flag, from the environment as `PORTCULLIS_` and the
/// flag's name, or from the variable that Linkerd's injector sets, which its help names; the first of
/// these that is set counts.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "Durations are whole numbers with ms, s, m, h or d. \
Every flag can be given as PORTCULLIS_<FLAG> in the environment. \
Exit codes: 64 for a setting that is missing or invalid, 1 for a start that failed.")]
pub struct RunArgs {
    /// Address of the policy controller, host:port [LINKERD2_PROXY_POLICY_SVC_ADDR]
    #[arg(long, value_name = "ADDR")]
    pub policy_addr: Option<String>,
    /// Identity that the controller must prove; needed unless the address is loopback
    /// [LINKERD2_PROXY_POLICY_SVC_NAME]
    #[arg(long, value_name = "IDENTITY")]
    pub policy_name: Option<String>,
    /// The workload's token [LINKERD2_PROXY_POLICY_WORKLOAD]
    #[arg(long, value_name = "TOKEN")]
    pub workload: Option<String>,
    /// Where redirected connections arrive [LINKERD2_PROXY_INBOUND_LISTEN_ADDR; default 0.0.0.0:4143]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Instead of redirected connections: listener,port,application (several separated by blanks);
    /// for example 0.0.0.0:9080,8080,127.0.0.1:8080
    #[arg(long, value_name = "FORWARDS")]
    pub forward: Option<String>,
    /// Where /live, /ready and /metrics are served [LINKERD2_PROXY_ADMIN_LISTEN_ADDR; default
    /// 127.0.0.1:4191]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Who may read /metrics: policy, local or all [default: policy]
    #[arg(long, value_name = "WHO")]
    pub admin_metrics: Option<String>,
    /// Whether POST /shutdown works from loopback: true or false
    /// [LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED; default false]
    #[arg(long, value_name = "BOOL")]
    pub admin_shutdown: Option<String>,
    /// The pod's addresses; connections to any other are refused [LINKERD2_PROXY_INBOUND_IPS]
    #[arg(long, value_name = "IPS")]
    pub inbound_ips: Option<String>,
    /// Ports that the workload declares, for controllers that do not say it
    /// [LINKERD2_PROXY_INBOUND_PORTS]
    #[arg(long, value_name = "PORTS")]
    pub ports: Option<String>,
    /// While no policy has been received: wait, or decide by the default policy [default: wait]
    #[arg(long, value_name = "MODE")]
    pub pending_policy: Option<String>,
    /// The default policy of --pending-policy=default [LINKERD2_PROXY_INBOUND_DEFAULT_POLICY]
    #[arg(long, value_name = "POLICY")]
    pub default_policy: Option<String>,
    /// Ports on which --pending-policy=default does not look for a protocol
    /// [LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION]
    #[arg(long, value_name = "PORTS")]
    pub opaque_ports: Option<String>,
    /// How long a connection waits for the first policy [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub pending_timeout: Option<String>,
    /// How old a policy may get without the controller before its port refuses [default: no bound]
    #[arg(long, value_name = "DURATION")]
    pub maximum_policy_age: Option<String>,
    /// The cluster's networks, for controllers that do not say them
    /// [LINKERD2_PROXY_POLICY_CLUSTER_NETWORKS]
    #[arg(long, value_name = "CIDRS")]
    pub cluster_networks: Option<String>,
    /// How long a client may take to show its protocol [LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub detect_timeout: Option<String>,
    /// How long the application may take to accept [LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub connect_timeout: Option<String>,
    /// How long an undeclared port is kept [LINKERD2_PROXY_INBOUND_DISCOVERY_IDLE_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub discovery_idle_timeout: Option<String>,
    /// How long the first message of a policy stream may take
    /// [LINKERD2_PROXY_CONTROL_STREAM_INITIAL_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub stream_initial_timeout: Option<String>,
    /// After how long without a message a policy stream is renewed
    /// [LINKERD2_PROXY_CONTROL_STREAM_IDLE_TIMEOUT]
    #[arg(long, value_name = "DURATION")]
    pub stream_idle_timeout: Option<String>,
    /// After how long a policy stream is renewed [LINKERD2_PROXY_CONTROL_STREAM_LIFETIME]
    #[arg(long, value_name = "DURATION")]
    pub stream_lifetime: Option<String>,
    /// How long drain waits for what is open [LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,
    /// Worker threads [LINKERD2_PROXY_CORES; default 1]
    #[arg(long, value_name = "COUNT")]
    pub workers: Option<String>,
    /// Where our identity comes from: files or none [default: files]
    #[arg(long, value_name = "SOURCE")]
    pub identity: Option<String>,
    /// PEM file with our certificate, leaf first
    #[arg(long, value_name = "FILE")]
    pub identity_cert: Option<String>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE")]
    pub identity_key: Option<String>,
    /// PEM file with the mesh's roots (LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS holds the PEM itself)
    #[arg(long, value_name = "FILE")]
    pub identity_roots: Option<String>,
    /// The name that clients ask for in SNI [LINKERD2_PROXY_IDENTITY_SERVER_NAME, …_LOCAL_NAME]
    #[arg(long, value_name = "NAME")]
    pub identity_name: Option<String>,
    /// Access log on stderr: off, apache or json [LINKERD2_PROXY_ACCESS_LOG; default off]
    #[arg(long, value_name = "FORMAT")]
    pub access_log: Option<String>,
    /// Log filter [LINKERD2_PROXY_LOG; default info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Log format: plain or json [LINKERD2_PROXY_LOG_FORMAT]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}
