//! `portcullis export`.

use super::import::print::{ManifestFormat, print_exported};
use crate::cluster::Scope;
use crate::cluster::settings::SettingsFlags;
use crate::inventory::Inventory;
use clap::{Args, Subcommand};
use policy_core::{ServerPolicy, Undeclared, WorkloadKey};
use policy_engine::{Compiled, CompiledWorkload};
use policy_import::{ExportedAccount, export_smi};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write policies in the format of another system
///
/// Reads manifests, computes the policy of each port by the same code as in the controller, and writes
/// objects of the other system to standard output. A table on standard error says of each port what was
/// translated exactly, what narrower, and what not at all. Nothing becomes wider.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis export smi policies.yaml workloads.yaml > smi.yaml"
)]
pub(crate) struct ExportArgs {
    #[command(subcommand)]
    target: ExportTarget,
}

#[derive(Debug, Subcommand)]
enum ExportTarget {
    Smi(SmiArgs),
}

/// Write TrafficTargets of the Service Mesh Interface
///
/// Each declared port of the pods of a ServiceAccount becomes TrafficTargets (v1alpha3) with the
/// ServiceAccounts that may use it, a TCPRoute with the port, and an HTTPRouteGroup (v1alpha4) where
/// requests are told apart. SMI denies everything else.
///
/// Left out, because SMI cannot say it: grants to networks, to everybody, to any identity and to whole
/// namespaces, conditions on hosts, queries and segments, limits, filters, TLS of the application, and
/// what a route grants while another one may deny a part of it.
///
/// The files need every workload and every policy about them: a route or Server that is missing may be
/// what denies. All pods of a ServiceAccount are exported as one.
///
/// Exit codes: 0 done, 1 something cannot be read (nothing is written then), 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis export smi policies.yaml workloads.yaml > smi.yaml
  portcullis export smi -o json deploy/ | jq -r '.items[].kind'"
)]
struct SmiArgs {
    /// Policies and workloads in YAML or JSON, or directories of them; `-` is standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    settings: SettingsFlags,

    /// Output format: YAML documents, or a List in JSON
    #[arg(short, long, value_enum, default_value_t)]
    output: ManifestFormat,
}

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let ExportTarget::Smi(SmiArgs { paths, settings, output }) = &args.target;
    let inventory = Inventory::of_paths(paths, Scope::All, settings, "export smi -")?;
    let config = &inventory.settings.config;
    let account_of = |identity: &str| {
        let (name, namespace) = config.service_account_of(identity)?;
        Some((namespace.to_owned(), name.to_owned()))
    };
    print_exported(&export_smi(&accounts(&inventory.compiled), &account_of), *output)
}

/// A workload with its name.
type PodOfAccount<'a> = (&'a WorkloadKey, &'a CompiledWorkload);

/// The ServiceAccounts of the workloads, each with the policies of all its pods.
fn accounts(compiled: &Compiled) -> BTreeMap<(String, String), ExportedAccount> {
    let mut pods: BTreeMap<(String, String), Vec<PodOfAccount<'_>>> = BTreeMap::new();
    for (key, workload) in &compiled.workloads {
        let account = (key.namespace.to_string(), workload.state.service_account.to_string());
        pods.entry(account).or_default().push((key, workload));
    }
    pods.into_iter().map(|(account, pods)| (account, exported(compiled, &pods))).collect()
}

fn exported(compiled: &Compiled, pods: &[PodOfAccount<'_>]) -> ExportedAccount {
    let declared = pods.iter().flat_map(|(_, workload)| workload.policy.ports.keys().copied());
    let declared: BTreeSet<NonZeroU16> = declared.collect();
    // A pod that does not declare a port of another has a policy on it as well.
    let policies = |port: NonZeroU16| {
        let of_pods = pods.iter().filter_map(|(key, _)| compiled.port(key, port));
        (port.get(), of_pods.collect())
    };
    let grants_elsewhere = pods.iter().any(|(_, workload)| {
        let undeclared = match &workload.policy.undeclared {
            Undeclared::Policy(policy) => grants(policy),
            Undeclared::Deny => false,
        };
        undeclared || workload.annotated.iter().any(|(_, policy)| grants(policy))
    });
    ExportedAccount { ports: declared.into_iter().map(policies).collect(), grants_elsewhere }
}

/// True if a policy may admit somebody.
fn grants(policy: &ServerPolicy) -> bool {
    policy.deny.is_none() && !policy.authorizations.is_empty()
}
