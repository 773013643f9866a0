//! `portcullis status`.

use super::block_on;
use crate::cluster::connect::{
    ControllerConnection, ControllerFlags, connect_in_cluster, connect_local,
};
use crate::cluster::list::path as api_path;
use crate::cluster::settings::Settings;
use crate::cluster::{Cluster, QuerySource, Scope};
use crate::diagnostics::fetch::list;
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::inventory::{Inventory, InventoryFlags};
use crate::output::{self, Format, Paint, print_note};
use crate::status::resource_args::ResourceArgs;
use crate::status::{StatusReport, of_controller, of_inventory, sidecars};
use crate::usage::wrong_use;
use anyhow::{Context, bail};
use clap::Args;
use policy_crds::Kind;
use policy_proto::messages::ObjectsRequest;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use serde_json::Value;
use std::process::ExitCode;

/// Limit of the response size: every object of a large cluster.
const ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Show the conditions of every policy object, and how many proxies enforce it
///
/// Queries the controller: in a cluster through a port-forward to one of its pods, with TLS to the
/// controller's identity and a viewer's token that is valid for ten minutes; on this machine with
/// --controller. ACCEPTED: the object takes effect. RESOLVEDREFS: everything it refers to can be used.
/// PROGRAMMED n of m: of m running pods with a sidecar that depend on it, n enforce its current
/// revision.
///
/// Below an InboundRoute are its claims, the objects that delegate to it or are refused, and the state of its
/// rules. A controller on this machine does not tell them.
///
/// Pods that request a sidecar, or whose namespace does, and have none are listed too.
///
/// If no controller responds, a note says so, conditions are computed from the objects, and those in
/// the objects' status are shown where they differ. With --filename, reads manifests and queries
/// nothing.
///
/// Exit codes: 0 done, 1 a named object was not found or something failed, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis status                              # the context's cluster and namespace
  portcullis status -n shop server/web httproutes
  portcullis status -A --context production
  portcullis status --controller 127.0.0.1:8090  # a controller on this machine
  portcullis status -f deploy/                   # manifests, without a cluster
  portcullis status -A -o json | jq '.objects[] | select(.programmed.inForce < .programmed.concerned)'"
)]
pub(crate) struct StatusArgs {
    /// Objects to show, for example server/web or server web, or a kind; by default all
    #[arg(value_name = "KIND[/NAME]")]
    names: Vec<String>,

    #[command(flatten)]
    inventory: InventoryFlags,

    #[command(flatten)]
    controller: ControllerFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    args.inventory.refuse_kustomization("status")?;
    if args.controller.controller.is_some() && !args.inventory.filename.is_empty() {
        bail!("--controller asks a controller, --filename looks at manifests: give one of them");
    }
    let names = ResourceArgs::of_words(&args.names).map_err(|error| wrong_use(&error))?;
    block_on(async {
        let report = read(args, &names).await?;
        output::print(args.output, &report, |report: &StatusReport| report.text(Paint::stdout()))?;
        report.notes.iter().for_each(|note| print_note(note));
        if !report.absent.is_empty() {
            bail!("not found in {}: {}", report.source, report.absent.join(", "));
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn read(args: &StatusArgs, names: &ResourceArgs) -> anyhow::Result<StatusReport> {
    let StatusArgs { inventory: flags, controller, .. } = args;
    if let Some(address) = &controller.controller {
        let scope = flags.cluster.namespaces.of_directory();
        let source = QuerySource::controller(address, &scope);
        let connection = connect_local(address).await?;
        return fetch(connection, &scope, source, names).await;
    }
    if !flags.filename.is_empty() {
        let inventory = Inventory::read(flags, &controller.pod, "status").await?;
        inventory.print_misplaced();
        return Ok(of_inventory(&inventory, None, names));
    }
    let cluster = Cluster::connect(&flags.cluster).await?;
    let (scope, source) = (cluster.scope.clone(), cluster.source.clone());
    let answer = match connect_in_cluster(&cluster, controller).await {
        Ok(connection) => match fetch(connection, &scope, source, names).await {
            // They are read only where some are shown.
            Ok(report) if !report.has(Kind::InboundRoute) => Ok(report),
            Ok(report) => Ok(match inbound_routes(&cluster).await {
                Ok(found) => report.with_delegations(&found),
                Err(note) => report.with_note(note),
            }),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let report = match answer {
        Ok(report) => report,
        Err(error) => {
            let settings = Settings::of_cluster(&cluster, &controller.pod, &flags.settings).await;
            let inventory = Inventory::of_cluster(cluster.clone(), settings).await?;
            let report = of_inventory(&inventory, Some(format!("{error:#}")), names);
            StatusReport { notes: inventory.notes(), ..report }
        }
    };
    // Missing sidecars are reported only if no objects were selected.
    if !names.0.is_empty() {
        return Ok(report);
    }
    let settings = Settings::of_cluster(&cluster, &controller.pod, &flags.settings).await;
    let networks = settings.config.looked_up_networks();
    let reads_linkerd = settings.reads_linkerd;
    let injector = InstalledInjector { home: &controller.pod.controller_namespace, reads_linkerd };
    let found = sidecars::of_cluster(&cluster, injector, networks).await;
    Ok(report.with_sidecars(found))
}

/// The InboundRoutes of the selected namespaces, as the API server has them, or a note that they may not
/// be listed.
async fn inbound_routes(cluster: &Cluster) -> Result<Vec<Value>, String> {
    let kind = Kind::InboundRoute;
    let Some(version) = kind.versions().first() else { return Ok(Vec::new()) };
    let path = api_path(kind, version, cluster.scope.namespace().map(|it| &**it));
    list(&cluster.client, &path).await.map_err(|error| {
        format!("claims and delegations are not shown: {}: {}", kind.plural(), error.message())
    })
}

async fn fetch(
    connection: ControllerConnection,
    scope: &Scope,
    source: QuerySource,
    names: &ResourceArgs,
) -> anyhow::Result<StatusReport> {
    let ControllerConnection { channel, to } = connection;
    let mut client = PolicyReportClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
    let namespace = scope.namespace().map(ToString::to_string).unwrap_or_default();
    let answer = client.objects(ObjectsRequest { namespace }).await;
    let response = answer
        .map_err(|status| anyhow::anyhow!("{}: {}", status.code(), status.message()))
        .with_context(|| format!("{to} does not say"))?;
    Ok(of_controller(source, to, response.into_inner(), names))
}
