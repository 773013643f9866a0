//! `portcullis version`.

use super::block_on;
use crate::cluster::api_flags::ApiFlags;
use crate::cluster::controller::ControlPlaneFlags;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::output::{self, Format, Paint};
use crate::version::read::read;
use crate::version::report::VersionReport;
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;

/// Show the running versions of this program, of the control plane and of every sidecar
///
/// Versions are those of the images that pods run, or those in the pods' labels and annotations if an
/// image has no tag. Sidecars are counted by version. One that is older than the controller is upgraded
/// when its pod is recreated; none should be newer, because the controller is upgraded first.
///
/// Exit codes: 0 done, 1 the cluster cannot be read, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis version                    # the context's cluster, every namespace
  portcullis version --client           # no cluster
  portcullis version -n shop --context production
  portcullis version -o json | jq '.running[] | select(.skew == \"older\") | .some'"
)]
pub(crate) struct VersionArgs {
    /// Show only the version of this program, without a cluster
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "namespace", "user"])]
    client: bool,

    #[command(flatten)]
    api: ApiFlags,

    /// Count only the sidecars of this namespace [default: of every namespace]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    #[command(flatten)]
    control_plane: ControlPlaneFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &VersionArgs) -> anyhow::Result<ExitCode> {
    let report = if args.client { VersionReport::of_client() } else { block_on(fetch(args))? };
    output::print(args.output, &report, |report| report.text(Paint::stdout()))?;
    Ok(ExitCode::SUCCESS)
}

async fn fetch(args: &VersionArgs) -> anyhow::Result<VersionReport> {
    let VersionArgs { api, namespace, control_plane, .. } = args;
    let namespaces =
        NamespaceFlags { namespace: namespace.clone(), all_namespaces: namespace.is_none() };
    let cluster = Cluster::connect(&ClusterFlags { api: api.clone(), namespaces }).await?;
    read(&cluster, control_plane).await
}
