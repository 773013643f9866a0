//! A control plane that a test uses, and what a test does with it.

use super::kubeconfig::{config_of, random};
use super::objects::Objects;
use super::plane::{ControlPlane, Ground};
use super::process::Home;
use super::programs;
use super::skip::Missing;
use anyhow::{Context as _, Result, bail};
use kube::config::Kubeconfig;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{OnceCell, SemaphorePermit};

/// A cluster for tests. Dropped, the control plane it started ends and its files are gone; that is
/// so after a panic and after the death of this process too.
#[derive(Debug)]
pub struct Cluster {
    config: kube::Config,
    kubeconfig: PathBuf,
    /// Absent: the cluster existed before and is not ours to break.
    pub(super) plane: Option<ControlPlane>,
    users: AtomicU32,
    // After the processes in it.
    pub(super) home: Home,
    // Last, so that whoever waits for room finds the processes gone.
    _room: Option<SemaphorePermit<'static>>,
}

/// Settings of a control plane that is started.
#[derive(Clone, Debug, Default)]
pub struct ClusterBuilder {
    api_server: Vec<String>,
}

impl ClusterBuilder {
    /// One more flag of kube-apiserver, such as `--event-ttl=1m`. Of a flag given twice the later
    /// one counts, where kube-apiserver takes one value.
    #[must_use]
    pub fn api_server_flag(mut self, flag: &str) -> Self {
        self.api_server.push(flag.to_owned());
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// [`Missing`] where a control plane cannot be had; else why it does not start, with the end of
    /// its log.
    pub async fn start(self) -> Result<Cluster> {
        if let Some(kubeconfig) = std::env::var_os("KUBECONFIG_UNDER_TEST") {
            if !self.api_server.is_empty() {
                return Err(Missing::new(
                    "KUBECONFIG_UNDER_TEST names a cluster whose API server's flags are not ours",
                )
                .into());
            }
            return Cluster::existing(PathBuf::from(kubeconfig)).await;
        }
        let programs = tokio::task::spawn_blocking(programs::find).await??;
        let home = Home::new()?;
        let plane = ControlPlane::start(&home, programs, Ground::Loopback, self.api_server).await?;
        Ok(Cluster::of(plane, home))
    }
}

impl Cluster {
    /// Starts a control plane: about five seconds.
    ///
    /// # Errors
    /// As [`ClusterBuilder::start`].
    pub async fn start() -> Result<Self> {
        Self::builder().start().await
    }

    /// For a control plane with other flags.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    pub(super) fn of(plane: ControlPlane, home: Home) -> Self {
        Self {
            config: plane.config().clone(),
            kubeconfig: plane.kubeconfig().to_owned(),
            plane: Some(plane),
            users: AtomicU32::new(0),
            home,
            _room: None,
        }
    }

    /// The same, which takes up this room.
    pub(super) fn in_room(self, room: SemaphorePermit<'static>) -> Self {
        Self { _room: Some(room), ..self }
    }

    async fn existing(kubeconfig: PathBuf) -> Result<Self> {
        // Until this process ends.
        static TURN: OnceCell<File> = OnceCell::const_new();
        let turn = async || anyhow::Ok(tokio::task::spawn_blocking(programs::turn).await??);
        TURN.get_or_try_init(turn).await?;
        let config = config_of(&kubeconfig)
            .await
            .with_context(|| format!("KUBECONFIG_UNDER_TEST={}", kubeconfig.display()))?;
        let home = Home::new()?;
        let users = AtomicU32::new(0);
        Ok(Self { config, kubeconfig, plane: None, users, home, _room: None })
    }

    /// True if the API server and etcd may be killed, frozen and compacted.
    pub fn is_breakable(&self) -> bool {
        self.plane.is_some()
    }

    /// The file that names the cluster and its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder that lasts as long as the cluster.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    /// A new client as administrator. It belongs to the runtime that asks for it.
    pub fn client(&self) -> kube::Client {
        match kube::Client::try_from(self.config.clone()) {
            Ok(client) => client,
            Err(error) => panic!("no client from {}: {error}", self.kubeconfig.display()),
        }
    }

    /// A kubeconfig file of a user who may do what RBAC lets `user` and `groups` do, and nothing
    /// else. The administrator impersonates them, which an existing cluster can do as well.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let mut file = Kubeconfig::read_from(&self.kubeconfig)?;
        for named in &mut file.auth_infos {
            let info = named.auth_info.get_or_insert_default();
            info.impersonate = Some(user.to_owned());
            info.impersonate_groups = Some(groups.iter().map(ToString::to_string).collect());
        }
        let number = self.users.fetch_add(1, Ordering::Relaxed);
        let path = self.home.path().join(format!("user-{number}.kubeconfig"));
        std::fs::write(&path, serde_json::to_vec(&file)?)?;
        Ok(path)
    }

    /// A new namespace with a name of its own that begins with `prefix`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let name = format!("{prefix}-{:08x}", random());
        let yaml = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        self.apply(&yaml).await?;
        Ok(name)
    }

    /// Applies, changes and deletes objects over one connection.
    pub fn objects(&self) -> Objects {
        Objects::new(self.client())
    }

    /// Installs the definitions of every kind that is watched: ours, Gateway API's and SMI's. Waits until they
    /// are served.
    ///
    /// # Errors
    /// If one is refused or never becomes Established.
    pub async fn install_crds(&self) -> Result<()> {
        self.objects().install(Some(&crate::sources::root().join("crds/yaml"))).await?;
        self.install_smi().await
    }

    /// Installs the definitions of SMI, and waits until they are served.
    ///
    /// # Errors
    /// If one is refused or never becomes Established.
    pub async fn install_smi(&self) -> Result<()> {
        self.objects().install_smi().await
    }

    /// Installs Gateway API's definitions alone, and waits until they are served.
    ///
    /// # Errors
    /// If one is refused or never becomes Established.
    pub async fn install_gateway_api(&self) -> Result<()> {
        self.objects().install(None).await
    }

    /// Installs Linkerd's definitions and Gateway API's, and waits until they are served.
    ///
    /// # Errors
    /// If one is refused or never becomes Established.
    pub async fn install_linkerd_crds(&self) -> Result<()> {
        self.objects().install(Some(&crate::sources::root().join("crds/yaml/linkerd"))).await
    }

    /// As [`Objects::apply`].
    ///
    /// # Errors
    /// As there.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        self.objects().apply(yaml).await
    }

    /// As [`Objects::apply_status`].
    ///
    /// # Errors
    /// As there.
    pub async fn apply_status(&self, yaml: &str) -> Result<()> {
        self.objects().apply_status(yaml).await
    }

    /// As [`Objects::delete`].
    ///
    /// # Errors
    /// As there.
    pub async fn delete(&self, yaml: &str) -> Result<()> {
        self.objects().delete(yaml).await
    }

    /// Kills the API server at once. Connections break; etcd keeps what it has.
    pub fn kill_api_server(&mut self) {
        self.own_mut().kill_api_server();
    }

    /// Starts the API server again on the same port and waits until it is ready.
    ///
    /// # Errors
    /// If it does not become ready, with the end of its log.
    pub async fn start_api_server(&mut self) -> Result<()> {
        self.own().start_api_server(&self.home).await
    }

    /// Stops etcd in its tracks: requests hang, nothing is lost.
    pub fn freeze_etcd(&self) {
        self.own().signal_etcd("STOP");
    }

    /// Lets etcd go on.
    pub fn thaw_etcd(&self) {
        self.own().signal_etcd("CONT");
    }

    /// Stops the API server in its tracks: connections stay open and nothing comes.
    pub fn freeze_api_server(&self) {
        self.own().signal_api_server("STOP");
    }

    /// Lets the API server go on.
    pub fn thaw_api_server(&self) {
        self.own().signal_api_server("CONT");
    }

    /// Forgets all history: a watch that resumes from before is answered 410. The API server keeps
    /// history of its own in memory, so it is started again.
    ///
    /// # Errors
    /// If etcd refuses, or the API server does not become ready again.
    pub async fn compact(&self) -> Result<()> {
        let Some(plane) = &self.plane else { bail!("this cluster's etcd is not ours") };
        plane.compact(&self.home).await
    }

    /// Copies everything that is stored, as a backup that is made while etcd is stopped. The API server
    /// is ready again when this returns.
    ///
    /// # Errors
    /// If it cannot be copied, or the API server does not become ready again.
    pub async fn back_up(&mut self) -> Result<PathBuf> {
        let Some(plane) = &mut self.plane else { bail!("this cluster's etcd is not ours") };
        plane.back_up(&self.home).await
    }

    /// Brings a backup back: everything is stored as it was then, and resource versions go on from
    /// there.
    ///
    /// # Errors
    /// As [`Cluster::back_up`].
    pub async fn restore(&mut self, backup: &Path) -> Result<()> {
        let Some(plane) = &mut self.plane else { bail!("this cluster's etcd is not ours") };
        plane.restore(&self.home, backup).await
    }

    fn own(&self) -> &ControlPlane {
        self.plane.as_ref().expect("a control plane that is ours to break")
    }

    fn own_mut(&mut self) -> &mut ControlPlane {
        self.plane.as_mut().expect("a control plane that is ours to break")
    }
}
