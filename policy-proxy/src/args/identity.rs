//! Flags of `policy-proxy run`: where our identity comes from.

use clap::Args;

/// Where our identity comes from.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Identity")]
pub struct IdentityArgs {
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
}
