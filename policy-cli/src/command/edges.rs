//! `portcullis edges`.

use super::block_on;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::edges::read::{self, EdgesTarget};
use crate::output::{self, Format, Paint};
use clap::Args;
use policy_controller::args::ClusterArgs;
use std::process::ExitCode;
use std::sync::Arc;

/// Show whom a workload talks to, with which identity, in mutual TLS or why not
///
/// Asks the sidecars of the workload's pods for the connections that the pods opened: to which Service
/// and port, to pods of which owner, in mesh TLS to which identity or in plaintext for which reason, how
/// many and how many bytes; and which were refused or failed, and why. Addresses are not counted: all
/// outside of the cluster are one row, and so are all that nobody is known to hold.
///
/// A sidecar forgets what has not been used for ten minutes, and begins anew with its pod. Sidecars
/// without the outbound half see nothing of what their pods send; those pods are named.
///
/// The metrics are read through a port-forward to port 4191 of each pod, for which you need the rights
/// to `list` pods, and to `create` and `get` pods/portforward.
///
/// Exit codes: 0 done, 1 there is no such workload or none of its sidecars could be asked, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis edges deploy/cart                       # in the context's cluster and namespace
  portcullis edges -n shop pod/cart-7d9c
  portcullis edges -n shop deploy/cart -o json | jq -r '.edges[] | select(.tls | not) | .reason'"
)]
pub(crate) struct EdgesArgs {
    /// The workload: pod/NAME or deploy/NAME (also statefulset, daemonset, replicaset, job, cronjob)
    #[arg(value_name = "KIND/NAME")]
    workload: EdgesTarget,

    #[command(flatten)]
    api: ClusterArgs,

    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &EdgesArgs) -> anyhow::Result<ExitCode> {
    let EdgesArgs { workload, api, namespace, output } = args;
    let namespaces = NamespaceFlags { namespace: namespace.clone(), all_namespaces: false };
    let report = block_on(async {
        let cluster = Cluster::connect(&ClusterFlags { api: api.clone(), namespaces }).await?;
        read::read(&cluster, workload).await
    })?;
    output::print(*output, &report, |report| report.text(Paint::stdout()))?;
    Ok(if report.is_known() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
