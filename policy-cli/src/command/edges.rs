//! `portcullis edges`.

use super::block_on;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::edges::origin::EdgesTarget;
use crate::edges::read::read;
use crate::output::{self, Format, Paint};
use clap::Args;
use policy_controller::args::ClusterArgs;
use std::process::ExitCode;
use std::sync::Arc;

/// Show whom workloads talk to, with which identity, in mutual TLS or why not
///
/// Asks the sidecars of a workload's pods, or without one of every pod of the namespace (with -A: of the
/// cluster), for the connections that the pods opened: to which Service and port, to pods of which
/// owner, in mesh TLS to which identity or in plaintext for which reason, how many and how many bytes;
/// and which were refused or failed, and why. The pods of a workload count together. Addresses are not
/// counted: all outside of the cluster are one row, and so are all that nobody is known to hold.
///
/// A sidecar forgets what has not been used for ten minutes, and begins anew with its pod. Sidecars
/// without the outbound half see nothing of what their pods send; those pods are named, and so are those
/// whose sidecar does not answer. The rest is shown without them.
///
/// The metrics are read through a port-forward to port 4191 of each pod, for which you need the rights
/// to `list` pods, and to `create` and `get` pods/portforward. 16 pods are asked at the same time, each
/// for at most 20 seconds; where it takes long, standard error says how many were asked.
///
/// Exit codes: 0 done, also if some pods are not known, 1 there is no such workload, no pod at all, or
/// none of the sidecars could be asked, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis edges                                   # every workload of the context's namespace
  portcullis edges -n shop deploy/cart
  portcullis edges -A                                # every namespace
  portcullis edges -A -o json | jq -r '.pods[] | select(.problem) | \"\\(.namespace)/\\(.name)\"'
  portcullis edges -n shop deploy/cart -o json | jq -r '.edges[] | select(.tls | not) | .reason'"
)]
pub(crate) struct EdgesArgs {
    /// The workload: pod/NAME or deploy/NAME (also statefulset, daemonset, replicaset, job, cronjob);
    /// by default every workload
    #[arg(value_name = "KIND/NAME", conflicts_with = "all_namespaces")]
    workload: Option<EdgesTarget>,

    #[command(flatten)]
    api: ClusterArgs,

    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    /// Every namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &EdgesArgs) -> anyhow::Result<ExitCode> {
    let EdgesArgs { workload, api, namespace, all_namespaces, output } = args;
    let (namespace, all_namespaces) = (namespace.clone(), *all_namespaces);
    let namespaces = NamespaceFlags { namespace, all_namespaces };
    let report = block_on(async {
        let cluster = Cluster::connect(&ClusterFlags { api: api.clone(), namespaces }).await?;
        read(&cluster, workload.as_ref()).await
    })?;
    output::print(*output, &report, |report| report.text(Paint::stdout()))?;
    Ok(if report.is_known() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
