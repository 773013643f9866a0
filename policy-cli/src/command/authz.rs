//! `portcullis authz`.

use super::block_on;
use crate::authz::select::{WorkloadTarget, pods};
use crate::authz::{AuthzReport, report};
use crate::cluster::controller::PodFlags;
use crate::cluster::undetermined;
use crate::inventory::{Inventory, InventoryFlags};
use crate::output::{self, Format, Paint};
use anyhow::bail;
use clap::Args;
use policy_crds::Kind;
use std::process::ExitCode;

/// Show which clients may reach a workload, and which object grants it
///
/// For every port and route: the grants in order of evaluation, with the clients that each admits
/// (identities, networks, probes of the node) and the object that it comes from; and grants that do not
/// take effect, with the reason. Computed from the objects by the same code as in the controller, so
/// that default policies, namespace-wide policies, conflicts of Servers and undeclared ports are
/// included. Sidecars enforce the result; pods of a cluster without a sidecar are marked, because
/// nothing of this holds there.
///
/// Without --filename, reads the cluster of the current context; the first line names it. Resources
/// that the API server does not let you list are named, and whatever depends on them is shown as not
/// known.
///
/// Exit codes: 0 done, 1 nothing was found or something failed, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis authz deploy/web                        # in the context's cluster and namespace
  portcullis authz -n shop server/web                # the ports that a Server owns
  portcullis authz -A --context production           # every workload
  portcullis authz -f examples/emojivoto deploy/web  # manifests, without a cluster
  portcullis authz -o json -A | jq -r '.workloads[].ports[].access[] | select(.granted) | .by'"
)]
pub(crate) struct AuthzArgs {
    /// The workload: pod/NAME, deploy/NAME (also statefulset, daemonset, replicaset, job, cronjob),
    /// rollout/NAME and the like, svc/NAME for the pods of a Service, externalworkload/NAME, or
    /// server/NAME, each also with its group (deployment.apps/NAME); by default every workload
    #[arg(value_name = "KIND/NAME")]
    workload: Option<WorkloadTarget>,

    /// Include the proxy's own ports (4143, 4190 and 4191)
    #[arg(long)]
    all_ports: bool,

    #[command(flatten)]
    inventory: InventoryFlags,

    #[command(flatten)]
    controller: PodFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &AuthzArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let inventory = Inventory::read(&args.inventory, &args.controller, "authz").await?;
        inventory.print_notes();
        inventory.print_misplaced();
        let target = args.workload.clone().unwrap_or(WorkloadTarget::All);
        let pods = pods(&inventory, &target).await?;
        let report = report(&inventory, &target, &pods, args.all_ports);
        if report.workloads.is_empty() {
            bail!("{}", no_workload_message(&inventory, &target));
        }
        output::print(args.output, &report, |report: &AuthzReport| report.text(Paint::stdout()))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn no_workload_message(inventory: &Inventory, target: &WorkloadTarget) -> String {
    let Inventory { source, scope, permissions, .. } = inventory;
    let mut deciding = vec![Kind::Pod, Kind::ExternalWorkload];
    deciding.extend(target.server().map(|_| Kind::Server));
    let missing = undetermined::in_scope(&deciding, scope, permissions);
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        return match target.server() {
            Some(name) => format!(
                "whether a Server {name} owns a port of any workload in {source} is not known, \
                 because {missing} may not be listed"
            ),
            None => format!(
                "whether there is any workload in {source} is not known, because {missing} may not \
                 be listed"
            ),
        };
    }
    match target.server() {
        Some(name) => format!(
            "no port of any workload is owned by a Server {name} in {source}; `portcullis check` \
             says why"
        ),
        None => format!("there is no workload in {source}"),
    }
}
