//! `portcullis why`.

mod arguments;
mod form;

use super::block_on;
use crate::admin_port::{SidecarAdmin, running};
use crate::cluster::api_error::explain;
use crate::cluster::{Cluster, Scope, list};
use crate::diagnostics::network_policy::read;
use crate::edges::origin::EdgesTarget;
use crate::inventory::Inventory;
use crate::output::{self, Paint};
use crate::tap::line::visible;
use crate::why::{
    Explainer, FoundDecisions, InForceSource, LogDecisions, NetworkPolicyExtent, NetworkPolicyList,
    PortArgument, Question, QuestionRequest, RecordedReport, WhyCase, WhyClient, WhyReport,
    ask_callers, ask_sidecars, by_id, latest, of_id, read_log,
};
use anyhow::{Context, bail};
pub(crate) use arguments::WhyArgs;
use clap::error::ErrorKind;
use clap::{Args, Command};
use form::{WhyForm, form};
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, stdin};
use std::path::Path;
use std::process::ExitCode;

/// The number of kinds of refusals of a log, unless --last says another.
const KINDS: usize = 20;

pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let form = match form(args) {
        Ok(form) => form,
        Err(message) => {
            let mut command = WhyArgs::augment_args(Command::new("why").bin_name("portcullis why"));
            // Nothing more can be reported if standard error is closed.
            let _ = command.error(ErrorKind::MissingRequiredArgument, message).print();
            return Ok(ExitCode::from(2));
        }
    };
    block_on(async {
        match form {
            WhyForm::Asked(asked) => {
                let (from, to, request) = *asked;
                question(args, from, &to, request).await
            }
            WhyForm::Id(id) => {
                let ports = match args.admin_address {
                    Some(address) => vec![SidecarAdmin::Address(address)],
                    None => {
                        let cluster = Cluster::connect(&args.inventory.cluster).await?;
                        of_id(&cluster, id).await?
                    }
                };
                let found = by_id(ports, id).await?;
                recorded(args, found).await
            }
            WhyForm::Last(most) => {
                let found = latest(sidecars(args).await?, most).await?;
                recorded(args, found).await
            }
            WhyForm::Log(file, place) => {
                let place = place.as_ref().map(|(workload, port)| (workload.as_str(), *port));
                recorded(args, of_log(args, &file, place)?).await
            }
        }
    })
}

/// Answers a question about a client and a port.
async fn question(
    args: &WhyArgs,
    from: WhyClient,
    to: &PortArgument,
    request: Option<QuestionRequest>,
) -> anyhow::Result<ExitCode> {
    let inventory = Inventory::read(&args.inventory, &args.controller, "why").await?;
    let (network_policies, note) = network_policies(&inventory).await;
    let answered = answer(args, &inventory, (from, to, request), &network_policies).await;
    print_notes(&inventory, note.as_deref());
    answered.map(|()| ExitCode::SUCCESS)
}

/// Prints what could not be read, behind the answer.
fn print_notes(inventory: &Inventory, note: Option<&str>) {
    inventory.print_notes();
    inventory.print_misplaced();
    if let Some(note) = note {
        print_problem(note);
    }
}

fn print_problem(problem: &str) {
    eprintln!("{} {}", Paint::stderr().notice("note:"), visible(problem));
}

/// Prints the answer.
async fn answer(
    args: &WhyArgs,
    inventory: &Inventory,
    (from, to, request): (WhyClient, &PortArgument, Option<QuestionRequest>),
    network_policies: &NetworkPolicyList,
) -> anyhow::Result<()> {
    let from = from.found(inventory).await?;
    let target = to.find(inventory).await?;
    let words = request.as_ref().map(|request| format!("{} {}", request.method, request.target));
    let request = request.map(|request| QuestionRequest {
        host: request.host.or_else(|| target.host.clone()),
        ..request
    });
    let question = Question { from, address: args.address, request };
    let to = to.to_string();
    let case = WhyCase { inventory, question, target, to, request: words, network_policies };
    let mut report = case.report()?;
    if let Some(sidecars) = sidecar_source(args, Some(inventory)) {
        ask_sidecars(&mut report, &sidecars).await;
        if let InForceSource::Cluster(cluster) = sidecars {
            ask_callers(&mut report, cluster).await;
        }
    }
    let text = |report: &WhyReport| report.text(Paint::stdout(), args.output);
    output::print(args.output.format(), &report, text)?;
    Ok(())
}

/// The sidecars whose policy in force is read.
fn sidecar_source<'a>(
    args: &WhyArgs,
    inventory: Option<&'a Inventory>,
) -> Option<InForceSource<'a>> {
    let address = args.admin_address.map(|it| InForceSource::Address(SidecarAdmin::Address(it)));
    let cluster = inventory.and_then(|inventory| inventory.cluster.as_ref());
    let cluster = cluster.filter(|_| !args.objects_only).map(InForceSource::Cluster);
    address.or(cluster)
}

/// Explains recorded decisions.
async fn recorded(args: &WhyArgs, found: FoundDecisions) -> anyhow::Result<ExitCode> {
    let FoundDecisions { decisions, problems } = found;
    // The sidecar's own explanation is all there is where no objects are meant.
    let has_objects = args.admin_address.is_none() || !args.inventory.filename.is_empty();
    let inventory = match has_objects {
        true => Some(Inventory::read(&args.inventory, &args.controller, "why").await?),
        false => None,
    };
    let (network_policies, note) = match &inventory {
        Some(inventory) => network_policies(inventory).await,
        None => (NetworkPolicyList::default(), None),
    };
    let explainer = Explainer {
        inventory: inventory.as_ref(),
        network_policies: &network_policies,
        sidecars: sidecar_source(args, inventory.as_ref()),
    };
    let mut explained = Vec::new();
    for decision in decisions {
        explained.push(explainer.explain(decision).await);
    }
    let report = RecordedReport { decisions: explained, problems };
    let text = |report: &RecordedReport| report.text(Paint::stdout(), args.output);
    output::print(args.output.format(), &report, text)?;
    if report.decisions.is_empty() {
        print_problem("nothing was refused");
    }
    report.problems.iter().for_each(|problem| print_problem(problem));
    if let Some(inventory) = &inventory {
        print_notes(inventory, note.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// The sidecars of a workload, or of all pods of the namespace.
async fn sidecars(args: &WhyArgs) -> anyhow::Result<Vec<SidecarAdmin>> {
    if let Some(address) = args.admin_address {
        return Ok(vec![SidecarAdmin::Address(address)]);
    }
    let cluster = Cluster::connect(&args.inventory.cluster).await?;
    let Some(to) = &args.to else { return running(&cluster, None, None).await };
    let name = to.split_once(':').map_or(to.as_str(), |(name, _)| name);
    let error = match name.parse::<EdgesTarget>() {
        Ok(target) => return running(&cluster, Some(&target), None).await,
        Err(error) => error,
    };
    let own = cluster.scope.namespace().map(|namespace| namespace.to_string());
    let (namespace, pod) = match name.split_once('/') {
        Some((namespace, pod)) => (Some(namespace.to_owned()), pod),
        None => (own, name),
    };
    // A word that is no kind is a namespace, unless it is near a kind.
    let is_kind = error.contains("did you mean");
    match namespace.filter(|_| !is_kind) {
        Some(namespace) => Ok(vec![SidecarAdmin::pod(&cluster, &namespace, pod)]),
        None => bail!("{error}"),
    }
}

/// The refusals of a log, with what could not be read of it.
fn of_log(
    args: &WhyArgs,
    file: &Path,
    place: Option<(&str, u16)>,
) -> anyhow::Result<FoundDecisions> {
    let read = match file == Path::new("-") {
        true => read_log(stdin().lock(), place),
        false => File::open(file).and_then(|file| read_log(BufReader::new(file), place)),
    };
    let read = read.with_context(|| format!("cannot read `{}`", file.display()))?;
    let LogDecisions { mut kinds, broken, without_workload, left_out, lines } = read;
    let most = args.last.map_or(KINDS, usize::from);
    let beyond = kinds.len().saturating_sub(most);
    kinds.truncate(most);
    let counted = [
        (broken, "lines begin as those of a sidecar and cannot be read"),
        (without_workload, "lines name no workload: --to NAMESPACE/POD:PORT says which"),
        (left_out, "refusals of further kinds were not kept"),
        (u64::try_from(beyond).unwrap_or(u64::MAX), "further kinds of refusals: --last shows more"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let problems = counted.map(|(count, words)| format!("of {lines} lines: {count} {words}"));
    Ok(FoundDecisions { decisions: kinds, problems: problems.collect() })
}

/// The NetworkPolicies of a directory or cluster, with a note where they may not be listed.
async fn network_policies(inventory: &Inventory) -> (NetworkPolicyList, Option<String>) {
    let Some(cluster) = &inventory.cluster else {
        let is_one =
            |value: &Value| value.get("kind").and_then(Value::as_str) == Some("NetworkPolicy");
        let items = inventory.declared().filter(|value| is_one(value)).map(|v| read(&v)).collect();
        return (NetworkPolicyList { items, extent: NetworkPolicyExtent::All }, None);
    };
    // A client of another namespace may be forbidden there.
    let everywhere = "/apis/networking.k8s.io/v1/networkpolicies".to_owned();
    let own = match &cluster.scope {
        Scope::Namespace(namespace) => Some((
            format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"),
            NetworkPolicyExtent::Namespace(namespace.clone()),
        )),
        Scope::All => None,
    };
    let mut refused = None;
    let paths = [Some((everywhere, NetworkPolicyExtent::All)), own];
    for (path, extent) in paths.into_iter().flatten() {
        match list::pages(&cluster.client, &path).await {
            Ok(values) => {
                let note = refused.map(|error| {
                    format!("what NetworkPolicies of other namespaces do is not known: {error:#}")
                });
                let items = values.iter().map(read).collect();
                return (NetworkPolicyList { items, extent }, note);
            }
            Err(error) => refused = Some(explain(&error, &cluster.source, "list networkpolicies")),
        }
    }
    let note = refused.map(|error| format!("what NetworkPolicies do is not known: {error:#}"));
    (NetworkPolicyList { items: Vec::new(), extent: NetworkPolicyExtent::None }, note)
}
