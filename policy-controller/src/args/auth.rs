//! Flags of who may watch.

use super::error::ArgsError;
use super::own_identity::OwnIdentityArgs;
use super::serve_auth::{OwnCertificate, ServeAuth, ViewerTokens};
use super::value::texts;
use clap::Args;
use clap::builder::NonEmptyStringValueParser as Text;
use policy_engine::config::ControllerConfig;
use policy_server::TlsFiles;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The audience that a viewer's token must have unless another is configured.
pub const AUDIENCE: &str = "portcullis.dev/policy";

/// Flags of watch authorization, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Who may watch")]
pub struct ServeAuthArgs {
    /// Address to serve policies in plaintext too, on loopback: every client there may see
    /// everything.
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    pub grpc_plaintext_addr: Option<SocketAddr>,

    /// PEM file with the private key of the gRPC port. With it, the port speaks mutual TLS.
    #[arg(long, value_name = "FILE", requires_all = ["grpc_tls_certs", "grpc_tls_roots"])]
    pub grpc_tls_key: Option<PathBuf>,

    /// PEM file with the certificate of the gRPC port, leaf first.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_key")]
    pub grpc_tls_certs: Option<PathBuf>,

    /// PEM file with the roots of the mesh, which clients' certificates have to reach.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_key")]
    pub grpc_tls_roots: Option<PathBuf>,

    /// Source of the gRPC port's certificate.
    #[command(flatten)]
    pub identity: OwnIdentityArgs,

    /// Identities of the mesh and users of the cluster that may see every policy, separated by
    /// commas.
    #[arg(long, value_name = "NAMES", default_value = "", value_parser = texts)]
    pub viewer_identities: BTreeSet<Arc<str>>,

    /// The audience that a viewer's token must have.
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE, value_parser = Text::new())]
    pub viewer_audience: String,

    /// File with public keys (a JSON Web Key Set, or PEM) by which viewers' tokens are checked,
    /// instead of by the API server. Only users of --viewer-identities see anything then.
    #[arg(long, value_name = "FILE", requires = "viewer_token_issuer")]
    pub viewer_token_keys: Option<PathBuf>,

    /// The issuer that tokens checked by --viewer-token-keys must have.
    #[arg(long, value_name = "URL", requires = "viewer_token_keys", value_parser = Text::new())]
    pub viewer_token_issuer: Option<String>,

    /// Accept no tokens.
    #[arg(long, conflicts_with = "viewer_token_keys")]
    pub no_viewer_tokens: bool,
}

impl Default for ServeAuthArgs {
    fn default() -> Self {
        Self {
            grpc_plaintext_addr: None,
            grpc_tls_key: None,
            grpc_tls_certs: None,
            grpc_tls_roots: None,
            identity: OwnIdentityArgs::default(),
            viewer_identities: BTreeSet::new(),
            viewer_audience: AUDIENCE.to_owned(),
            viewer_token_keys: None,
            viewer_token_issuer: None,
            no_viewer_tokens: false,
        }
    }
}

impl ServeAuthArgs {
    /// Returns the settings that the flags give beside `--grpc-addr`.
    ///
    /// # Errors
    /// [`ArgsError`] names the flags and what is allowed.
    pub fn settings(
        &self,
        grpc: SocketAddr,
        config: &ControllerConfig,
    ) -> Result<ServeAuth, ArgsError> {
        let files = self.files().map(OwnCertificate::Files);
        let tls = match self.identity.settings(config)? {
            Some(_) if files.is_some() => return Err(ArgsError::TwoCertificates),
            Some(certify) => Some(OwnCertificate::Certify(Box::new(certify))),
            None => files,
        };
        if tls.is_none() && !is_loopback(grpc) {
            return Err(ArgsError::TlsMissing(grpc));
        }
        Ok(ServeAuth {
            grpc,
            tls,
            plaintext: self.grpc_plaintext_addr,
            viewers: self.viewer_identities.clone(),
            tokens: self.tokens(),
        })
    }

    /// The files, each of which needs the others.
    fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            key: self.grpc_tls_key.clone()?,
            certs: self.grpc_tls_certs.clone()?,
            roots: self.grpc_tls_roots.clone()?,
        })
    }

    fn tokens(&self) -> ViewerTokens {
        let audience = self.viewer_audience.clone();
        match (&self.viewer_token_keys, &self.viewer_token_issuer) {
            (Some(file), Some(issuer)) => {
                ViewerTokens::Keys { file: file.clone(), issuer: issuer.clone(), audience }
            }
            // Each needs the other.
            (_, _) if self.no_viewer_tokens => ViewerTokens::Off,
            (_, _) => ViewerTokens::Review { audience },
        }
    }
}

/// Nowhere else, because in plaintext callers cannot prove who they are.
fn loopback(value: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address and port, for example `127.0.0.1:8092`";
    let address = value.parse().map_err(|_| expected)?;
    match is_loopback(address) {
        true => Ok(address),
        false => Err("it is not on loopback; in plaintext callers cannot prove who they are \
                      (allowed: 127.0.0.0/8 and ::1)"
            .to_owned()),
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    policy_core::fold_mapped(address.ip()).is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(grpc: &str, flags: &[&str]) -> Result<ServeAuth, String> {
        let args: ServeAuthArgs = parsed(flags)?;
        args.settings(grpc.parse().unwrap(), &ControllerConfig::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_policies_are_served_on_loopback_alone() {
        let settings = settings("127.0.0.1:8090", &[]).unwrap();
        let review = ViewerTokens::Review { audience: "portcullis.dev/policy".to_owned() };
        assert_eq!(
            settings,
            ServeAuth {
                grpc: "127.0.0.1:8090".parse().unwrap(),
                tls: None,
                plaintext: None,
                viewers: BTreeSet::new(),
                tokens: review,
            }
        );
        assert_eq!(settings.lost(true).len(), 1);
        assert_eq!(settings.lost(false).len(), 2);
        assert_eq!(
            ServeAuthArgs::default().settings(settings.grpc, &ControllerConfig::default()).unwrap(),
            settings
        );
    }

    #[test]
    fn every_flag_reaches_its_setting() {
        let flags = [
            "--grpc-tls-key=/k",
            "--grpc-tls-certs=/c",
            "--grpc-tls-roots=/r",
            "--grpc-plaintext-addr=[::1]:8092",
            "--viewer-identities=a.example, spiffe://td/b",
            "--viewer-audience=aud",
            "--viewer-token-keys=/keys",
            "--viewer-token-issuer=https://issuer",
        ];
        let settings = settings("0.0.0.0:8090", &flags).unwrap();
        let file = PathBuf::from;
        assert_eq!(
            settings,
            ServeAuth {
                grpc: "0.0.0.0:8090".parse().unwrap(),
                tls: Some(OwnCertificate::Files(TlsFiles {
                    key: file("/k"),
                    certs: file("/c"),
                    roots: file("/r"),
                })),
                plaintext: Some("[::1]:8092".parse().unwrap()),
                viewers: ["a.example".into(), "spiffe://td/b".into()].into(),
                tokens: ViewerTokens::Keys {
                    file: file("/keys"),
                    issuer: "https://issuer".to_owned(),
                    audience: "aud".to_owned(),
                },
            }
        );
        assert!(settings.lost(false).is_empty());
    }

    #[test]
    fn the_issuer_is_asked_for_the_controllers_identity() {
        let address = "--identity-addr=portcullis-issuer.linkerd.svc:8080";
        let settings = settings("0.0.0.0:8090", &["--identity=certify", address]).unwrap();
        let Some(OwnCertificate::Certify(config)) = &settings.tls else { panic!("{settings:?}") };
        let own = "policy-controller.linkerd.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(&*config.name, own);
        assert_eq!(config.token, PathBuf::from("/var/run/secrets/portcullis/token"));
        assert!(settings.lost(true).is_empty());
    }

    #[test]
    fn refusals_name_the_flag_and_what_is_allowed() {
        let refusal = |grpc, flags: &[&str]| settings(grpc, flags).unwrap_err();
        let missing = refusal("0.0.0.0:8090", &[]);
        assert!(missing.starts_with("--grpc-addr: `0.0.0.0:8090` is not on loopback"), "{missing}");
        for (flags, missing) in [
            (&["--grpc-tls-key=/k", "--grpc-tls-roots=/r"][..], "--grpc-tls-certs <FILE>"),
            (&["--grpc-tls-certs=/c"], "--grpc-tls-key <FILE>"),
            (&["--viewer-token-keys=/k"], "--viewer-token-issuer <URL>"),
            (&["--viewer-token-issuer=a"], "--viewer-token-keys <FILE>"),
            (&["--identity=certify"], "--identity-addr <HOST:PORT>"),
        ] {
            let refused = refusal("127.0.0.1:8090", flags);
            assert!(refused.contains("not provided") && refused.contains(missing), "{refused}");
        }
        let outside = refusal("127.0.0.1:8090", &["--grpc-plaintext-addr=10.0.0.1:80"]);
        let want = "'10.0.0.1:80' for '--grpc-plaintext-addr <ADDR>': it is not on loopback";
        assert!(outside.contains(want), "{outside}");
        let mapped = refusal("127.0.0.1:8090", &["--grpc-plaintext-addr=[::ffff:10.0.0.1]:80"]);
        assert!(mapped.contains("it is not on loopback"), "{mapped}");
        let wrong = refusal("127.0.0.1:8090", &["--identity=certify", "--identity-addr=a"]);
        assert!(wrong.contains("'--identity-addr <HOST:PORT>': `a` is not an address"), "{wrong}");
        let two = [
            "--identity=certify",
            "--identity-addr=a.example:80",
            "--grpc-tls-key=/k",
            "--grpc-tls-certs=/c",
            "--grpc-tls-roots=/r",
        ];
        assert!(refusal("127.0.0.1:8090", &two).contains("two certificates"));
        let empty = refusal("127.0.0.1:8090", &["--viewer-audience="]);
        assert!(empty.contains("'--viewer-audience <AUDIENCE>'"), "{empty}");
    }
}
