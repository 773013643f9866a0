//! `portcullis routes`.

use super::block_on;
use crate::cluster::controller::PodFlags;
use crate::inventory::{Inventory, InventoryFlags};
use crate::output::{self, Paint};
use crate::routes::{host, mermaid, report};
use clap::Args;
use policy_core::HostPattern;
use std::process::ExitCode;

/// Show who owns a host, to whom its paths are delegated, which Servers answer, and who may call
///
/// With HOST: the claims on the host, each with its state and the time from which it counts, and the
/// tree of each InboundRoute that holds it. A rule shows the Servers that answer with the grants that
/// admit clients, the objects that it is delegated to, or the reason for which it is denied, with what
/// is missing as a snippet to be applied. Computed from the objects by the same code as in the
/// controller.
///
/// Without HOST: a table of all hosts that InboundRoutes of the namespace claim. Hosts are compared in
/// canonical form: `WWW.Example.com.` is `www.example.com`. A host that only a wildcard covers shows
/// the tree of the wildcard.
///
/// Without --filename, reads the cluster of the current context; the first line names it. Resources
/// that the API server does not let you list are named, because hosts and delegations depend on them.
///
/// Exit codes: 0 done, 1 nothing claims the host or something failed, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis routes -A                                    # every host of the context's cluster
  portcullis routes www.example.com                       # the tree of a host, of every namespace
  portcullis routes -f deploy/ www.example.com            # manifests, without a cluster
  portcullis routes www.example.com -o mermaid > tree.mmd # a flowchart
  portcullis routes -A -o json | jq -r '.hosts[] | select(.denied > 0) | .host'"
)]
pub(crate) struct RoutesArgs {
    /// The host, or a wildcard such as `*.example.com`; by default a table of all hosts
    #[arg(value_name = "HOST", value_parser = host::parse)]
    host: Option<HostPattern>,

    #[command(flatten)]
    inventory: InventoryFlags,

    #[command(flatten)]
    controller: PodFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: RoutesFormat,
}

/// Output format of `portcullis routes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum RoutesFormat {
    /// Trees and tables for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// A flowchart of Mermaid.
    Mermaid,
}

pub(crate) fn run(args: &RoutesArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let inventory = Inventory::read(&args.inventory, &args.controller, "routes").await?;
        let report = report(&inventory, args.host.as_ref());
        let report = report.inspect_err(|_| inventory.print_notes())?;
        match args.output {
            RoutesFormat::Text => output::text(&report.text(Paint::stdout()))?,
            RoutesFormat::Json => output::print(output::Format::Json, &report, |_| String::new())?,
            RoutesFormat::Mermaid => output::text(&mermaid::flowchart(&report))?,
        }
        inventory.print_notes();
        Ok(ExitCode::SUCCESS)
    })
}
