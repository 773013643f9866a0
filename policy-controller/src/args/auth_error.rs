//! Flags of who may watch that make no sense.

use std::net::SocketAddr;

/// A flag of who may watch that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthArgsError {
    /// No TLS where others could reach it.
    #[error(
        "--grpc-addr: `{0}` is not on loopback, and without --identity=certify or --grpc-tls-key, --grpc-tls-certs and \
         --grpc-tls-roots callers cannot prove who they are: give these, or an address on loopback"
    )]
    TlsMissing(SocketAddr),
    /// The issuer cannot be asked.
    #[error("--{flag}: `{value}`: {why}")]
    Issuer {
        /// The flag, without dashes.
        flag: &'static str,
        /// What was written.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// Some of the files, but not all.
    #[error("--{missing}: must be given, because --{given} is")]
    Incomplete {
        /// What is missing.
        missing: &'static str,
        /// What was given.
        given: &'static str,
    },
    /// Two certificates.
    #[error("--identity: `certify` and --grpc-tls-key are two certificates; give one of them")]
    Both,
    /// Something is given that means nothing by itself.
    #[error("--{flag}: must not be empty")]
    Empty {
        /// The flag.
        flag: &'static str,
    },
}
