//! `portcullis inject`.

use crate::inject::{ManifestInput, manifests};
use crate::output::{self, Paint};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use policy_engine::ControllerConfig;
use policy_engine::source::directory::scan;
use policy_webhooks::injector::{
    Bypass, ControlPlane, Defaults, OutboundSettings, Preset, Settings, Trust, trust_from_pem,
};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Add the sidecar to manifests, as the injector does in a cluster
///
/// Reads YAML or JSON from files and folders, or from standard input with `-`, and writes YAML to standard output:
/// every Pod, Deployment, DaemonSet, StatefulSet, ReplicaSet, ReplicationController, Job, CronJob and
/// List of them with a sidecar, everything else unchanged, without comments. Pods that have a sidecar
/// stay as they are. Manifests with `portcullis.dev/inject: disabled`, or whose Namespace in the input
/// has it, get none. Standard error lists what was injected, what was not and why, and fields that no
/// schema has.
///
/// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis inject examples/shop/workloads.yaml | kubectl apply -f -
  kubectl get deploy web -o yaml | portcullis inject - | kubectl apply -f -
  portcullis inject --set proxy-log-level=debug --set proxy-cpu-limit=1 deploy.yaml"
)]
pub(crate) struct InjectArgs {
    /// Manifests: files, or folders with all manifests in them; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,

    /// Default of a setting that manifests may annotate: the annotation's name after `portcullis.dev/`,
    /// and its value; may be repeated
    #[arg(long, value_name = "SETTING=VALUE")]
    set: Vec<Preset>,

    /// Kind of container that runs the sidecar
    #[arg(long, value_enum, default_value_t)]
    sidecar: SidecarKind,

    /// Namespace of the control plane
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis")]
    control_plane_namespace: String,

    /// Trust domain that ends every mesh identity
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    identity_domain: String,

    /// PEM file with the initial trust roots of the sidecars; later roots are accepted if a trusted CA
    /// vouches for them. Without it, sidecars trust the ConfigMap of their namespace, and everyone who
    /// may write it
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,

    /// DNS domain of the cluster
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
}

/// Kind of container that runs the sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SidecarKind {
    /// An init container that keeps running, for Kubernetes 1.29 and newer
    #[default]
    Native,
    /// An ordinary container
    Container,
}

pub(crate) fn run(args: &InjectArgs) -> anyhow::Result<ExitCode> {
    let mut defaults = Defaults::default();
    args.set.iter().cloned().for_each(|preset| defaults.set(preset));
    let InjectArgs { control_plane_namespace, identity_domain, cluster_domain, .. } = args;
    let settings = Settings {
        defaults,
        control_plane: ControlPlane::new(control_plane_namespace, identity_domain, cluster_domain),
        trust: trust(args.roots.as_deref())?,
        bypass: Bypass::Warn,
        native: args.sidecar == SidecarKind::Native,
        outbound: OutboundSettings::default(),
    };
    let sources: Vec<Vec<ManifestInput>> =
        args.files.iter().map(|file| read(file)).collect::<anyhow::Result<_>>()?;
    let sources: Vec<ManifestInput> = sources.into_iter().flatten().collect();
    let injected = manifests(&sources, &settings);
    let (paint, mut err) = (Paint::stderr(), std::io::stderr());
    for warning in &injected.warnings {
        // As for notes.
        let _ = writeln!(err, "{}", paint.notice(warning));
    }
    for note in &injected.notes {
        // Nothing more can be reported if standard error is closed.
        let _ = writeln!(err, "{}", paint.dim(note));
    }
    if !injected.errors.is_empty() {
        bail!("nothing was written:\n{}", injected.errors.join("\n"));
    }
    if injected.yaml.is_empty() {
        // A pipe that broke must not look like work that is done.
        bail!("nothing was read from {}", args.files.join(", "));
    }
    output::text(&injected.yaml)?;
    Ok(ExitCode::SUCCESS)
}

fn trust(roots: Option<&Path>) -> anyhow::Result<Trust> {
    let Some(file) = roots else { return Ok(Trust::ConfigMap) };
    let place = file.display();
    let text = std::fs::read(file).with_context(|| format!("cannot read `{place}`"))?;
    trust_from_pem(&text).map_err(|error| anyhow::anyhow!("--roots: `{place}`: {error}"))
}

/// Reads standard input, a file, or every manifest of a folder.
fn read(file: &str) -> anyhow::Result<Vec<ManifestInput>> {
    if file.starts_with("https://") || file.starts_with("http://") {
        bail!(
            "`{file}` is an address: curl -fsSL {file} | portcullis inject - | kubectl apply -f -"
        );
    }
    if Path::new(file).is_dir() {
        return folder(file);
    }
    let mut bytes = Vec::new();
    if file == "-" {
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        bytes = std::fs::read(file).with_context(|| format!("cannot read `{file}`"))?;
    }
    Ok(vec![ManifestInput { name: file.to_owned(), bytes }])
}

/// Reads the files of a folder that `check` reads. One that cannot be read would be missing from what
/// is applied, so that it is an error.
fn folder(folder: &str) -> anyhow::Result<Vec<ManifestInput>> {
    let limit = ControllerConfig::default().limits.file_bytes;
    let scan = scan(Path::new(folder), limit).with_context(|| format!("cannot read `{folder}`"))?;
    if let Some(problem) = scan.problems().next() {
        bail!("{problem}");
    }
    let input = |(path, content): (&Path, Result<&[u8], &str>)| match content {
        Ok(bytes) => Ok(ManifestInput { name: path.display().to_string(), bytes: bytes.to_vec() }),
        Err(reason) => bail!("{}: {reason}", path.display()),
    };
    scan.files().map(input).collect()
}
