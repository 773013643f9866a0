//! Flags of the issuer that make no sense.

/// A flag of the issuer that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerArgsError {
    /// Nobody could come.
    #[error(
        "--identity-audiences: `{0}` names no audience (for example `portcullis.dev/identity`)"
    )]
    Audiences(String),
    /// Not a service account that can have an identity.
    #[error("--service-account: `{0}` makes no identity (allowed: labels of the DNS, lower-case)")]
    ServiceAccount(String),
    /// Certificates would outlive their authority.
    #[error(
        "--ca-lifetime: it is too short: --issuance-lifetime and --root-settle have to fit into \
         what is left of it after --rotate-after percent"
    )]
    TooShort,
}
