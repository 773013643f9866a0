//! `portcullis authz`.

use super::block_on;
use crate::authz::select::{WorkloadTarget, pods};
use crate::authz::{AuthzReport, report};
use crate::cluster::controller::PodFlags;
use crate::cluster::undetermined;
use crate::inventory::{Inventory, InventoryFlags};
use crate::label_selector::label_selector;
use crate::output::{self, Paint, WideFormat};
use crate::workload_argument::named;
use anyhow::bail;
use clap::Args;
use policy_crds::{Kind, LabelSelector, nearest};
use std::collections::BTreeSet;
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
  portcullis authz -l app=web                        # the workloads with a label
  portcullis authz -A --context production           # every workload
  portcullis authz -f examples/emojivoto deploy/web  # manifests, without a cluster
  portcullis authz -o wide deploy/web                # identities in full
  portcullis authz -o json -A | jq -r '.workloads[].ports[].access[] | select(.granted) | .by'"
)]
pub(crate) struct AuthzArgs {
    /// The workload: pod/NAME, deploy/NAME (also statefulset, daemonset, replicaset, job, cronjob),
    /// rollout/NAME and the like, svc/NAME for the pods of a Service, externalworkload/NAME, or
    /// server/NAME, each also with its group (deployment.apps/NAME) and in two words (deploy NAME); a kind
    /// alone is every workload of it; by default every workload
    #[arg(value_name = "KIND/NAME", num_args = 1..=2)]
    workload: Vec<String>,

    /// Workloads with these labels alone, as kubectl writes it: `app=web,tier in (a, b),!old`
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = label_selector)]
    selector: Option<LabelSelector>,

    /// Include the proxy's own ports (4143, 4190 and 4191)
    #[arg(long)]
    all_ports: bool,

    #[command(flatten)]
    inventory: InventoryFlags,

    #[command(flatten)]
    controller: PodFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: WideFormat,
}

pub(crate) fn run(args: &AuthzArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let target = named(&args.workload)?.unwrap_or(WorkloadTarget::All);
        let inventory = Inventory::read(&args.inventory, &args.controller, "authz").await?;
        inventory.print_misplaced();
        let pods = pods(&inventory, &target).await;
        let pods = pods.inspect_err(|_| inventory.print_notes())?;
        let pods = pods.with_labels(&inventory, args.selector.as_ref());
        let report = report(&inventory, &target, &pods, args.all_ports);
        if report.workloads.is_empty() {
            inventory.print_notes();
            bail!("{}", no_workload_message(&inventory, &target, args.selector.is_some()));
        }
        let text = |report: &AuthzReport| report.text(Paint::stdout(), args.output);
        output::print(args.output.format(), &report, text)?;
        inventory.print_notes();
        Ok(ExitCode::SUCCESS)
    })
}

fn no_workload_message(inventory: &Inventory, target: &WorkloadTarget, labelled: bool) -> String {
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
        None if labelled => format!("no workload has these labels in {source}"),
        None => format!("there is no workload in {source}{}", near_namespace(inventory)),
    }
}

/// A suggestion of the namespace that was probably meant, if it has workloads.
fn near_namespace(inventory: &Inventory) -> String {
    let workloads = inventory.compiled.workloads.keys().map(|key| &*key.namespace);
    let known: Vec<&str> = workloads.collect::<BTreeSet<_>>().into_iter().collect();
    let near = inventory.scope.namespace().and_then(|meant| nearest(meant, &known));
    near.map(|near| format!("; is namespace {near} meant?")).unwrap_or_default()
}
