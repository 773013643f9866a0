//! `portcullis edges`.

use super::block_on;
use crate::cluster::{Cluster, LiveClusterFlags};
use crate::edges::origin::EdgesTarget;
use crate::edges::read::read;
use crate::label_selector::label_selector;
use crate::output::{self, Paint, WideFormat};
use clap::Args;
use policy_crds::LabelSelector;
use std::process::ExitCode;

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
    /// The workload: pod/NAME, deploy/NAME (also statefulset, daemonset, replicaset, job, cronjob),
    /// rollout/NAME and the like, or svc/NAME for the pods of a Service, each also with its group
    /// (deployment.apps/NAME) and in two words (deploy NAME); a kind alone is every one of it; by default
    /// every workload
    #[arg(value_name = "KIND/NAME", num_args = 1..=2)]
    workload: Vec<String>,

    /// Pods with these labels alone, as kubectl writes it: `app=web,tier in (a, b),!old`
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = label_selector)]
    selector: Option<LabelSelector>,

    #[command(flatten)]
    cluster: LiveClusterFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: WideFormat,
}

pub(crate) fn run(args: &EdgesArgs) -> anyhow::Result<ExitCode> {
    let EdgesArgs { workload, selector, cluster, output } = args;
    let flags = cluster.flags();
    let target = EdgesTarget::of_words(workload, flags.namespaces.all_namespaces)?;
    let report = block_on(async {
        let cluster = Cluster::connect(&flags).await?;
        read(&cluster, target.as_ref(), selector.as_ref()).await
    })?;
    output::print(output.format(), &report, |report| report.text(Paint::stdout(), *output))?;
    Ok(if report.is_known() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
