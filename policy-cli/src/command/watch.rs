//! `portcullis watch`.

use super::block_on;
use crate::cluster::api_flags::ApiFlags;
use crate::cluster::connect::{
    AuthorizedChannel, ControllerFlags, connect_in_cluster, connect_local,
};
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::expect::WorkloadPort;
use crate::output::{self, Format, Paint};
use anyhow::{Context, bail};
use clap::Args;
use policy_core::WorkloadKind;
use policy_core::feature::Feature;
use policy_engine::view::PolicyView;
use policy_proto::messages::policy_discovery_client::PolicyDiscoveryClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{
    Hello, PortUpdate, Resync, Subscribe, WatchRequest, Workload, watch_response,
};
use policy_proto::native::{ApplyError, PortState, encode_features};
use policy_proto::workload::format_workload;
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

/// Interval between a broken stream and the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// Limit of the size of an update.
const UPDATE_BYTES: usize = 64 * 1024 * 1024;

/// Print the policy of a port, and again whenever it changes
///
/// Uses the API of proxies, but never acknowledges: what is printed here does not count as enforced.
/// Connects to the controller of the current context's cluster, through a port-forward to one of its
/// pods, with TLS to the controller's identity and a viewer's token that is valid for ten minutes; a
/// note on standard error names the controller. With --controller, connects to one on this machine in
/// plaintext, which controllers allow over loopback only.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis watch -n emojivoto web-0:8080        # the context's cluster
  portcullis watch --context production emojivoto/web-0:8080
  portcullis watch --controller 127.0.0.1:8090 emojivoto/web-0:8080
  portcullis watch --controller 127.0.0.1:8090 --once -o yaml emojivoto/web-0:8080
  portcullis watch --controller 127.0.0.1:8090 -o json emojivoto/web-0:8080 | jq .revision"
)]
pub(crate) struct WatchArgs {
    /// The port of a pod
    #[arg(value_name = "[NAMESPACE/]POD:PORT")]
    target: PodPort,

    #[command(flatten)]
    api: ApiFlags,

    /// Namespace of the pod, unless the port includes it [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    #[command(flatten)]
    controller: ControllerFlags,

    /// End after the first policy
    #[arg(long)]
    once: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A policy, as `-o json` prints it.
#[derive(Serialize)]
struct PolicyEvent<'a> {
    at: String,
    target: String,
    revision: String,
    policy: &'a PolicyView,
}

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        tokio::select! {
            stream_end = watch(args) => stream_end,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("cannot wait for Ctrl-C")?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// A port of a pod, with an optional namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodPort {
    namespace: Option<String>,
    name: String,
    port: NonZeroU16,
}

impl FromStr for PodPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not POD:PORT or NAMESPACE/POD:PORT");
        let (workload, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let (namespace, name) = match workload.split_once('/') {
            // As `kubectl` names it; a namespace of this name is given by -n.
            Some((kind, name)) if policy_crds::Kind::Pod.is_called(kind) => (None, name),
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, workload),
        };
        if namespace.is_some_and(str::is_empty) || name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { namespace: namespace.map(str::to_owned), name: name.to_owned(), port })
    }
}

/// A watch of one port.
struct WatchSession<'a> {
    args: &'a WatchArgs,
    cluster: Option<Cluster>,
    target: WorkloadPort,
}

impl<'a> WatchSession<'a> {
    /// Resolves the controller and the namespace.
    async fn new(args: &'a WatchArgs) -> anyhow::Result<Self> {
        let PodPort { namespace, name, port } = args.target.clone();
        let flag = args.namespace.as_ref().map(ToString::to_string);
        if let (Some(in_target), Some(in_flag)) = (&namespace, &flag)
            && in_target != in_flag
        {
            bail!("--namespace is `{in_flag}`, but the port is one of namespace `{in_target}`");
        }
        let cluster = match args.controller.controller {
            Some(_) => None,
            None => {
                let namespaces =
                    NamespaceFlags { namespace: args.namespace.clone(), all_namespaces: false };
                let flags = ClusterFlags { api: args.api.clone(), namespaces };
                Some(Cluster::connect(&flags).await?)
            }
        };
        let of_context = cluster.as_ref().and_then(|c| c.scope.namespace());
        let namespace = namespace.or(flag).or_else(|| of_context.map(ToString::to_string));
        let namespace = namespace.context(
            "the port names no namespace: write NAMESPACE/POD:PORT, or give --namespace",
        )?;
        let target = WorkloadPort { namespace, kind: WorkloadKind::Pod, name, port };
        Ok(Self { args, cluster, target })
    }

    /// Connects, and prints the controller's address to standard error.
    async fn connect(&self) -> anyhow::Result<AuthorizedChannel> {
        let flags = &self.args.controller;
        let connection = match (&self.cluster, &flags.controller) {
            (Some(cluster), _) => {
                let connection = connect_in_cluster(cluster, flags).await?;
                let note = Paint::stderr().notice("note:");
                eprintln!("{note} watching {} of {}", connection.to, cluster.source);
                connection
            }
            (None, address) => connect_local(address.as_deref().unwrap_or_default()).await?,
        };
        Ok(connection.channel)
    }
}

async fn watch(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let session = WatchSession::new(args).await?;
    let mut shown = None;
    loop {
        match stream(&session, &mut shown).await {
            Ok(StreamEnd::Done) => return Ok(ExitCode::SUCCESS),
            Ok(StreamEnd::ByServer(why)) => {
                eprintln!("{} the stream ended: {why}; retrying", Paint::stderr().notice("note:"));
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

enum StreamEnd {
    Done,
    ByServer(String),
}

async fn stream(
    session: &WatchSession<'_>,
    shown: &mut Option<PolicyView>,
) -> anyhow::Result<StreamEnd> {
    let channel = match session.connect().await {
        Ok(channel) => channel,
        // The controller responded before and may come back, for example after a rollout.
        Err(error) if shown.is_some() => return Ok(StreamEnd::ByServer(format!("{error:#}"))),
        Err(error) => return Err(error),
    };
    let mut client = PolicyDiscoveryClient::new(channel).max_decoding_message_size(UPDATE_BYTES);
    let (requests, outbound) = mpsc::channel(8);
    for kind in initial_requests(&session.target) {
        requests.send(WatchRequest { kind: Some(kind) }).await?;
    }
    let mut updates = match client.watch(ReceiverStream::new(outbound)).await {
        Ok(response) => response.into_inner(),
        Err(status) => return stream_end(session, &status, shown.is_some()),
    };
    let mut state = PortState::new();
    loop {
        let update = match updates.message().await {
            Ok(Some(response)) => response.kind,
            Ok(None) => return Ok(StreamEnd::ByServer("the controller closed it".to_owned())),
            Err(status) => return stream_end(session, &status, shown.is_some()),
        };
        match update {
            Some(watch_response::Kind::Workload(workload)) => note_undeclared(session, &workload),
            Some(watch_response::Kind::Port(update)) => {
                if let Some(port) = apply(session, &mut state, &update, shown)? {
                    requests.send(WatchRequest { kind: Some(Kind::Resync(port)) }).await?;
                } else if session.args.once && state.policy().is_some() {
                    return Ok(StreamEnd::Done);
                }
            }
            None => bail!("the controller sent a message of a kind that is not known here"),
        }
    }
}

fn initial_requests(target: &WorkloadPort) -> [Kind; 2] {
    let workload = format_workload(&target.key());
    let features: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
    [
        Kind::Hello(Hello {
            workload,
            features: encode_features(&features),
            applied: Vec::new(),
            workload_revision: None,
            client: format!("portcullis/{}", env!("CARGO_PKG_VERSION")),
        }),
        Kind::Subscribe(Subscribe { ports: vec![target.port.get().into()] }),
    ]
}

/// Maps a gRPC status to the end of the stream. Statuses that a retry cannot change end the
/// command. An expired token that was accepted before is renewed by the retry, and a controller
/// that answered before may come back.
fn stream_end(
    session: &WatchSession<'_>,
    status: &tonic::Status,
    accepted: bool,
) -> anyhow::Result<StreamEnd> {
    let message = status.message();
    let WorkloadPort { namespace, name, .. } = &session.target;
    match status.code() {
        Code::NotFound => bail!("`{namespace}/{name}`: {message}"),
        Code::Unauthenticated if !accepted => {
            bail!("the controller rejects the credentials: {message}")
        }
        // Without any valid response before, the server is not a controller.
        Code::Unknown | Code::Internal if !accepted => {
            bail!("the server is not a policy controller: {}: {message}", status.code())
        }
        Code::InvalidArgument | Code::PermissionDenied | Code::Unimplemented => {
            bail!("the controller rejects the request: {message}")
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
        | Code::Unauthenticated => Ok(StreamEnd::ByServer(format!("{}: {message}", status.code()))),
    }
}

fn note_undeclared(session: &WatchSession<'_>, workload: &Workload) {
    let port = u32::from(session.target.port.get());
    if !workload.declared_ports.contains(&port) {
        let note = Paint::stderr().notice("note:");
        eprintln!("{note} {} declares no port {port}", workload.name);
    }
}

/// Applies an update and prints the policy if it differs from the last one printed. Returns the
/// resync request if the update has another base.
fn apply(
    session: &WatchSession<'_>,
    state: &mut PortState,
    update: &PortUpdate,
    shown: &mut Option<PolicyView>,
) -> anyhow::Result<Option<Resync>> {
    if update.port != u32::from(session.target.port.get()) {
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
    let event = PolicyEvent {
        at: jiff::Timestamp::now().to_string(),
        target: session.target.to_string(),
        revision: format!("{content:016x}"),
        policy: &view,
    };
    output::print_next(session.args.output, &event, |event| {
        let paint = Paint::stdout();
        let head = format!("{}  {}  revision {}", event.at, event.target, event.revision);
        format!("{}\n{}\n", paint.bold(&head), event.policy.text())
    })?;
    *shown = Some(view);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_leave_its_namespace_to_the_context() {
        let target = |namespace: Option<&str>| PodPort {
            namespace: namespace.map(str::to_owned),
            name: "web-0".to_owned(),
            port: NonZeroU16::new(80).unwrap(),
        };
        assert_eq!("web-0:80".parse(), Ok(target(None)));
        assert_eq!("shop/web-0:80".parse(), Ok(target(Some("shop"))));
        assert_eq!("po/web-0:80".parse(), Ok(target(None)));
        for wrong in ["web-0", "/web-0:80", "a/b/c:80", ":80", "web-0:0", "web-0:http"] {
            assert!(wrong.parse::<PodPort>().is_err(), "{wrong}");
        }
    }
}
