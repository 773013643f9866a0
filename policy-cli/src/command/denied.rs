//! `portcullis denied`.

use super::block_on;
use crate::cluster::connect::{AuthorizedChannel, ControllerFlags, connect_local, connect_to};
use crate::cluster::{Cluster, LiveClusterFlags, QuerySource, Scope, controller};
use crate::denied::{DeniedReport, ReplicaRows};
use crate::output::{self, Paint, WideFormat, print_note};
use anyhow::{Context, bail};
use clap::Args;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::{DeniedRequest, DeniedResponse};
use std::process::ExitCode;
use tonic::Code;

/// Limit of the size of one answer.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// Show what the workloads of the cluster refuse most
///
/// Sidecars send the controller their eight most frequent refusals: of which client, on which port and
/// route, for which reason, and of their workload's own connections. They are added up over the pods of an
/// owner and over the controller's replicas, and need no port-forward to the workloads: whoever may view
/// policies (`get` of policies.portcullis.dev, docs/watch-api.md) may see them, in one namespace or with -A
/// in all. ID is that of the latest: `portcullis why ID` explains it.
///
/// A sidecar's counts begin with its process. What was refused in the last 30 seconds may be missing, and
/// so are sidecars of a version that does not send it, of which the controller knows nothing.
///
/// Exit codes: 0 done, 1 no replica answers, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis denied                                  # the namespace of the context
  portcullis denied -A --limit 20
  portcullis denied -A -o json | jq -r '.rows[] | select(.reason == \"unauthorized\") | .client'
  portcullis denied --controller 127.0.0.1:8090 -A   # a controller on this machine"
)]
pub(crate) struct DeniedArgs {
    #[command(flatten)]
    cluster: LiveClusterFlags,

    #[command(flatten)]
    controller: ControllerFlags,

    /// Rows that are shown, at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: WideFormat,
}

pub(crate) fn run(args: &DeniedArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let report = read(args).await?;
        let text = |report: &DeniedReport| report.text(Paint::stdout(), args.output);
        output::print(args.output.format(), &report, text)?;
        report.problems.iter().for_each(|problem| print_note(problem));
        Ok(ExitCode::SUCCESS)
    })
}

async fn read(args: &DeniedArgs) -> anyhow::Result<DeniedReport> {
    let flags = args.cluster.flags();
    if let Some(address) = &args.controller.controller {
        let scope = flags.namespaces.of_directory();
        let source = QuerySource::controller(address, &scope);
        let connection = connect_local(address).await?;
        let rows = ask(connection.channel, &scope).await?;
        let replica = ReplicaRows { replica: connection.to, rows: Ok(rows) };
        return Ok(DeniedReport::of(source, vec![replica], args.limit));
    }
    let cluster = Cluster::connect(&flags).await?;
    let mut replicas = Vec::new();
    for pod in controller::ready(&cluster, &args.controller.pod).await? {
        let replica = format!("controller {}/{}", pod.namespace, pod.name);
        let rows = match connect_to(&cluster, &args.controller, pod).await {
            Ok(connection) => ask(connection.channel, &cluster.scope).await,
            Err(error) => Err(error),
        };
        replicas.push(ReplicaRows { replica, rows });
    }
    if replicas.iter().all(|one| one.rows.is_err()) {
        let failed = replicas.into_iter().filter_map(|one| one.rows.err());
        let errors: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
        bail!("no replica of the controller says what is refused: {}", errors.join("; "));
    }
    Ok(DeniedReport::of(cluster.source, replicas, args.limit))
}

/// The rows of one replica.
async fn ask(channel: AuthorizedChannel, scope: &Scope) -> anyhow::Result<DeniedResponse> {
    let mut client = PolicyReportClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
    let namespace = scope.namespace().map(ToString::to_string).unwrap_or_default();
    let answer = client.denied(DeniedRequest { namespace, limit: MOST }).await;
    let answer = answer.map_err(|status| {
        if status.code() == Code::Unimplemented {
            return anyhow::anyhow!("it is of a version that does not know what sidecars refuse");
        }
        anyhow::anyhow!("{}: {}", status.code(), status.message())
    });
    answer.map(tonic::Response::into_inner).context("the controller does not say")
}

/// Rows that each replica may send, so that rows of several add up.
const MOST: u32 = 1000;
