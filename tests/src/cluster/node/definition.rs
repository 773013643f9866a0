//! A node: what it is made of, and what a test does with it.

use super::super::cache::locked;
use super::super::definition::Cluster;
use super::super::plane::{ControlPlane, Ground};
use super::super::process::{Home, Process};
use super::super::programs;
use super::images;
use super::kubectl;
use super::sandbox;
use super::settings;

use super::kubectl::{Ended, Kubectl};
use super::sandbox::{Sandbox, run};
use super::second::Second;
use anyhow::{Context as _, Result, bail};
use policy_testkit::long_or;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Name of the node.
pub const NODE: &str = "node-one";

/// Name of the second node.
pub const SECOND_NODE: &str = "node-two";

/// Most that anything here may take, on a machine with other things to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Seconds without a word from a kubelet until its node is marked. The long form has Kubernetes' own.
const GRACE: usize = 20;

/// Programs that must be there, and the Debian packages that bring them.
const NEEDED: [(&str, &str); 14] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("nft", "nftables"),
    ("busybox", "busybox-static"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("cc", "gcc"),
    ("curl", "curl"),
    ("wrk", "wrk"),
];

/// Network in which a client runs that is not a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// On this machine: outside the cluster, with a route to its pods and Services.
    Machine,
    /// On the node, where kubelet probes come from.
    Node,
    /// On the second node.
    Second,
}

/// A cluster with a node. It ends, pods and all, when it is dropped or this process dies.
#[derive(Debug)]
pub struct Node {
    /// The first process of everything else, so it is ended first.
    root: Process,
    sandbox: Sandbox,
    second: Second,
    processes: Vec<Process>,
    kubectl: Kubectl,
    cluster: Cluster,
    /// One node per machine.
    _turn: File,
}

impl Deref for Node {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Node {
    /// Starts a node and waits until it takes pods: about fifteen seconds.
    ///
    /// # Errors
    /// [`Missing`](super::super::Missing) where a node cannot be had; else why it does not start.
    pub async fn start() -> Result<Self> {
        check()?;
        let (programs, turn) = tokio::task::spawn_blocking(|| {
            programs::coredns()?;
            anyhow::Ok((programs::kubernetes()?, locked("node.lock")?))
        })
        .await??;
        let home = Home::new()?;
        let (sandbox, root) = Sandbox::start(&home)?;
        let ground = Ground::Node(sandbox.clone());
        let second = Second::start(&home, &sandbox)?;
        let containerd = start_containerd(&home, &sandbox)?;
        let plane = ControlPlane::start(&home, programs, ground, Vec::new()).await?;
        let cluster = Cluster::of(plane, home);
        let kubectl = Kubectl::new(cluster.kubeconfig())?;
        let processes = vec![containerd];
        let mut node = Self { root, sandbox, second, processes, kubectl, cluster, _turn: turn };
        node.start_controllers()?;
        node.start_node().await?;
        node.load_own_images()?;
        node.wait_for_node().await?;
        node.add_pod_networks().await?;
        Ok(node)
    }

    /// kubectl as administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// A command that runs at a place of the network, not in a pod.
    pub fn command(&self, place: Place, program: &str) -> Command {
        match place {
            Place::Machine => Command::new(program),
            Place::Node => self.sandbox.command(program),
            Place::Second => self.second.command(program),
        }
    }

    /// Runs a command at a place of the network, to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run_at(&self, place: Place, command: &[&str]) -> Result<Ended> {
        let (program, arguments) = command.split_first().context("no command")?;
        let mut command = self.command(place, program);
        command.args(arguments);
        kubectl::finish(command, "").await
    }

    /// Makes containerd know the images of an archive, as `docker save` or an OCI layout's `tar`
    /// writes one that names them.
    ///
    /// # Errors
    /// What `ctr` says.
    pub fn load(&self, archive: &Path) -> Result<()> {
        import(&self.sandbox, archive)
    }

    fn load_own_images(&self) -> Result<()> {
        let folder = self.cluster.home.path().join("images");
        for (name, make) in [("pause", images::pause as fn(&Path) -> _), ("tools", images::tools)] {
            let folder = folder.join(name);
            fs::create_dir_all(&folder)?;
            self.load(&make(&folder)?)?;
        }
        Ok(())
    }

    fn plane(&self) -> Result<&ControlPlane> {
        self.cluster.plane.as_ref().context("a node has a control plane of its own")
    }

    fn spawn(&mut self, name: &str, command: &mut Command) -> Result<()> {
        let process = self.sandbox.run(&self.cluster.home, name, command)?;
        self.processes.push(process);
        Ok(())
    }

    /// A user's kubeconfig.
    fn user(&self, file: &str, user: &str, group: Option<&str>) -> Result<std::path::PathBuf> {
        let plane = self.plane()?;
        let folder = self.cluster.home.path();
        let pair = plane.certificates().client(folder, file, user, group)?;
        plane.kubeconfig_of(folder, file, &pair)
    }

    fn start_controllers(&mut self) -> Result<()> {
        let plane = self.plane()?;
        let folder = plane.programs().folder.clone();
        let certificates = plane.certificates().clone();
        let file = self.user("kube-controller-manager", "system:kube-controller-manager", None)?;
        let mut command = Command::new(folder.join("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", file.display()))
            .arg(format!("--root-ca-file={}", certificates.authority.display()))
            .arg(format!("--service-account-private-key-file={}", certificates.token_key.display()))
            .args(["--use-service-account-credentials=true", "--leader-elect=false"])
            .args(["--allocate-node-cidrs=false", "--bind-address=127.0.0.1"])
            .arg(format!("--node-monitor-grace-period={}s", long_or("GRACE", GRACE)));
        self.spawn("kube-controller-manager", &mut command)?;
        let file = self.user("kube-scheduler", "system:kube-scheduler", None)?;
        let mut command = Command::new(folder.join("kube-scheduler"));
        command
            .arg(format!("--kubeconfig={}", file.display()))
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"]);
        self.spawn("kube-scheduler", &mut command)
    }

    async fn start_node(&mut self) -> Result<()> {
        let folder = self.plane()?.programs().folder.clone();
        let home = self.cluster.home.path().to_owned();
        let group = Some("system:nodes");
        let kubeconfig = self.user("kubelet", &format!("system:node:{NODE}"), group)?;
        let certificates = self.plane()?.certificates();
        let addresses = [Sandbox::NODE.into(), Sandbox::NODE_V6.into()];
        let serving = certificates.kubelet(&home, &addresses)?;
        let files: [&Path; 3] = [&certificates.authority, &serving.certificate, &serving.key];
        let settings = settings::kubelet(files, sandbox::cgroup(&home));
        let config = write_json(&home.join("kubelet.yaml"), &settings)?;
        let mut command = Command::new(folder.join("kubelet"));
        command
            .arg(format!("--config={config}"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--root-dir={}", home.join("kubelet").display()))
            .arg(format!("--hostname-override={NODE}"))
            .arg(format!("--node-ip={},{}", Sandbox::NODE, Sandbox::NODE_V6));
        self.spawn("kubelet", &mut command)?;

        let kubeconfig = self.user("kube-proxy", "system:kube-proxy", None)?;
        let settings = settings::kube_proxy(&kubeconfig);
        let config = write_json(&home.join("kube-proxy.yaml"), &settings)?;
        let mut command = Command::new(folder.join("kube-proxy"));
        command.arg(format!("--config={config}")).arg(format!("--hostname-override={NODE}"));
        self.spawn("kube-proxy", &mut command)?;

        let corefile = home.join("Corefile");
        fs::write(&corefile, settings::corefile(self.cluster.kubeconfig()))?;
        let mut command = Command::new(programs::coredns()?);
        command.arg("-conf").arg(corefile);
        self.spawn("coredns", &mut command)?;
        self.add_second_node().await
    }

    /// States the networks of the pods, as the allocator of a cluster does, which here is the node's own.
    async fn add_pod_networks(&self) -> Result<()> {
        let [first, _] = Sandbox::POD_NETWORKS;
        let spec = json!({"spec": {"podCIDR": first, "podCIDRs": Sandbox::POD_NETWORKS}});
        let patch = spec.to_string();
        self.kubectl.run(&["patch", "node", NODE, "--type=merge", "-p", &patch]).await?;
        Ok(())
    }

    async fn add_second_node(&self) -> Result<()> {
        // Nothing runs there.
        let yaml = format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: {SECOND_NODE}, labels: {{kubernetes.io/hostname: {SECOND_NODE}}}}}
spec: {{unschedulable: true}}
"
        );
        self.cluster.apply(&yaml).await?;
        // Not by server-side apply, which knows one address of each type.
        let status = json!({"status": {"addresses": [
            {"type": "InternalIP", "address": Sandbox::SECOND},
            {"type": "InternalIP", "address": Sandbox::SECOND_V6},
            {"type": "Hostname", "address": SECOND_NODE},
        ]}});
        let patch = status.to_string();
        let arguments =
            ["patch", "node", SECOND_NODE, "--subresource=status", "--type=merge", "-p"];
        let arguments: Vec<&str> = arguments.into_iter().chain([patch.as_str()]).collect();
        self.kubectl.run(&arguments).await?;
        Ok(())
    }

    /// Until the node is Ready, names resolve, and namespaces get service accounts.
    async fn wait_for_node(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for process in &mut self.processes {
                if let Some(status) = process.ended()? {
                    bail!("a program of the node ended: {status}\n{}", process.tail());
                }
            }
            let waits_for = self.waits_for().await?;
            let Some(waits_for) = waits_for else { return Ok(()) };
            if Instant::now() > deadline {
                let tails: Vec<_> = self.processes.iter().map(Process::tail).collect();
                bail!("the node waits for {waits_for}\n{}", tails.join("\n"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn waits_for(&self) -> Result<Option<String>> {
        let objects = self.cluster.objects();
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        });
        let node = objects.get(&node).await?.unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array();
        let ready = conditions.into_iter().flatten().find(|found| found["type"] == "Ready");
        if ready.is_none_or(|ready| ready["status"] != "True") {
            return Ok(Some(format!("the kubelet: {}", ready.unwrap_or(&Value::Null))));
        }
        let taints = &node["spec"]["taints"];
        if !taints.is_null() {
            return Ok(Some(format!("the node's taints: {taints}")));
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"},
        });
        if objects.get(&account).await?.is_none() {
            return Ok(Some("the controllers to make service accounts".to_owned()));
        }
        let url = format!("http://{}/ready", settings::DNS_READY);
        let asked = self.run_at(Place::Node, &["/bin/busybox", "wget", "-qO-", &url]).await?;
        Ok((asked.code != Some(0)).then(|| format!("CoreDNS: {}", asked.stderr)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.root.kill();
    }
}

/// Checks that this machine can have a node: we are root, and the programs of a node are there.
///
/// # Errors
/// [`Missing`](super::super::Missing): what it lacks.
pub fn check() -> Result<()> {
    Sandbox::check(&NEEDED)
}

fn start_containerd(home: &Home, sandbox: &Sandbox) -> Result<Process> {
    let folder = home.path();
    fs::create_dir_all(folder.join("cni"))?;
    write_json(&folder.join("cni/pods.conflist"), &settings::cni())?;
    let config = folder.join("containerd.toml");
    fs::write(&config, settings::containerd(folder))?;
    sandbox.run(home, "containerd", Command::new("containerd").arg("--config").arg(config))
}

fn import(sandbox: &Sandbox, archive: &Path) -> Result<()> {
    let deadline = std::time::Instant::now() + PATIENCE;
    let ctr = |arguments: &[&str]| {
        let mut command = sandbox.command("ctr");
        command.args(["--address", settings::CONTAINERD, "--namespace", "k8s.io"]).args(arguments);
        command
    };
    // containerd may have just started.
    while let Err(error) = run(&mut ctr(&["version"])) {
        if std::time::Instant::now() > deadline {
            return Err(error.context("containerd does not answer"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    run(ctr(&["images", "import"]).arg(archive))?;
    Ok(())
}

fn write_json(path: &Path, value: &Value) -> Result<String> {
    fs::write(path, serde_json::to_vec_pretty(value)?)?;
    Ok(path.display().to_string())
}
