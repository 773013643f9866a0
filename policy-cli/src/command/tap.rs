//! `portcullis tap`.

use super::block_on;
use crate::admin_port::{AdminQuery, SidecarAdmin, running};
use crate::cluster::{Cluster, LiveClusterFlags};
use crate::edges::origin::EdgesTarget;
use crate::label_selector::label_selector;
use crate::output::{self, Format};
use crate::tap::line::{HEADER, left_out, row, visible};
use crate::tap::merge::Merged;
use clap::{ArgGroup, Args};
use policy_crds::LabelSelector;
use serde_json::Value;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU64};
use std::process::ExitCode;

/// Show the decisions of sidecars as they are made
///
/// Follows what the sidecars of a workload's pods, or without one of every pod of the namespace (with
/// -A: of the cluster), decide on connections and requests: permitted, audited or denied, by which
/// route and authorization, for which reason. Where a sidecar decides on more than --rate a second,
/// standard error says how many were left out. Queries and headers are not shown.
///
/// The filters may be given several times: of each kind, one has to hold.
///
/// Each pod is followed through a port-forward to its port 4191, for which you need the rights to `list`
/// pods, and to `create` and `get` pods/portforward; 64 pods at most. A sidecar outside of a cluster is
/// followed on its own machine, or through a forward to it, by --admin-address.
///
/// Exit codes: 0 done, 1 there is no such workload, or none of the sidecars could be followed, 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    group = ArgGroup::new("cluster").args(["workload", "selector", "namespace", "all_namespaces"]).multiple(true),
    after_help = "\
Examples:
  portcullis tap -n shop deploy/web
  portcullis tap -n shop deploy/web --decision deny --client 10.244.0.0/16
  portcullis tap -n shop --reason unauthorized -o json | jq -r .client.identity
  portcullis tap --admin-address 127.0.0.1:4191 --limit 10"
)]
pub(crate) struct TapArgs {
    /// The workload: pod/NAME, deploy/NAME (also statefulset, daemonset, replicaset, job, cronjob),
    /// rollout/NAME and the like, or svc/NAME for the pods of a Service, also in two words (deploy NAME); a
    /// kind alone is every one of it; by default every workload
    #[arg(value_name = "KIND/NAME", num_args = 1..=2)]
    workload: Vec<String>,

    /// Pods with these labels alone, as kubectl writes it: `app=web,tier in (a, b),!old`
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = label_selector)]
    selector: Option<LabelSelector>,

    /// Decisions on this client: an address, a network, an identity, `*.SUFFIX`, or `*` for any identity
    #[arg(long, value_name = "CLIENT")]
    client: Vec<String>,

    /// Denials for this reason, such as `unauthorized`
    #[arg(long, value_name = "REASON")]
    reason: Vec<String>,

    /// Decisions of this route: `KIND NAMESPACE/NAME`, `NAMESPACE/NAME`, NAME, or the pattern of its path
    #[arg(long, value_name = "ROUTE")]
    route: Vec<String>,

    /// Decisions of this kind: allow, audit or deny
    #[arg(long, value_name = "DECISION", value_parser = ["allow", "audit", "deny"])]
    decision: Vec<String>,

    /// Decisions on this port
    #[arg(long, value_name = "PORT")]
    port: Vec<NonZeroU16>,

    /// Decisions per second of each sidecar, at most
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// End after this many decisions
    #[arg(long, value_name = "COUNT")]
    limit: Option<NonZeroU64>,

    /// The admin port of one sidecar, instead of pods of a cluster
    #[arg(long, value_name = "ADDR", conflicts_with = "cluster")]
    admin_address: Option<SocketAddr>,

    #[command(flatten)]
    cluster: LiveClusterFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &TapArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let sources = sources(args).await?;
        let merged = Merged::open(sources, &query(args));
        follow(merged, args.output, args.limit).await
    })
}

fn query(args: &TapArgs) -> AdminQuery {
    let texts = [
        ("client", &args.client),
        ("reason", &args.reason),
        ("route", &args.route),
        ("decision", &args.decision),
    ];
    let texts =
        texts.into_iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one.clone())));
    let ports = args.port.iter().map(|port| ("port", port.to_string()));
    let rate = [("rate", args.rate.to_string())];
    AdminQuery { path: "/tap", parameters: texts.chain(ports).chain(rate).collect() }
}

/// The sidecars to follow. Those that cannot be are named on standard error.
async fn sources(args: &TapArgs) -> anyhow::Result<Vec<SidecarAdmin>> {
    if let Some(address) = args.admin_address {
        return Ok(vec![SidecarAdmin::Address(address)]);
    }
    let flags = args.cluster.flags();
    let target = EdgesTarget::of_words(&args.workload, flags.namespaces.all_namespaces)?;
    let cluster = Cluster::connect(&flags).await?;
    running(&cluster, target.as_ref(), args.selector.as_ref()).await
}

/// The line about a sidecar whose stream ended. Its words may be those of the sidecar.
fn problem(source: &str, error: &anyhow::Error) -> String {
    visible(&format!("{source}: {error:#}"))
}

/// Prints what the sidecars send, until all streams have ended or `limit` decisions are printed.
async fn follow(
    mut merged: Merged,
    format: Format,
    limit: Option<NonZeroU64>,
) -> anyhow::Result<ExitCode> {
    let (mut printed, mut began) = (0_u64, false);
    while let Some(event) = merged.next().await {
        let mut line = match event.line {
            Ok(line) => line,
            Err(error) => {
                eprintln!("{}", problem(&event.source, &error));
                continue;
            }
        };
        if !began && format == Format::Table {
            output::text(&format!("{HEADER}\n"))?;
        }
        began = true;
        if let Some(count) = left_out(&line) {
            eprintln!("{}: {count} more decisions were left out", visible(&event.source));
        }
        let Some(row) = row(&event.source, &line) else { continue };
        if let Some(fields) = line.as_object_mut() {
            fields.insert("sidecar".to_owned(), Value::from(event.source));
        }
        output::print_next(format, &line, |_| format!("{row}\n"))?;
        printed = printed.saturating_add(1);
        if limit.is_some_and(|limit| printed >= limit.get()) {
            break;
        }
    }
    Ok(if began { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_error_of_a_sidecar() {
        let told = problem("shop/web-0", &anyhow::anyhow!("port: \u{1b}]0;x\u{7}"));
        assert_eq!(told, "shop/web-0: port: \u{fffd}]0;x\u{fffd}");
    }
}
