//! Lifecycle of `portcullis up`: start, output, following the manifests, shutdown.

use super::calls::Callers;
use super::client_certs::ClientCertificates;
use super::decisions::DecisionLine;
use super::rows::{Pod, RowSources, Rows};
use super::screen::{ChangedEvent, ClientRow, PortRow, ProblemEvent, ReadyEvent};
use crate::check::{Questions, check_inventory};
use crate::cluster::Scope;
use crate::cluster::settings::Settings;
use crate::inventory::Inventory;
use crate::local_mesh::mesh::{LocalMesh, LocalMeshConfig, LocalMeshError};
use crate::local_mesh::pods::PortAllocation;
use crate::output::{self, Format, Paint};
use crate::signals::Signals;
use crate::unguarded::{self, UnguardedWorkloads};
use anyhow::{Context, bail};
use futures_util::future::join_all;
use ipnet::Ipv4Net;
use policy_core::{WorkloadKey, WorkloadKind};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use policy_engine::ControllerConfig;
use policy_engine::source::directory::{Manifests, names};
use policy_engine::source::{Diagnostic, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of pods; each sidecar has its own thread.
const MOST_PODS: usize = 100;

/// Time for Services to have addresses.
const SERVICES: Duration = Duration::from_secs(5);

/// Timeout of the shutdown.
const ENDING: Duration = Duration::from_secs(10);

/// Options of `up`.
pub(crate) struct UpOptions {
    /// Manifests.
    pub(crate) inputs: Vec<Manifests>,
    /// The controller's settings.
    pub(crate) config: ControllerConfig,
    /// Address at which the controller serves policies.
    pub(crate) listen: SocketAddr,
    /// Subnet of pods and clients.
    pub(crate) subnet: Ipv4Net,
    /// Output format.
    pub(crate) format: Format,
}

/// Runs until a signal arrives. Certificates are removed before this returns.
pub(crate) async fn run(options: UpOptions) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    options.inputs.iter().try_for_each(check_readable)?;
    let mut session = tokio::select! {
        session = Session::start(options) => session?,
        () = signals.next() => return Ok(ExitCode::SUCCESS),
    };
    session.print_ready()?;
    session.follow_changes(&mut signals).await?;
    session.shutdown(&mut signals).await;
    Ok(ExitCode::SUCCESS)
}

fn check_readable(input: &Manifests) -> anyhow::Result<()> {
    let Manifests::Path(directory) = input else { return Ok(()) };
    let cannot = || format!("cannot read `{}`", directory.display());
    let kind = std::fs::metadata(directory).with_context(cannot)?;
    if kind.is_dir() {
        std::fs::read_dir(directory).with_context(cannot)?;
    } else if kind.is_file() {
        std::fs::File::open(directory).with_context(cannot)?;
    } else {
        // Opening a pipe would block, and signals would not be handled.
        bail!("{}: neither a directory nor a file", cannot());
    }
    Ok(())
}

struct Session {
    inputs: Vec<Manifests>,
    format: Format,
    paint: Paint,
    mesh: LocalMesh,
    certificates: ClientCertificates,
    pods: BTreeMap<WorkloadKey, Pod>,
    callers: Callers,
    rows: Rows,
    problems: BTreeSet<String>,
    unguarded: UnguardedWorkloads,
    pod_limit_reported: bool,
}

impl Session {
    async fn start(options: UpOptions) -> anyhow::Result<Self> {
        let UpOptions { inputs, config, listen, subnet, format } = options;
        let plan = LocalMeshConfig { config, listen, subnet, ports: PortAllocation::Declared };
        let mesh = LocalMesh::start(inputs.clone(), plan).await?;
        let certificates = ClientCertificates::new(&mesh.launcher.authority)?;
        let mut session = Self {
            inputs,
            format,
            paint: Paint::stdout(),
            mesh,
            certificates,
            pods: BTreeMap::new(),
            callers: Callers::default(),
            rows: Rows::default(),
            problems: BTreeSet::new(),
            unguarded: UnguardedWorkloads::new(),
            pod_limit_reported: false,
        };
        session.show_problems()?;
        if let Some(error) = session.change_pods().await?.failed.into_iter().next() {
            return Err(error.into());
        }
        if session.pods.is_empty() {
            bail!(
                "`{}` describes no pods: nothing to put a sidecar in front of; add a Pod, or a \
                 Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob",
                names(&session.inputs)
            );
        }
        session.wait_for_services().await;
        session.rows = session.row_sources().make().await?;
        if let Some(error) = session.rows.failed.pop() {
            return Err(error.into());
        }
        Ok(session)
    }

    /// Starts new pods and those whose ports changed, and stops removed ones.
    async fn change_pods(&mut self) -> anyhow::Result<PodChanges> {
        let keys = self.mesh.controller.policies.workloads().await?;
        let mut wanted: Vec<_> =
            keys.into_iter().filter(|key| key.kind == WorkloadKind::Pod).collect();
        if wanted.len() > MOST_PODS && !self.pod_limit_reported {
            self.pod_limit_reported = true;
            self.note(&format!("{} pods; only the first {MOST_PODS} are started", wanted.len()));
        }
        wanted.truncate(MOST_PODS);
        let mut changes = PodChanges::default();
        let gone: Vec<_> = self.pods.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            self.pods.remove(&key);
            changes.gone.push(key.to_string());
        }
        for key in wanted {
            // The pod may have been removed since it was listed.
            let Ok(state) = self.mesh.state(&key).await else { continue };
            let same = |pod: &Pod| {
                pod.state.declared == state.declared && pod.state.identity == state.identity
            };
            if self.pods.get(&key).is_some_and(same) {
                continue;
            }
            if let Some(pod) = self.pods.remove(&key) {
                pod.unit.stop().await;
            }
            match self.mesh.start_pod(&state, &BTreeSet::new()).await {
                Ok(unit) => {
                    self.pods.insert(key, Pod { state, unit });
                }
                Err(error) => changes.failed.push(error),
            }
        }
        self.announce();
        Ok(changes)
    }

    /// Tells the controller which pods run, and where.
    fn announce(&self) {
        let running = |(key, pod): (&WorkloadKey, &Pod)| {
            let (namespace, name) = (key.namespace.clone(), key.name.clone());
            (ObjectKey { kind: Kind::Pod, namespace, name }, pod.unit.ports.clone())
        };
        self.mesh.services.announce(self.pods.iter().map(running).collect());
    }

    /// Waits until Services have addresses.
    async fn wait_for_services(&self) {
        let mut changed = self.mesh.objects.changed();
        let complete = async {
            while !self.mesh.objects.all().iter().all(|object| has_address(object)) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        // Without it, lines with their addresses follow later.
        let _ = tokio::time::timeout(SERVICES, complete).await;
    }

    fn row_sources(&mut self) -> RowSources<'_> {
        let Self { mesh, certificates, pods, callers, unguarded, .. } = self;
        RowSources { mesh, certificates, pods, callers, unguarded }
    }

    fn print_ready(&self) -> anyhow::Result<()> {
        let ready = ReadyEvent {
            event: "ready",
            controller: self.mesh.controller.addr,
            roots: self.certificates.root().display().to_string(),
            ports: &self.rows.ports,
            clients: &self.rows.clients,
        };
        let text = |ready: &ReadyEvent<'_>| ready.text(&names(&self.inputs), self.paint);
        Ok(output::print_next(self.format, &ready, text)?)
    }

    async fn follow_changes(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let mut objects = self.mesh.objects.changed();
        objects.mark_unchanged();
        let mut diagnostics = self.mesh.controller.diagnostics.clone();
        diagnostics.mark_unchanged();
        loop {
            tokio::select! {
                () = signals.next() => return Ok(()),
                Some(entry) = self.mesh.decisions.recv() => {
                    let line = DecisionLine::new(&entry, &self.mesh.config, &self.rows.names);
                    output::print_next(self.format, &line, |line| line.text(self.paint))?;
                    let lost = self.mesh.sink.lost();
                    if lost > 0 {
                        self.note(&format!("{lost} decisions came too fast to be shown"));
                    }
                }
                Ok(()) = diagnostics.changed() => self.show_problems()?,
                Ok(()) = objects.changed() => self.refresh().await?,
            }
        }
    }

    /// Applies a change of the manifests, and prints added and removed rows.
    async fn refresh(&mut self) -> anyhow::Result<()> {
        let changes = self.change_pods().await?;
        for error in &changes.failed {
            self.note(&error.to_string());
        }
        self.show_problems()?;
        let rows = self.row_sources().make().await?;
        for error in &rows.failed {
            self.note(&error.to_string());
        }
        let before = std::mem::replace(&mut self.rows, rows);
        let known = |row: &PortRow| before.ports.iter().any(|old| old.address == row.address);
        let ports: Vec<_> = self.rows.ports.iter().filter(|row| !known(row)).cloned().collect();
        let known = |row: &ClientRow| before.clients.iter().any(|old| old.address == row.address);
        let clients: Vec<_> = self.rows.clients.iter().filter(|row| !known(row)).cloned().collect();
        let calls = self.rows.new_calls(&before);
        self.rows.remember(before);
        let gone = &changes.gone;
        if ports.is_empty() && clients.is_empty() && gone.is_empty() && calls.is_empty() {
            return Ok(());
        }
        let changed = ChangedEvent {
            event: "changed",
            ports: &ports,
            gone: &changes.gone,
            clients: &clients,
            calls: &calls,
        };
        Ok(output::print_next(self.format, &changed, |changed| changed.text(self.paint))?)
    }

    /// Prints new problems of the manifests, and a note when all are resolved.
    fn show_problems(&mut self) -> anyhow::Result<()> {
        let mut now = self.mesh.controller.diagnostics.borrow().to_vec();
        now.extend(self.findings(&now));
        now.sort_by_key(|diagnostic| (Arc::clone(&diagnostic.file), diagnostic.line));
        let before = std::mem::take(&mut self.problems);
        for diagnostic in &now {
            let line = diagnostic.to_string();
            if !before.contains(&line) {
                self.show_problem(diagnostic)?;
            }
            self.problems.insert(line);
        }
        if !before.is_empty() && self.problems.is_empty() {
            self.note("the manifests have no more problems");
        }
        Ok(())
    }

    /// Returns what `check` finds in the manifests besides what the controller says of them, and keeps what
    /// no sidecar guards.
    fn findings(&mut self, said: &[Diagnostic]) -> Vec<Diagnostic> {
        let settings = Settings::from_config(self.mesh.config.clone());
        // Manifests that cannot be read are reported by the controller.
        let Ok(inventory) = Inventory::of_manifests(&self.inputs, Scope::All, settings) else {
            return Vec::new();
        };
        self.unguarded = unguarded::workloads(&inventory);
        let place = |it: &Diagnostic| (Arc::clone(&it.file), it.line, it.field.clone());
        let known: BTreeSet<_> = said.iter().map(place).collect();
        let found = check_inventory(inventory, Questions::default()).diagnostics.into_iter();
        found
            .filter(|finding| finding.severity != Severity::Note || finding.field.is_none())
            .filter(|finding| !known.contains(&place(finding)))
            .collect()
    }

    fn show_problem(&self, diagnostic: &Diagnostic) -> anyhow::Result<()> {
        let problem = ProblemEvent {
            event: "problem",
            file: &diagnostic.file,
            line: diagnostic.line,
            column: diagnostic.column,
            field: diagnostic.field.as_deref(),
            severity: diagnostic.severity.as_str(),
            message: &diagnostic.message,
        };
        match self.format {
            Format::Table => {
                eprintln!("{}\n", diagnostic.render(Paint::stderr().is_on()));
                Ok(())
            }
            Format::Json | Format::Yaml => {
                Ok(output::print_next(self.format, &problem, |_| String::new())?)
            }
        }
    }

    fn note(&self, text: &str) {
        eprintln!("{} {text}", Paint::stderr().notice("note:"));
    }

    /// Drains open requests, until a second signal arrives.
    async fn shutdown(self, signals: &mut Signals) {
        let Self { mesh, pods, .. } = self;
        if !pods.is_empty() {
            eprintln!(
                "\nshutting down when open requests are complete; Ctrl-C again exits at once"
            );
        }
        let ending = async {
            join_all(pods.into_values().map(|pod| pod.unit.drain())).await;
            mesh.controller.shutdown().await;
        };
        tokio::select! {
            () = ending => {}
            () = signals.next() => {}
            () = tokio::time::sleep(ENDING) => {}
        }
    }
}

/// False for a Service that clients are to call and that has no address yet.
fn has_address(object: &Object) -> bool {
    match &object.body {
        Body::Valid(Resource::Service(service)) => {
            service.is_external_name || !service.cluster_addresses.is_empty()
        }
        Body::Valid(_) | Body::Invalid(_) => true,
    }
}

#[derive(Default)]
struct PodChanges {
    gone: Vec<String>,
    failed: Vec<LocalMeshError>,
}
