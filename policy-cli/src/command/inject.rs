//! `portcullis inject`.

use crate::inject::{ManifestInput, Task, manifests};
use crate::inputs::{KubectlInputFlags, inputs};
use crate::output::{self, Paint};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use policy_engine::ControllerConfig;
use policy_engine::source::directory::{Manifests, names, scan};
use policy_webhooks::injector::{
    Bypass, ControlPlane, Defaults, OutboundSettings, Preset, Settings, Trust, trust_from_pem,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Add the sidecar to manifests, as the injector does in a cluster
///
/// Reads YAML or JSON from files and folders, or from standard input with `-`, and writes YAML to
/// standard output: every Pod, Deployment, DaemonSet, StatefulSet, ReplicaSet, ReplicationController,
/// Job, CronJob, Rollout, DeploymentConfig and List of them with a sidecar, everything else unchanged,
/// without comments. Pods that have a sidecar of this version stay as they are; one of another version
/// is brought up to date. Other kinds with a pod template get the annotation that asks the injector for
/// one. Manifests with `portcullis.dev/inject: disabled`, or whose Namespace in the input has it, get
/// none. Standard error lists what was injected, what was not and why, and fields that no schema has.
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
  portcullis inject --uninject injected.yaml > plain.yaml
  portcullis inject --set proxy-log-level=debug --set proxy-cpu-limit=1 deploy.yaml"
)]
pub(crate) struct InjectArgs {
    /// Manifests: files, or folders with all manifests in them; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["filename", "kustomize"])]
    files: Vec<PathBuf>,

    /// The same, as kubectl takes it; may be repeated
    #[arg(short = 'f', long, value_name = "FILE")]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    kubectl: KubectlInputFlags,

    /// Take the sidecar out instead: of manifests that this command injected, what they were before
    #[arg(long, conflicts_with_all = ["set", "kind", "linkerd_inject"])]
    uninject: bool,

    /// Write the sidecar into the pod template of this kind too, `Kind` or `kind.group`; may be repeated.
    /// Others than Kubernetes' own, Rollout, DeploymentConfig and OpenKruise's are left to the injector,
    /// because what handles them may refuse or drop a sidecar
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,

    /// `linkerd.io/inject: enabled` asks for this sidecar, too. Without the flag a pod that has no other
    /// annotation about injection is left to Linkerd's injector
    #[arg(long)]
    linkerd_inject: bool,

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
    let paths = [&args.files[..], &args.filename[..]].concat();
    let reader = "inject - | kubectl apply -f -";
    args.kubectl.refuse_kustomization(reader)?;
    let inputs = inputs(&paths, reader)?;
    let sources: Vec<Vec<ManifestInput>> =
        inputs.iter().map(read).collect::<anyhow::Result<_>>()?;
    let sources: Vec<ManifestInput> = sources.into_iter().flatten().collect();
    let task = Task {
        settings,
        kinds: args.kind.clone(),
        uninject: args.uninject,
        reads_linkerd: args.linkerd_inject,
    };
    let injected = manifests(&sources, &task);
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
        bail!("nothing was read from {}", names(&inputs));
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

/// Reads the files of an input. One that cannot be read would be missing from what is applied, so that it
/// is an error.
fn read(input: &Manifests) -> anyhow::Result<Vec<ManifestInput>> {
    let limit = ControllerConfig::default().limits.file_bytes;
    let scan = scan(std::slice::from_ref(input), limit);
    let scan = scan.with_context(|| format!("cannot read `{input}`"))?;
    if let Some(problem) = scan.problems().next() {
        bail!("{problem}");
    }
    for note in scan.notes() {
        eprintln!("{} {}: {}", Paint::stderr().notice("note:"), note.file, note.message);
    }
    let file = |(path, content): (&Path, Result<&[u8], &str>)| match content {
        Ok(bytes) => Ok(ManifestInput { name: path.display().to_string(), bytes: bytes.to_vec() }),
        Err(reason) => bail!("{}: {reason}", path.display()),
    };
    scan.files().map(file).collect()
}
