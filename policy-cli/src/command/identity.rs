//! `portcullis identity`.

use super::block_on;
use crate::cluster::controller::{PodFlags, find};
use crate::cluster::refusal::{explain, is_forbidden, is_not_found, words};
use crate::cluster::roots::roots;
use crate::cluster::settings::told;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags, token};
use crate::identity::{Account, Bridge, Domain, FILES, write};
use crate::output::{self, Format};
use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use policy_controller::args::ClusterArgs;
use policy_issuer::{AUDIENCE, SERVICE_ACCOUNT};
use policy_tls::civil::shown;
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{Anchors, Certified, CertifyConfig, Roots, pem};
use serde::Serialize;
use std::io::Write as _;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// How long a token lives that is asked for here, in seconds: the shortest that the API server gives.
const TOKEN_SECONDS: i64 = 600;

/// The pause after a certificate that could not be renewed.
const RETRY: Duration = Duration::from_secs(10);

/// The longest time without a look at the clock, which may be set.
const LOOK: Duration = Duration::from_secs(10);

/// Get a certificate of the mesh for a ServiceAccount, for a client without a sidecar
///
/// A new key is made, and the issuer certifies the identity of a ServiceAccount to whoever shows a token
/// of it. Certificate, key and roots are written to DIR as tls.crt, tls.key and ca.crt, for their owner
/// alone; `portcullis request --identity DIR` uses them. A certificate lasts for a day; --keep renews
/// it in time.
///
/// From outside of a cluster the token is asked for (the right to create serviceaccounts/token), and
/// the issuer reached through a port-forward to its pod. In a pod, --token-file, --roots and --issuer
/// name what is mounted there and the issuer's address.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis identity -n shop cart --out cart
  portcullis request --identity cart \\
    --server-name web.shop.serviceaccount.identity.portcullis.cluster.local http://web.shop/
  portcullis identity --token-file /issuer/token --roots /issuer/ca-bundle.crt --out /identity \\
    --issuer portcullis-issuer.portcullis.svc.cluster.local:8080 --keep"
)]
pub(crate) struct Arguments {
    /// The ServiceAccount of which a token is asked for
    #[arg(value_name = "SERVICEACCOUNT", required_unless_present = "token_file")]
    account: Option<String>,

    /// Folder that the files are written to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// A token of a ServiceAccount, instead of asking the API server for one
    #[arg(long, value_name = "FILE", conflicts_with = "account", requires_all = ["issuer", "roots"])]
    token_file: Option<PathBuf>,

    /// Address of the issuer, instead of a port-forward to its pod
    #[arg(long, value_name = "HOST:PORT", requires = "token_file")]
    issuer: Option<String>,

    /// Roots of the mesh, PEM [default: those of the ConfigMap portcullis-identity-trust-roots in the
    /// control plane's namespace]
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,

    /// The identity that the issuer has to prove [default: that of its ServiceAccount]
    #[arg(long, value_name = "NAME")]
    issuer_name: Option<String>,

    /// Trust domain of the mesh [default: the controller's; cluster.local with --token-file]
    #[arg(long, value_name = "NAME")]
    trust_domain: Option<String>,

    /// Audience of the token that is asked for
    #[arg(long, value_name = "AUDIENCE", default_value = AUDIENCE)]
    audience: String,

    /// Go on, and renew the certificate after some two thirds of its life, until interrupted
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    api: ClusterArgs,

    /// Namespace of the ServiceAccount [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    #[command(flatten)]
    controller: PodFlags,

    /// Labels of the issuer's pods
    #[arg(long, value_name = "LABELS", default_value = "app.kubernetes.io/component=issuer")]
    issuer_selector: String,

    /// Port of the issuer's pods
    #[arg(long, value_name = "PORT", default_value = "8080")]
    issuer_port: NonZeroU16,

    /// Form of what was certified
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was certified, as `-o json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    identity: String,
    until: String,
    certificate: String,
    key: String,
    roots: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    block_on(async {
        tokio::select! {
            ended = get(arguments) => ended,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("cannot wait for Ctrl-C")?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn get(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut certified = once(arguments).await?;
    loop {
        write(&arguments.out, &certified)?;
        let written = Written::of(&certified, &arguments.out);
        output::print_next(arguments.output, &written, Written::table)?;
        if !arguments.keep {
            return Ok(ExitCode::SUCCESS);
        }
        certified = renewed(arguments, certified.renew).await;
    }
}

/// The next certificate, at its time. Failures are told, and tried again.
async fn renewed(arguments: &Arguments, at: SystemTime) -> Certified {
    while let Ok(left) = at.duration_since(SystemTime::now()) {
        tokio::time::sleep(left.min(LOOK)).await;
    }
    loop {
        match once(arguments).await {
            Ok(certified) => return certified,
            Err(error) => {
                // Nobody is left to tell if standard error is closed.
                let _ = writeln!(std::io::stderr(), "not renewed, trying again: {error:#}");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn once(arguments: &Arguments) -> anyhow::Result<Certified> {
    match (&arguments.token_file, &arguments.issuer, &arguments.roots, &arguments.account) {
        (Some(token), Some(issuer), Some(roots), _) => {
            with_files(arguments, (token, issuer, roots)).await
        }
        (None, _, _, Some(account)) => through_the_cluster(arguments, account).await,
        _ => bail!("a ServiceAccount, or --token-file with --issuer and --roots"),
    }
}

/// With a token and roots that are here, from an issuer at an address.
async fn with_files(
    arguments: &Arguments,
    (token, issuer, roots): (&Path, &str, &Path),
) -> anyhow::Result<Certified> {
    let text = std::fs::read_to_string(token);
    let text = text.with_context(|| format!("--token-file: `{}`", token.display()))?;
    let account = Account::of_token(&text);
    let account = account.with_context(|| format!("--token-file: `{}`", token.display()))?;
    let domain = Domain {
        namespace: Arc::clone(&arguments.controller.controller_namespace),
        trust_domain: arguments.trust_domain.as_deref().unwrap_or("cluster.local").into(),
    };
    let server = issuer_name(arguments, &domain);
    let address = ControllerAddress::parse(issuer, Some(&server)).context("--issuer")?;
    let name = domain.identity(&account.namespace, &account.name);
    let roots = Anchors::Trusted(Roots::File(roots.to_owned()));
    certify(address, &name, token.to_owned(), roots).await
}

/// With a token that the API server gives, from the issuer of a cluster.
async fn through_the_cluster(arguments: &Arguments, account: &str) -> anyhow::Result<Certified> {
    let namespaces =
        NamespaceFlags { namespace: arguments.namespace.clone(), all_namespaces: false };
    let flags = ClusterFlags { api: arguments.api.clone(), namespaces };
    let cluster = Cluster::connect(&flags).await?;
    let namespace = cluster.scope.namespace().cloned().context("--namespace: none")?;
    let domain = domain(&cluster, arguments).await?;
    let server = issuer_name(arguments, &domain);
    let pods = PodFlags {
        controller_selector: arguments.issuer_selector.clone(),
        ..arguments.controller.clone()
    };
    let pod = find(&cluster, &pods).await.context("the issuer")?;
    let roots =
        roots(&cluster, &arguments.controller.controller_namespace, arguments.roots.as_deref());
    let roots = roots.await?;
    let token = asked(&cluster, (&namespace, account), &arguments.audience).await?;
    let text: String = roots.iter().map(pem).collect();
    let end = (&*pod.namespace, pod.name.as_str(), arguments.issuer_port.get());
    let bridge = Bridge::open(&cluster, end, &server, roots).await?;
    let address = ControllerAddress::loopback(bridge.address())?;
    let anchors = Anchors::Trusted(Roots::Text(text));
    let name = domain.identity(&namespace, account);
    certify(address, &name, token.path().to_owned(), anchors).await
}

/// A token, in a file that goes when it is dropped.
async fn asked(
    cluster: &Cluster,
    (namespace, account): (&str, &str),
    audience: &str,
) -> anyhow::Result<NamedTempFile> {
    let answer = token::of(cluster, (namespace, account), audience, TOKEN_SECONDS).await;
    let token = answer.map_err(|error| {
        if is_not_found(&error) {
            anyhow!("there is no ServiceAccount {namespace}/{account}")
        } else if is_forbidden(&error) {
            anyhow!(
                "no token of ServiceAccount {namespace}/{account} is given: {}. It needs in namespace \
                 {namespace}: {{apiGroups: [\"\"], resources: [serviceaccounts/token], resourceNames: \
                 [{account}], verbs: [create]}}",
                words(&error)
            )
        } else {
            explain(&error, &cluster.asked, "take a token")
        }
    })?;
    let mut file = NamedTempFile::new().context("cannot make a file for the token")?;
    file.write_all(token.as_bytes()).context("cannot write the token")?;
    Ok(file)
}

/// What identities end in, as the controller is told.
async fn domain(cluster: &Cluster, arguments: &Arguments) -> anyhow::Result<Domain> {
    let namespace = Arc::clone(&arguments.controller.controller_namespace);
    if let Some(trust_domain) = arguments.trust_domain.as_deref() {
        return Ok(Domain { namespace, trust_domain: trust_domain.into() });
    }
    let found = find(cluster, &arguments.controller).await;
    let told = found.and_then(|found| told(&found));
    let config = told.context("the trust domain is not known; --trust-domain names it")?.controller;
    Ok(Domain { namespace, trust_domain: config.identity_domain })
}

fn issuer_name(arguments: &Arguments, domain: &Domain) -> String {
    let own = || domain.identity(&domain.namespace, SERVICE_ACCOUNT).to_string();
    arguments.issuer_name.clone().unwrap_or_else(own)
}

async fn certify(
    issuer: ControllerAddress,
    name: &str,
    token: PathBuf,
    roots: Anchors,
) -> anyhow::Result<Certified> {
    let config = CertifyConfig::new(issuer, name, token, roots);
    config.certify().await.map_err(|why| anyhow!("no certificate for {name}: {why}"))
}

impl Written {
    fn of(certified: &Certified, folder: &Path) -> Self {
        let [certificate, key, roots] = FILES.map(|name| folder.join(name).display().to_string());
        Self {
            identity: certified.identity.server_name().to_owned(),
            until: shown(certified.until),
            certificate,
            key,
            roots,
        }
    }

    fn table(&self) -> String {
        let Self { identity, until, certificate, key, roots } = self;
        format!("{identity}\n  until  {until}\n  files  {certificate} {key} {roots}\n")
    }
}
