//! `portcullis identity`.

use super::block_on;
use crate::cluster::api_flags::ApiFlags;
use crate::cluster::controller::{ControlPlaneFlags, find};
use crate::cluster::roots::{read_roots, roots};
use crate::cluster::settings::controller_settings;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::identity::account::Account;
use crate::identity::files::IdentityFiles;
use crate::identity::issuer_proxy::{ExpectedIssuer, IssuerPods, IssuerProxy, IssuerRoute};
use crate::identity::token::Token;
use crate::identity::writer::{IdentityWriter, WrittenIdentity};
use crate::output::{self, Format, Paint};
use crate::signals::Signals;
use crate::usage::wrong_use;
use anyhow::{Context, bail};
use clap::Args;
use policy_engine::ControllerConfig;
use rustls::pki_types::CertificateDer;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The issuer's service account, unless another identity is named.
const ISSUER: &str = "portcullis-issuer";

/// Get an identity of the mesh: a service account's certificate, its key and the roots
///
/// Takes a token of the service account from the API server, or from a file, and requests a certificate
/// from the issuer under a new key. Writes tls.crt (the certificate and its chain to a root), tls.key
/// (mode 0600) and ca.crt (the roots), for clients without a sidecar and for trying policies:
/// `portcullis request --identity FOLDER` uses them. The key proves the service account's identity for
/// as long as the certificate is valid, a day by default.
///
/// Connects to the issuer through a port-forward, or to the address in --issuer. With --token, --issuer
/// and --trust-roots, no API server is needed, as in a pod that has its token and the roots mounted.
///
/// Exit codes: 0 written, 1 something failed, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis identity -n shop web --out web
  portcullis request --identity web \\
    --server-name emoji.emojivoto.serviceaccount.identity.portcullis.cluster.local \\
    http://10.244.0.7:8080/api/list
  portcullis identity -n shop web --out web --keep      # renews it until interrupted
  portcullis identity --out /identity --token /var/run/token --trust-roots /roots/ca-bundle.crt \\
    --issuer portcullis-issuer.portcullis.svc.cluster.local:8080"
)]
pub(crate) struct IdentityArgs {
    /// The service account, NAME, sa/NAME or sa NAME [default: that of the token in --token]
    #[arg(value_name = "ACCOUNT", required_unless_present = "token", num_args = 1..=2)]
    account: Vec<String>,

    /// Folder that the files are written to; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,

    /// Renew the certificate until interrupted; the roots stay those of the start
    #[arg(long)]
    keep: bool,

    /// File with a token of the service account, read at each renewal [default: a token is requested]
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// Audience of the requested token
    #[arg(long, value_name = "AUDIENCE", default_value = "portcullis.dev/identity")]
    audience: String,

    /// Address of the issuer [default: one of its pods, through a port-forward]
    #[arg(long, value_name = "HOST:PORT")]
    issuer: Option<String>,

    /// The identity that the issuer has to prove [default: that of ServiceAccount portcullis-issuer]
    #[arg(long, value_name = "NAME")]
    issuer_identity: Option<String>,

    /// Roots of the mesh, PEM [default: those of the ConfigMap portcullis-identity-trust-roots in the
    /// control plane's namespace]
    #[arg(long, value_name = "FILE")]
    trust_roots: Option<PathBuf>,

    /// Trust domain that ends every identity [default: the controller's; cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    identity_domain: Option<String>,

    #[command(flatten)]
    api: ApiFlags,

    /// Namespace of the service account [default: that of the context, or of the token]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    #[command(flatten)]
    control_plane: ControlPlaneFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &IdentityArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        // Dropping the future removes the token's file, whichever signal ends the command.
        let mut signals = Signals::new()?;
        let mut written = false;
        tokio::select! {
            ended = write_identity(args, &mut written) => return ended.map(|()| ExitCode::SUCCESS),
            () = signals.next() => {}
        }
        Ok(if written { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

async fn write_identity(args: &IdentityArgs, is_written: &mut bool) -> anyhow::Result<()> {
    IdentityFiles::folder(&args.out)?;
    let request = IdentityRequest::new(args).await?;
    let account = request.account()?;
    let config = request.config().await?;
    let name = config
        .certifiable_identity(&account.namespace, &account.name)
        .with_context(|| format!("`{}` is no name of a service account", account.name))?;
    let expected =
        ExpectedIssuer { name: request.issuer_name(&config), roots: request.roots().await? };
    let writer = IdentityWriter {
        name: name.to_string(),
        roots: expected.roots.clone(),
        token: request.token(account).await?,
        proxy: IssuerProxy::open(request.route().await?, expected).await?,
        files: IdentityFiles::of(&args.out),
    };
    let print = |written: &WrittenIdentity| {
        *is_written = true;
        let format = args.output;
        Ok(output::print_next(format, written, |written| table(written, Paint::stdout()))?)
    };
    let result = writer.run(args.keep, print).await;
    result.with_context(|| format!("no certificate for {name}"))
}

/// The identity to request.
struct IdentityRequest<'a> {
    args: &'a IdentityArgs,
    /// The cluster, if one is needed.
    cluster: Option<Cluster>,
}

impl<'a> IdentityRequest<'a> {
    async fn new(args: &'a IdentityArgs) -> anyhow::Result<Self> {
        let IdentityArgs { token, issuer, trust_roots, api, namespace, .. } = args;
        let cluster = if token.is_some() && issuer.is_some() && trust_roots.is_some() {
            None
        } else {
            let namespaces = NamespaceFlags { namespace: namespace.clone(), all_namespaces: false };
            Some(Cluster::connect(&ClusterFlags { api: api.clone(), namespaces }).await?)
        };
        Ok(Self { args, cluster })
    }

    fn cluster(&self) -> anyhow::Result<&Cluster> {
        self.cluster.as_ref().context("no cluster is selected")
    }

    /// The service account of the identity.
    fn account(&self) -> anyhow::Result<Account> {
        let IdentityArgs { account, token, namespace, .. } = self.args;
        let of_token = match token {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("--token: `{}`", path.display()))?;
                Account::of_token(&text)
            }
        };
        let of_context =
            || self.cluster.as_ref().and_then(|cluster| cluster.scope.namespace().cloned());
        let namespace = namespace.as_ref().map(ToString::to_string);
        let namespace = namespace
            .or_else(|| of_token.as_ref().map(|account| account.namespace.clone()))
            .or_else(|| of_context().map(|namespace| namespace.to_string()));
        let name = account_name(account)?.or_else(|| of_token.map(|account| account.name));
        match (namespace, name) {
            (Some(namespace), Some(name)) => Ok(Account { namespace, name }),
            (_, None) => bail!(
                "which service account? Name it, or give --token FILE with a token of a service \
                 account"
            ),
            (None, Some(_)) => bail!("-n: the namespace of the service account is not known"),
        }
    }

    /// The settings that map service accounts to identities.
    async fn config(&self) -> anyhow::Result<ControllerConfig> {
        let IdentityArgs { control_plane, identity_domain, .. } = self.args;
        let home = &control_plane.pod.controller_namespace;
        let found = match &self.cluster {
            Some(cluster) => find(cluster, &control_plane.pod).await.ok(),
            None => None,
        };
        let settings = found.and_then(|found| controller_settings(&found).ok());
        let mut config = settings.map_or_else(
            || ControllerConfig {
                control_plane_namespace: home.clone(),
                ..ControllerConfig::default()
            },
            |settings| settings.controller,
        );
        if let Some(domain) = identity_domain {
            config.identity_domain = domain.as_str().into();
        }
        Ok(config)
    }

    fn issuer_name(&self, config: &ControllerConfig) -> String {
        let home = &config.control_plane_namespace;
        let own = || config.service_account_identity(home, ISSUER).to_string();
        self.args.issuer_identity.clone().unwrap_or_else(own)
    }

    async fn roots(&self) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        let IdentityArgs { control_plane, trust_roots, .. } = self.args;
        match trust_roots {
            Some(path) => read_roots(path),
            None => roots(self.cluster()?, &control_plane.pod.controller_namespace, None).await,
        }
    }

    async fn token(&self, account: Account) -> anyhow::Result<Token> {
        match &self.args.token {
            Some(path) => Ok(Token::File(path.clone())),
            None => {
                let (cluster, audience) = (self.cluster()?.clone(), self.args.audience.clone());
                Token::request(cluster, account, audience).await
            }
        }
    }

    /// The route to the issuer.
    async fn route(&self) -> anyhow::Result<IssuerRoute> {
        let IdentityArgs { issuer, control_plane, .. } = self.args;
        if let Some(address) = issuer {
            return Ok(IssuerRoute::Address(address.clone()));
        }
        let pods = IssuerPods {
            cluster: self.cluster()?.clone(),
            namespace: Arc::clone(&control_plane.pod.controller_namespace),
            selector: control_plane.issuer_selector.clone(),
        };
        // Fail early if there is no pod.
        pods.find().await?;
        Ok(IssuerRoute::Forward(Box::new(pods)))
    }
}

/// The name of a service account in the words of the command line, if there is one.
fn account_name(words: &[String]) -> anyhow::Result<Option<String>> {
    const KIND: [&str; 3] = ["sa", "serviceaccount", "serviceaccounts"];
    let is_kind = |word: &str| KIND.iter().any(|own| own.eq_ignore_ascii_case(word));
    let name = match words {
        [] => return Ok(None),
        [word] => match word.split_once('/') {
            Some((kind, name)) if is_kind(kind) => name,
            Some(_) | None => word,
        },
        [kind, name] if is_kind(kind) => name,
        [..] => return Err(wrong_use("one service account can be named: NAME, or sa NAME")),
    };
    Ok(Some(name.to_owned()))
}

fn table(written: &WrittenIdentity, paint: Paint) -> String {
    let WrittenIdentity { identity, until, files } = written;
    format!(
        "{}\nvalid until {until}\n{} {} {}\n",
        paint.bold(identity),
        files.certificate.display(),
        files.key.display(),
        files.roots.display()
    )
}

#[cfg(test)]
mod tests {
    use super::account_name;

    #[test]
    fn a_service_account_is_named_alone_or_with_its_kind() {
        let name = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            account_name(&words).ok()
        };
        let web = Some(Some("web".to_owned()));
        for words in [&["web"][..], &["sa/web"], &["serviceaccount/web"], &["sa", "web"]] {
            assert_eq!(name(words), web, "{words:?}");
        }
        assert_eq!(name(&[]), Some(None));
        assert_eq!(name(&["web", "api"]), None);
    }
}
