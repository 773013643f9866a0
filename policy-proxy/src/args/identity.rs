//! Flags of `policy-proxy run`: the proxy's identity.

use clap::Args;

/// Flags of the proxy's identity.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Identity")]
pub struct IdentityArgs {
    /// Source of the proxy's identity: files, certify (an issuer, by Linkerd's API), spiffe (the
    /// node's agent) or none [default: whichever of --identity-spiffe-socket and --identity-addr is
    /// given, else files]
    #[arg(long, value_name = "SOURCE")]
    pub identity: Option<String>,
    /// PEM file with the proxy's certificate, leaf first
    #[arg(long, value_name = "FILE")]
    pub identity_cert: Option<String>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE")]
    pub identity_key: Option<String>,
    /// PEM file with the mesh's trust roots (LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS holds the PEM
    /// itself)
    #[arg(long, value_name = "FILE")]
    pub identity_roots: Option<String>,
    /// The mesh's trust roots as PEM, for the life of the process or, with --identity-signed-roots,
    /// to begin with
    #[arg(long, value_name = "PEM")]
    pub identity_anchors: Option<String>,
    /// With certify: file with later trust roots, which others may write; they are accepted if
    /// signed by an authority that is already trusted (ca-bundle.signed of the issuer's ConfigMap)
    #[arg(long, value_name = "FILE")]
    pub identity_signed_roots: Option<String>,
    /// Server name in the SNI of clients; with certify also the identity to request
    /// [LINKERD2_PROXY_IDENTITY_LOCAL_NAME, …_SERVER_NAME]
    #[arg(long, value_name = "NAME")]
    pub identity_name: Option<String>,
    /// With spiffe: the SPIFFE ID to use [LINKERD2_PROXY_IDENTITY_SERVER_ID; default: the agent's
    /// first]
    #[arg(long, value_name = "ID")]
    pub identity_id: Option<String>,
    /// Address of the issuer, host:port [LINKERD2_PROXY_IDENTITY_SVC_ADDR]
    #[arg(long, value_name = "ADDR")]
    pub identity_addr: Option<String>,
    /// Identity that the issuer must prove; needed unless the address is loopback
    /// [LINKERD2_PROXY_IDENTITY_SVC_NAME]
    #[arg(long, value_name = "IDENTITY")]
    pub identity_service_name: Option<String>,
    /// File with the token that authenticates the proxy to the issuer; read for every request
    /// [LINKERD2_PROXY_IDENTITY_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub identity_token: Option<String>,
    /// Directory with key.p8 and csr.der, for a key that was created elsewhere
    /// [LINKERD2_PROXY_IDENTITY_DIR; default: a key created at start, in memory]
    #[arg(long, value_name = "DIRECTORY")]
    pub identity_dir: Option<String>,
    /// Minimum time before a certificate is renewed [LINKERD2_PROXY_IDENTITY_MIN_REFRESH; default
    /// 10s]
    #[arg(long, value_name = "DURATION")]
    pub identity_min_refresh: Option<String>,
    /// Maximum time before a certificate is renewed [LINKERD2_PROXY_IDENTITY_MAX_REFRESH; default
    /// 1d]
    #[arg(long, value_name = "DURATION")]
    pub identity_max_refresh: Option<String>,
    /// Socket of SPIFFE's Workload API [LINKERD2_PROXY_IDENTITY_SPIRE_WORKLOAD_API_ADDRESS;
    /// SPIFFE_ENDPOINT_SOCKET]
    #[arg(long, value_name = "PATH")]
    pub identity_spiffe_socket: Option<String>,
    /// Minimum backoff after the issuer or agent failed
    /// [LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MIN; default 200ms, spiffe 100ms]
    #[arg(long, value_name = "DURATION")]
    pub identity_backoff_min: Option<String>,
    /// Maximum backoff [LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MAX; default 30s, spiffe 1s]
    #[arg(long, value_name = "DURATION")]
    pub identity_backoff_max: Option<String>,
}
