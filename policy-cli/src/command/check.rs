//! `portcullis check`.

use super::block_on;
use crate::check::{Findings, Questions, check_inventory};
use crate::cluster::controller::PodFlags;
use crate::cluster::list::path as api_path;
use crate::cluster::permissions::{FORBIDDEN, ListFailure};
use crate::cluster::settings::{Settings, SettingsFlags};
use crate::cluster::{Cluster, ClusterFlags, QuerySource};
use crate::diagnostics::fetch::list;
use crate::diagnostics::metadata::text as text_at;
use crate::diagnostics::network_policy::read;
use crate::diagnostics::outbound_policy::KINDS;
use crate::inputs::{KubectlInputFlags, inputs};
use crate::inventory::Inventory;
use crate::output::{self, Format, Paint, print_note};
use anyhow::Context;
use clap::Args;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use policy_crds::{Kind, Object};
use policy_engine::source::{Diagnostic, Severity};
use policy_kube::source::object_of;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check manifests or a cluster for mistakes in policies
///
/// Errors make an object invalid: it grants nothing until they are corrected, and keeps what it claims.
/// A misspelt field is an error as well: a cluster stores the object without it.
/// Warnings are about objects that take effect, perhaps not as intended: references that lead nowhere,
/// selectors that select nothing, matches that are never reached, and empty lists, whose meaning is
/// explained. Notes are worth knowing, and no fault.
///
/// With a path, checks manifests. Sources of Helm and kustomize are passed over with a note that says
/// how to render them. Without a path, checks the cluster of the current context; the first line names
/// it. In a cluster, references that lead nowhere and port names that no selected pod has are errors,
/// because nothing else will be applied beside them. Every policy that matches no port
/// of any workload is reported, so that an upgrade of an application cannot disable its policies
/// unnoticed. So is outbound policy of Linkerd's kinds (routes of Services, EgressNetworks, annotations
/// about retries, timeouts and failure accrual), unless the controller leaves it to Linkerd's.
///
/// Exit codes: 0 no errors, 1 errors (with --deny-warnings also warnings, and what may not be listed)
/// or nothing to check, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis check examples/emojivoto
  portcullis check --deny-warnings deploy/        # for CI
  portcullis check -f shop/ -f policy.yaml        # several, as kubectl takes them
  helm template shop charts/shop | portcullis check -
  portcullis check -n shop deploy/                # what concerns one namespace, of all that is read
  portcullis check --policy-only policies/        # workloads come from elsewhere
  portcullis check --identity-domain example.org deploy/
  portcullis check                                # the context's cluster and namespace
  portcullis check --context production -A        # every namespace of another cluster
  portcullis check --outbound -n shop             # what the outbound half would change there
  portcullis check -o json deploy/ | jq -r '.findings[] | \"\\(.file):\\(.line) \\(.message)\"'"
)]
pub(crate) struct CheckArgs {
    /// Directories of manifests (YAML or JSON, any layout), files, or `-` for standard input; without
    /// one a cluster is checked
    #[arg(value_name = "PATH", conflicts_with_all = ["kubeconfig", "context", "user"])]
    paths: Vec<PathBuf>,

    /// The same, as kubectl takes it; may be repeated
    #[arg(short = 'f', long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context", "user"])]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    kubectl: KubectlInputFlags,

    /// The manifests hold policy alone, and workloads come from elsewhere: do not warn of Servers that
    /// select none
    #[arg(long)]
    policy_only: bool,

    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    settings: SettingsFlags,

    #[command(flatten)]
    controller: PodFlags,

    /// Tell as well what the outbound half of sidecars would change for those who are called: rate
    /// limits that clients without an identity share, grants by address, and NetworkPolicies that
    /// do not admit the port by which opaque ports are reached
    #[arg(long)]
    outbound: bool,

    /// Outbound policy is served by Linkerd's controller: do not warn that it has no effect [default:
    /// as the controller found in the cluster is set; of manifests: warn]
    #[arg(long)]
    beside_linkerd: bool,

    /// Count warnings as errors, and what may not be listed
    #[arg(long)]
    deny_warnings: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The `-o json` output.
#[derive(Serialize)]
struct CheckReport<'a> {
    #[serde(rename = "asked")]
    source: &'a QuerySource,
    complete: bool,
    objects: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    findings: Vec<FindingItem<'a>>,
    #[serde(rename = "notKnown")]
    undetermined: Vec<UndeterminedItem<'a>>,
    #[serde(rename = "gaps")]
    list_failures: &'a [ListFailure],
}

#[derive(Serialize)]
struct FindingItem<'a> {
    severity: &'static str,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    object: Option<String>,
    field: Option<&'a str>,
    message: &'a str,
}

#[derive(Serialize)]
struct UndeterminedItem<'a> {
    object: String,
    message: &'a str,
}

impl<'a> From<&'a Diagnostic> for FindingItem<'a> {
    fn from(diagnostic: &'a Diagnostic) -> Self {
        Self {
            severity: diagnostic.severity.as_str(),
            file: (!diagnostic.file.is_empty()).then_some(&*diagnostic.file),
            line: diagnostic.line,
            column: diagnostic.column,
            object: diagnostic.object.as_ref().map(ToString::to_string),
            field: diagnostic.field.as_deref(),
            message: &diagnostic.message,
        }
    }
}

/// Result of a check with its source.
struct CheckRun {
    source: QuerySource,
    list_failures: Vec<ListFailure>,
    findings: Findings,
    /// Notes for the end of the answer.
    notes: Vec<String>,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    args.kubectl.refuse_kustomization("check -")?;
    let paths = [&args.paths[..], &args.filename[..]].concat();
    let CheckRun { source, list_failures, findings, notes } = match paths.is_empty() {
        true => block_on(check_cluster(args))?,
        false => check_manifests(&paths, args)?,
    };
    let undetermined = findings.undetermined.iter();
    // What could not be listed has not been checked.
    let complete = list_failures.iter().all(|failure| failure.why != FORBIDDEN);
    let report = CheckReport {
        source: &source,
        complete,
        objects: findings.objects,
        errors: findings.count(Severity::Error),
        warnings: findings.count(Severity::Warning),
        notes: findings.count(Severity::Note),
        findings: findings.diagnostics.iter().map(FindingItem::from).collect(),
        undetermined: undetermined
            .map(|u| UndeterminedItem { object: u.object.to_string(), message: &u.message })
            .collect(),
        list_failures: &list_failures,
    };
    output::print(args.output, &report, |report| text(report, &findings, Paint::stdout()))?;
    notes.iter().for_each(|note| print_note(note));
    // Without any object, nothing was checked.
    let denied = report.objects == 0
        || report.errors > 0
        || (args.deny_warnings && (report.warnings > 0 || !complete));
    Ok(if denied { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check_manifests(paths: &[PathBuf], args: &CheckArgs) -> anyhow::Result<CheckRun> {
    let mut settings = Settings::of_directory(&args.settings);
    settings.outbound_by_linkerd |= args.beside_linkerd;
    let inputs = inputs(paths, "check -")?;
    // Everything is read: what a team has depends on what others have.
    let scope = args.cluster.namespaces.of_directory();
    let inventory = Inventory::of_manifests(&inputs, scope, settings);
    let inventory = inventory.context("cannot read the manifests")?;
    let outbound = args.outbound.then(|| declared_network_policies(&inventory));
    let source = inventory.source.clone();
    let policy_only = args.policy_only;
    let questions = Questions { outbound, policy_only, ..Questions::default() };
    let findings = check_inventory(inventory, questions);
    Ok(CheckRun { source, list_failures: Vec::new(), findings, notes: Vec::new() })
}

async fn check_cluster(args: &CheckArgs) -> anyhow::Result<CheckRun> {
    let cluster = Cluster::connect(&args.cluster).await?;
    let mut settings = Settings::of_cluster(&cluster, &args.controller, &args.settings).await;
    settings.outbound_by_linkerd |= args.beside_linkerd;
    let outbound = match args.outbound {
        true => Some(network_policies(&cluster).await?),
        false => None,
    };
    let (unwatched, unlisted) = match settings.outbound_by_linkerd {
        true => (Vec::new(), Vec::new()),
        false => unwatched(&cluster).await,
    };
    let mut inventory = Inventory::of_cluster(cluster, settings).await?;
    let notes = inventory.notes_about_settings().into_iter().chain(unlisted).collect();
    let unwatched = unwatched.into_iter().map(|(object, value)| {
        inventory.values.insert(object.meta.key.clone(), value);
        object
    });
    let unwatched = unwatched.collect();
    let (source, list_failures) = (inventory.source.clone(), inventory.list_failures());
    let questions = Questions { outbound, unwatched, policy_only: args.policy_only };
    let findings = check_inventory(inventory, questions);
    Ok(CheckRun { source, list_failures, findings, notes })
}

/// Returns the NetworkPolicies among manifests.
fn declared_network_policies(inventory: &Inventory) -> Vec<NetworkPolicy> {
    let is_one = |value: &Cow<'_, Value>| text_at(value, "/kind") == "NetworkPolicy";
    inventory.declared().filter(is_one).map(|value| read(&value)).collect()
}

/// Lists the NetworkPolicies of the selected namespaces.
async fn network_policies(cluster: &Cluster) -> anyhow::Result<Vec<NetworkPolicy>> {
    let path = match cluster.scope.namespace() {
        Some(namespace) => {
            format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")
        }
        None => "/apis/networking.k8s.io/v1/networkpolicies".to_owned(),
    };
    let found = list(&cluster.client, &path).await.map_err(|error| {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        anyhow::anyhow!("--outbound: cannot list NetworkPolicies: {}{hint}", error.message())
    });
    Ok(found?.iter().map(read).collect())
}

/// Lists the objects of the selected namespaces that may state outbound policy and that no policy
/// depends on, and notes about those that may not be listed.
async fn unwatched(cluster: &Cluster) -> (Vec<(Object, Value)>, Vec<String>) {
    let (mut objects, mut notes) = (Vec::new(), Vec::new());
    for kind in KINDS.into_iter().filter(|kind| !Kind::watched().any(|watched| watched == *kind)) {
        let Some(version) = kind.versions().first() else { continue };
        let path = api_path(kind, version, cluster.scope.namespace().map(|it| &**it));
        match list(&cluster.client, &path).await {
            Ok(found) => objects.extend(
                found
                    .into_iter()
                    .filter_map(|value| Some((object_of(kind, version, value.clone())?, value))),
            ),
            Err(error) => {
                let (plural, message) = (kind.plural(), error.message());
                notes.push(format!("outbound policy of {plural} was not looked at: {message}"));
            }
        }
    }
    (objects, notes)
}

fn text(report: &CheckReport<'_>, findings: &Findings, paint: Paint) -> String {
    let mut text = String::new();
    let on_cluster = report.source.directory.is_none();
    if on_cluster {
        text.push_str(&paint.dim(&report.source.to_string()));
        text.push_str("\n\n");
    }
    for diagnostic in &findings.diagnostics {
        if diagnostic.file.is_empty() {
            text.push_str(&without_location(diagnostic, paint));
            text.push('\n');
        } else {
            text.push_str(&diagnostic.render(paint.is_on()));
            text.push_str("\n\n");
        }
    }
    for undetermined in &findings.undetermined {
        let label = paint.notice("not known");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{label}: {}: {}", undetermined.object, undetermined.message);
    }
    if on_cluster && !(findings.diagnostics.is_empty() && findings.undetermined.is_empty()) {
        text.push('\n');
    }
    let count = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        number => format!("{number} {word}s"),
    };
    let notes = match report.notes {
        0 => String::new(),
        notes => format!(", {}", count(notes, "note")),
    };
    let undetermined = match report.undetermined.len() {
        0 => String::new(),
        count => format!(", {count} not known"),
    };
    let hidden = unlisted_suffix(report.list_failures).map(|hidden| paint.notice(&hidden));
    let hidden = hidden.unwrap_or_default();
    let _ = writeln!(
        text,
        "{} read: {}, {}{notes}{undetermined}{hidden}",
        count(report.objects, "object"),
        count(report.errors, "error"),
        count(report.warnings, "warning")
    );
    text
}

/// Suffix of the last line that names the kinds that may not be listed, because everything above
/// covers only the rest.
fn unlisted_suffix(list_failures: &[ListFailure]) -> Option<String> {
    let forbidden = list_failures.iter().filter(|failure| failure.why == FORBIDDEN);
    let (elsewhere, hidden): (Vec<_>, Vec<_>) =
        forbidden.partition(|failure| failure.is_in_other_namespaces());
    let kinds = |list_failures: &[&ListFailure]| {
        let first = list_failures.first()?;
        let more = list_failures.len().saturating_sub(1);
        Some(match more {
            0 => first.resource.clone(),
            1 => format!("{} and 1 more kind", first.resource),
            more => format!("{} and {more} more kinds", first.resource),
        })
    };
    let all = kinds(&hidden)
        .map(|kinds| format!("; you may not list {kinds}, so that not everything was checked"));
    all.or_else(|| {
        let kinds = kinds(&elsewhere)?;
        Some(format!(
            "; you may list {kinds} there alone, so that references elsewhere were not checked"
        ))
    })
}

/// Formats a finding without a file: `error: Server shop/web: spec.port: …`.
fn without_location(diagnostic: &Diagnostic, paint: Paint) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => paint.bad("error"),
        Severity::Warning => paint.notice("warning"),
        Severity::Note => paint.dim("note"),
    };
    let object = diagnostic.object.as_ref().map(ToString::to_string).unwrap_or_default();
    let field = diagnostic.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    format!("{severity}: {}: {field}{}", paint.bold(&object), diagnostic.message)
}
