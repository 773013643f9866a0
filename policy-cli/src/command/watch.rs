//! `portcullis watch`.

use super::block_on;
use crate::expect::WorkloadPort;
use crate::output::{self, Format, Paint};
use anyhow::{Context, bail};
use clap::Args;
use policy_controller::view::PolicyView;
use policy_core::feature::Feature;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{
    Hello, PortUpdate, Resync, Subscribe, WatchRequest, Workload, watch_response,
};
use policy_proto::native::{ApplyError, PortState, encode_features};
use policy_proto::workload::{WorkloadName, WorkloadNameKind, format_workload};
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Endpoint;

/// How long to wait before asking again after a stream ended.
const RETRY: Duration = Duration::from_secs(1);

/// Print the policy of a port, and again whenever it changes
///
/// Speaks the API that proxies speak, but never acknowledges: what is printed here does not count as
/// enforced. The connection is plaintext, which controllers allow over loopback only; use a port
/// forward for those in a cluster.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis watch --controller 127.0.0.1:8090 emojivoto/web-0:8080
  portcullis watch --controller 127.0.0.1:8090 --once -o yaml emojivoto/web-0:8080
  portcullis watch --controller 127.0.0.1:8090 -o json emojivoto/web-0:8080 | jq .revision"
)]
pub(crate) struct Arguments {
    /// The port: NAMESPACE/POD:PORT
    target: WorkloadPort,

    /// The controller's gRPC address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8090")]
    controller: String,

    /// End after the first policy
    #[arg(long)]
    once: bool,

    /// Form of each policy
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// One policy, as `-o json` prints it.
#[derive(Serialize)]
struct Seen<'a> {
    at: String,
    target: String,
    revision: String,
    policy: &'a PolicyView,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    block_on(async {
        tokio::select! {
            ended = watch(arguments) => ended,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("cannot wait for Ctrl-C")?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn watch(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut shown = None;
    loop {
        match stream(arguments, &mut shown).await {
            Ok(Ended::Enough) => return Ok(ExitCode::SUCCESS),
            Ok(Ended::ByServer(why)) => {
                eprintln!(
                    "{} the stream ended: {why}; asking again",
                    Paint::stderr().notice("note:")
                );
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

enum Ended {
    Enough,
    ByServer(String),
}

async fn stream(arguments: &Arguments, shown: &mut Option<PolicyView>) -> anyhow::Result<Ended> {
    let controller = &arguments.controller;
    let channel = Endpoint::try_from(format!("http://{controller}"))
        .with_context(|| format!("--controller: `{controller}` is not an address"))?
        .connect()
        .await
        .with_context(|| format!("cannot connect to the controller at `{controller}`"))?;
    let mut client = PolicyDiscoveryClient::new(channel);
    let (requests, outbound) = mpsc::channel(8);
    for kind in opening(&arguments.target) {
        requests.send(WatchRequest { kind: Some(kind) }).await?;
    }
    let mut updates = match client.watch(ReceiverStream::new(outbound)).await {
        Ok(response) => response.into_inner(),
        Err(status) => return ended(&arguments.target, &status),
    };
    let mut state = PortState::new();
    loop {
        let update = match updates.message().await {
            Ok(Some(response)) => response.kind,
            Ok(None) => return Ok(Ended::ByServer("the controller closed it".to_owned())),
            Err(status) => return ended(&arguments.target, &status),
        };
        match update {
            Some(watch_response::Kind::Workload(workload)) => undeclared(arguments, &workload),
            Some(watch_response::Kind::Port(update)) => {
                if let Some(port) = apply(arguments, &mut state, &update, shown)? {
                    requests.send(WatchRequest { kind: Some(Kind::Resync(port)) }).await?;
                } else if arguments.once && state.policy().is_some() {
                    return Ok(Ended::Enough);
                }
            }
            None => bail!("the controller sent a message of a kind that is not known here"),
        }
    }
}

fn opening(target: &WorkloadPort) -> [Kind; 2] {
    let workload = format_workload(&WorkloadName {
        namespace: target.namespace.clone(),
        kind: WorkloadNameKind::Pod,
        name: target.name.clone(),
    });
    let features: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
    [
        Kind::Hello(Hello {
            workload,
            features: encode_features(&features),
            applied: Vec::new(),
            client: format!("portcullis/{}", env!("CARGO_PKG_VERSION")),
        }),
        Kind::Subscribe(Subscribe { ports: vec![target.port.get().into()] }),
    ]
}

/// What a status means: those that asking again cannot change end the command.
fn ended(target: &WorkloadPort, status: &tonic::Status) -> anyhow::Result<Ended> {
    let message = status.message();
    match status.code() {
        Code::NotFound => bail!("`{}/{}`: {message}", target.namespace, target.name),
        Code::InvalidArgument | Code::PermissionDenied | Code::Unimplemented => {
            bail!("the controller refuses: {message}")
        }
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => Ok(Ended::ByServer(format!("{}: {message}", status.code()))),
    }
}

fn undeclared(arguments: &Arguments, workload: &Workload) {
    let port = u32::from(arguments.target.port.get());
    if !workload.declared_ports.contains(&port) {
        let note = Paint::stderr().notice("note:");
        eprintln!("{note} {} declares no port {port}", workload.name);
    }
}

/// Applies an update and prints the policy if it differs from the last one shown. Returns what to
/// ask for if the update builds on something else.
fn apply(
    arguments: &Arguments,
    state: &mut PortState,
    update: &PortUpdate,
    shown: &mut Option<PolicyView>,
) -> anyhow::Result<Option<Resync>> {
    if update.port != u32::from(arguments.target.port.get()) {
        return Ok(None);
    }
    let policy = match state.apply(update) {
        Ok(policy) => policy,
        Err(ApplyError::Base { .. }) => return Ok(Some(Resync { port: update.port })),
        Err(ApplyError::Decode(error)) => bail!("cannot read the policy: {error}"),
    };
    let view = PolicyView::from(&*policy);
    if shown.as_ref() == Some(&view) {
        return Ok(None);
    }
    let content = state.revision().map(|revision| revision.content).unwrap_or_default();
    let seen = Seen {
        at: jiff::Timestamp::now().to_string(),
        target: arguments.target.to_string(),
        revision: format!("{content:016x}"),
        policy: &view,
    };
    output::print_next(arguments.output, &seen, |seen| {
        let paint = Paint::stdout();
        let head = format!("{}  {}  revision {}", seen.at, seen.target, seen.revision);
        format!("{}\n{}\n", paint.bold(&head), seen.policy.text())
    })?;
    *shown = Some(view);
    Ok(None)
}
