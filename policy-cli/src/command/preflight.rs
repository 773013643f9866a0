//! `portcullis preflight`.

use super::block_on;
use crate::cluster::api_flags::ApiFlags;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::diagnostics::exit::{print_report, report_unreachable};
use crate::diagnostics::release::Release;
use crate::diagnostics::report::DiagnosticsReport;
use crate::output::Format;
use crate::preflight::read::findings;
use clap::Args;
use ipnet::IpNet;
use policy_core::address::parse_block;
use policy_engine::ControllerConfig;
use std::process::ExitCode;
use std::sync::Arc;

/// Check whether a cluster is ready for an installation
///
/// Checks the version of the API server and its clock, your permissions to install what the chart
/// renders, Gateway API, Linkerd and outbound policy of its kinds, leftovers of an earlier installation,
/// load balancing in the kernel, and the NetworkPolicies and the Pod Security level of namespaces that
/// request sidecars. Nothing is changed. Each line that is not ok has a hint for mending it;
/// docs/health.md explains all of them.
///
/// Exit codes: 0 ready, 1 something fails (with --deny-warnings: or warns), 2 wrong use, 3 the cluster
/// cannot be reached.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis preflight                       # the context's cluster, for namespace portcullis
  portcullis preflight shop bank             # and whether these may have sidecars
  portcullis preflight --release guard --controller-namespace mesh --context production
  portcullis preflight -o json | jq '.findings[] | select(.outcome == \"fail\") | .mend'"
)]
pub(crate) struct PreflightArgs {
    /// Namespaces that will have sidecars, in addition to those that request them already
    #[arg(value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespaces: Vec<Arc<str>>,

    /// Networks whose addresses sidecars will look up, separated by commas: those of policy.clusterNetworks,
    /// or of outbound.networks [default: all private ones, as the chart's]
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = parse_block)]
    cluster_networks: Vec<IpNet>,

    /// Warnings are failures
    #[arg(long)]
    deny_warnings: bool,

    #[command(flatten)]
    api: ApiFlags,

    /// Namespace for the control plane
    #[arg(long, value_name = "NAMESPACE", default_value = "portcullis", value_parser = crate::cluster::namespace)]
    controller_namespace: Arc<str>,

    /// Name of the Helm release
    #[arg(long, value_name = "NAME", default_value = "portcullis")]
    release: String,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &PreflightArgs) -> anyhow::Result<ExitCode> {
    match block_on(run_diagnostics(args)) {
        Ok(report) => print_report(&report, args.output),
        Err(error) => Ok(report_unreachable(&error)),
    }
}

async fn run_diagnostics(args: &PreflightArgs) -> anyhow::Result<DiagnosticsReport> {
    let namespaces = NamespaceFlags { namespace: None, all_namespaces: true };
    let flags = ClusterFlags { api: args.api.clone(), namespaces };
    let cluster = Cluster::connect(&flags).await?;
    let named: Vec<String> = args.namespaces.iter().map(ToString::to_string).collect();
    let PreflightArgs { release, controller_namespace, .. } = args;
    let release = Release { name: release, namespace: controller_namespace };
    let networks = match &*args.cluster_networks {
        [] => ControllerConfig::default().cluster_networks,
        named => named.to_vec(),
    };
    let findings = findings(&cluster, release, &named, &networks).await?;
    Ok(DiagnosticsReport::new(cluster.source, findings, args.deny_warnings, "ready to install"))
}
