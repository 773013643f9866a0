//! Flags of who may watch.

use super::auth_error::AuthArgsError;
use super::own_identity::OwnIdentityArgs;
use super::serve_auth::{OwnCertificate, ServeAuth, ViewerTokens};
use clap::Args;
use policy_engine::config::ControllerConfig;
use policy_server::TlsFiles;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The audience that a viewer's token must have unless another is configured.
pub const AUDIENCE: &str = "portcullis.dev/policy";

/// Who may watch, as written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Who may watch")]
pub struct ServeAuthArgs {
    /// Where policies are served in plaintext too, on loopback: whoever reaches it there sees
    /// everything.
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    pub grpc_plaintext_addr: Option<SocketAddr>,

    /// PEM file with the private key of the gRPC port. With it, the port speaks mutual TLS.
    #[arg(long, value_name = "FILE")]
    pub grpc_tls_key: Option<PathBuf>,

    /// PEM file with the certificate of the gRPC port, leaf first.
    #[arg(long, value_name = "FILE")]
    pub grpc_tls_certs: Option<PathBuf>,

    /// PEM file with the roots of the mesh, which clients' certificates have to reach.
    #[arg(long, value_name = "FILE")]
    pub grpc_tls_roots: Option<PathBuf>,

    /// Where the certificate of the gRPC port comes from.
    #[command(flatten)]
    pub identity: OwnIdentityArgs,

    /// Identities of the mesh and users of the cluster that may see every policy, separated by
    /// commas.
    #[arg(long, value_name = "NAMES", default_value = "")]
    pub viewer_identities: String,

    /// The audience that a viewer's token must have.
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE)]
    pub viewer_audience: String,

    /// File with public keys (a JSON Web Key Set, or PEM) by which viewers' tokens are checked,
    /// instead of asking the API server. Only users of --viewer-identities see anything then.
    #[arg(long, value_name = "FILE")]
    pub viewer_token_keys: Option<PathBuf>,

    /// The issuer that tokens checked by --viewer-token-keys must have.
    #[arg(long, value_name = "URL")]
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
            viewer_identities: String::new(),
            viewer_audience: AUDIENCE.to_owned(),
            viewer_token_keys: None,
            viewer_token_issuer: None,
            no_viewer_tokens: false,
        }
    }
}

impl ServeAuthArgs {
    /// What the flags mean beside `--grpc-addr`.
    ///
    /// # Errors
    /// [`AuthArgsError`] names the flag and what is allowed.
    pub fn settings(
        &self,
        grpc: SocketAddr,
        config: &ControllerConfig,
    ) -> Result<ServeAuth, AuthArgsError> {
        let files = self.files()?.map(OwnCertificate::Files);
        let tls = match self.identity.settings(config)? {
            Some(_) if files.is_some() => return Err(AuthArgsError::Both),
            Some(certify) => Some(OwnCertificate::Certify(Box::new(certify))),
            None => files,
        };
        if tls.is_none() && !is_loopback(grpc) {
            return Err(AuthArgsError::TlsMissing(grpc));
        }
        let names = self.viewer_identities.split(',').map(str::trim);
        Ok(ServeAuth {
            grpc,
            tls,
            plaintext: self.grpc_plaintext_addr,
            viewers: names.filter(|name| !name.is_empty()).map(Arc::from).collect(),
            tokens: self.tokens()?,
        })
    }

    fn files(&self) -> Result<Option<TlsFiles>, AuthArgsError> {
        let files = [
            ("grpc-tls-key", &self.grpc_tls_key),
            ("grpc-tls-certs", &self.grpc_tls_certs),
            ("grpc-tls-roots", &self.grpc_tls_roots),
        ];
        if let [(_, Some(key)), (_, Some(certs)), (_, Some(roots))] = files {
            let (key, certs, roots) = (key.clone(), certs.clone(), roots.clone());
            return Ok(Some(TlsFiles { key, certs, roots }));
        }
        let given = files.iter().find(|(_, file)| file.is_some());
        let missing = files.iter().find(|(_, file)| file.is_none());
        match (given, missing) {
            (Some((given, _)), Some((missing, _))) => {
                Err(AuthArgsError::Incomplete { missing, given })
            }
            (_, _) => Ok(None),
        }
    }

    fn tokens(&self) -> Result<ViewerTokens, AuthArgsError> {
        let audience = self.viewer_audience.clone();
        if audience.is_empty() {
            return Err(AuthArgsError::Empty { flag: "viewer-audience" });
        }
        let issuer = self.viewer_token_issuer.clone().filter(|issuer| !issuer.is_empty());
        let (keys, other) = ("viewer-token-keys", "viewer-token-issuer");
        match (&self.viewer_token_keys, issuer) {
            (Some(file), Some(issuer)) => {
                Ok(ViewerTokens::Keys { file: file.clone(), issuer, audience })
            }
            (Some(_), None) => Err(AuthArgsError::Incomplete { missing: other, given: keys }),
            (None, Some(_)) => Err(AuthArgsError::Incomplete { missing: keys, given: other }),
            (None, None) if self.no_viewer_tokens => Ok(ViewerTokens::Off),
            (None, None) => Ok(ViewerTokens::Review { audience }),
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
    use clap::Parser;
    use std::collections::BTreeSet;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        auth: ServeAuthArgs,
    }

    fn settings(grpc: &str, flags: &[&str]) -> Result<ServeAuth, String> {
        let args = Command::try_parse_from(["command"].iter().chain(flags));
        let args = args.map_err(|error| error.to_string())?.auth;
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
        assert_eq!(
            refusal("127.0.0.1:8090", &["--grpc-tls-key=/k", "--grpc-tls-roots=/r"]),
            "--grpc-tls-certs: must be given, because --grpc-tls-key is"
        );
        let outside = refusal("127.0.0.1:8090", &["--grpc-plaintext-addr=10.0.0.1:80"]);
        let want = "'10.0.0.1:80' for '--grpc-plaintext-addr <ADDR>': it is not on loopback";
        assert!(outside.contains(want), "{outside}");
        let mapped = refusal("127.0.0.1:8090", &["--grpc-plaintext-addr=[::ffff:10.0.0.1]:80"]);
        assert!(mapped.contains("it is not on loopback"), "{mapped}");
        assert_eq!(
            refusal("127.0.0.1:8090", &["--viewer-token-keys=/k"]),
            "--viewer-token-issuer: must be given, because --viewer-token-keys is"
        );
        let absent = refusal("127.0.0.1:8090", &["--identity=certify"]);
        assert_eq!(absent, "--identity-addr: must be given, because --identity is");
        let wrong = refusal("127.0.0.1:8090", &["--identity=certify", "--identity-addr=a"]);
        assert!(wrong.starts_with("--identity-addr: `a`: "), "{wrong}");
        let two = [
            "--identity=certify",
            "--identity-addr=a.example:80",
            "--grpc-tls-key=/k",
            "--grpc-tls-certs=/c",
            "--grpc-tls-roots=/r",
        ];
        assert!(refusal("127.0.0.1:8090", &two).contains("two certificates"));
        let empty = refusal("127.0.0.1:8090", &["--viewer-audience="]);
        assert_eq!(empty, "--viewer-audience: must not be empty");
    }
}
