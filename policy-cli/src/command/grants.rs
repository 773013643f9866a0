//! `portcullis grants`.

use super::block_on;
use crate::cluster::controller::PodFlags;
use crate::grants::{GrantsReport, report};
use crate::inventory::{Inventory, InventoryFlags};
use crate::output::{self, Format, Paint};
use clap::Args;
use std::process::ExitCode;

/// Show what each ReferenceGrant permits, which references use it, and which have none
///
/// A reference into another namespace is followed only while a ReferenceGrant of that namespace
/// permits it. Lists the ReferenceGrants of the namespace, each entry of `from` with each of `to`, the
/// references that use it, and entries that nothing uses. Entries that other controllers follow (a
/// Gateway's, for example) are shown as not known.
///
/// Then lists the references from or into the namespace that no ReferenceGrant permits, and prints the
/// grants that would permit them, to be applied by the owner of the other namespace.
///
/// Without --filename, reads the cluster of the current context; the first line names it. Resources
/// that the API server does not let you list are named, and whatever depends on them is shown as not
/// known.
///
/// Exit codes: 0 done, 1 something failed, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis grants -n infra                # in the context's cluster
  portcullis grants -A --context production # every namespace
  portcullis grants -f deploy/              # manifests, without a cluster
  portcullis grants -A -o json | jq -c '.grants[] | select(all(.entries[]; .usage == \"unused\"))'
  portcullis grants -A -o json | jq -c '.withoutGrant[] | select(.followed == \"refused\") | .grant'"
)]
pub(crate) struct GrantsArgs {
    #[command(flatten)]
    inventory: InventoryFlags,

    #[command(flatten)]
    controller: PodFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &GrantsArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let inventory = Inventory::read(&args.inventory, &args.controller, "grants").await?;
        let report = report(&inventory);
        output::print(args.output, &report, |report: &GrantsReport| report.text(Paint::stdout()))?;
        inventory.print_notes();
        Ok(ExitCode::SUCCESS)
    })
}
