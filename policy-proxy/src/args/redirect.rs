//! Flags of `policy-proxy redirect`.

use clap::Args;

/// The settings of `redirect`. Each may come from a flag, or from the environment as `PORTCULLIS_`
/// and the flag's name.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "Every setting can be given as PORTCULLIS_<FLAG> in the environment. \
Exit codes: 64 for a setting that is invalid, 1 when the rules cannot be written, or are not as expected.")]
pub struct RedirectArgs {
    /// The sidecar's port for redirected connections [default: 4143]
    #[arg(long, value_name = "PORT")]
    pub inbound_port: Option<String>,
    /// The sidecar's admin port, which is not redirected [default: 4191]
    #[arg(long, value_name = "PORT")]
    pub admin_port: Option<String>,
    /// The sidecar's user id, whose connections are not redirected [default: 2102]
    #[arg(long, value_name = "UID")]
    pub proxy_uid: Option<String>,
    /// Ports that are not redirected, such as 25,3306-3307
    #[arg(long, value_name = "PORTS")]
    pub skip_inbound_ports: Option<String>,
    /// The sidecar's port for the pod's own connections, such as 4140; without it they are not
    /// redirected
    #[arg(long, value_name = "PORT")]
    pub outbound_port: Option<String>,
    /// Destination ports of the pod's own connections that are not redirected, such as
    /// 25,3306-3307; port 53 never is
    #[arg(long, value_name = "PORTS")]
    pub skip_outbound_ports: Option<String>,
    /// Destination networks of the pod's own connections that are not redirected, such as
    /// 192.0.2.0/24; link-local ones never are
    #[arg(long, value_name = "NETWORKS")]
    pub skip_outbound_networks: Option<String>,
    /// Address and port that are redirected to the outbound port for every user, so that the sidecar
    /// can prove the redirection by calling it
    #[arg(long, value_name = "ADDR:PORT")]
    pub canary: Option<String>,
    /// Tool that writes the rules: auto, nft or iptables; auto uses iptables if nft cannot be used
    /// [default: auto]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Remove the rules instead
    #[arg(long, conflicts_with = "check")]
    pub undo: bool,
    /// Change nothing; fail unless the rules are as expected
    #[arg(long)]
    pub check: bool,
    /// Existing file to which the reason is written if the rules cannot be set [default:
    /// /dev/termination-log]
    #[arg(long, value_name = "FILE")]
    pub termination_log: Option<String>,
}
