//! Waiting for pods, and saying everything about them when they do not come.

use super::definition::{Node, PATIENCE, Place};
use super::kubectl::Ended;
use super::settings::CONTAINERD;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// containerd's client.
const CTR: [&str; 5] = ["ctr", "--address", CONTAINERD, "--namespace", "k8s.io"];

/// Commands that were run in containers, each under a name of its own.
static EXECUTED: AtomicU64 = AtomicU64::new(0);

impl Node {
    /// The pod as it is; null: there is none.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Value> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
        });
        Ok(self.objects().get(&pod).await?.unwrap_or_default())
    }

    /// Waits until `holds` of the pod; null is what is not there.
    ///
    /// # Errors
    /// If it never does, with all that is known of the pod; `what` is what was waited for.
    pub async fn wait_pod(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pod = self.pod(namespace, name).await?;
            if holds(&pod) {
                return Ok(pod);
            }
            if Instant::now() > deadline {
                bail!("{namespace}/{name}: not {what}\n{}", self.report(namespace, name).await);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the pod is Ready.
    ///
    /// # Errors
    /// If it never is, with all that is known of it.
    pub async fn wait_ready(&self, namespace: &str, name: &str) -> Result<Value> {
        self.wait_pod(namespace, name, "Ready", ready).await
    }

    /// Waits until the pod has ended well.
    ///
    /// # Errors
    /// If it never does, with all that is known of it.
    pub async fn wait_succeeded(&self, namespace: &str, name: &str) -> Result<Value> {
        let succeeded = |pod: &Value| pod["status"]["phase"] == "Succeeded";
        self.wait_pod(namespace, name, "Succeeded", succeeded).await
    }

    /// Waits until a Deployment, StatefulSet or DaemonSet, such as `deployment/web`, is rolled out:
    /// as many pods of its present template are ready as it asks for, and no others are left.
    ///
    /// # Errors
    /// If it never is, with all that is known of the namespace's pods.
    pub async fn wait_rolled_out(&self, namespace: &str, workload: &str) -> Result<()> {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        let arguments = ["rollout", "status", "-n", namespace, workload, &timeout];
        let Err(error) = self.kubectl().run(&arguments).await else { return Ok(()) };
        bail!("{error:#}\n{}", self.report_all(namespace).await);
    }

    /// The names of the pods with a label, such as `app=web`, that are not being deleted.
    ///
    /// # Errors
    /// What kubectl says.
    pub async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<String>> {
        let arguments = ["get", "pods", "-n", namespace, "-l", selector, "-ojson"];
        let list: Value = serde_json::from_str(&self.kubectl().run(&arguments).await?)?;
        let items = list["items"].as_array().into_iter().flatten();
        let live = items.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(live.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }

    /// Deletes a namespace and what is in it, without waiting for that.
    ///
    /// # Errors
    /// What kubectl says.
    pub async fn remove_namespace(&self, namespace: &str) -> Result<()> {
        self.kubectl().run(&["delete", "namespace", namespace, "--wait=false"]).await?;
        Ok(())
    }

    /// Kills a container of a pod, as the kernel does that is out of memory; the kubelet starts it
    /// again.
    ///
    /// # Errors
    /// If there is no such container, or it cannot be killed.
    pub async fn kill_container(&self, namespace: &str, pod: &str, container: &str) -> Result<()> {
        self.signal_container(namespace, pod, container, "SIGKILL").await
    }

    /// Sends a signal, such as `SIGSTOP`, to the first process of a container of a pod.
    ///
    /// # Errors
    /// If there is no such container, or it does not run.
    pub async fn signal_container(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        signal: &str,
    ) -> Result<()> {
        let id = self.container_id(namespace, pod, container).await?;
        let command = [&CTR[..], &["tasks", "kill", "--signal", signal, &id]].concat();
        self.run_at(Place::Node, &command).await?.output()?;
        Ok(())
    }

    /// Returns containerd's name of a container that runs.
    ///
    /// # Errors
    /// If there is no such container.
    pub async fn container_id(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<String> {
        let found = self.pod(namespace, pod).await?;
        let status = &found["status"];
        let kinds = ["initContainerStatuses", "containerStatuses"];
        let statuses = kinds.iter().filter_map(|kind| status[kind].as_array()).flatten();
        let id = statuses
            .filter(|status| status["name"] == container)
            .find_map(|status| status["containerID"].as_str()?.strip_prefix("containerd://"));
        let Some(id) = id else {
            bail!("{namespace}/{pod} has no container {container}: {status}")
        };
        Ok(id.to_owned())
    }

    /// Runs a command in a container, to its end, without the API server.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run_in_container(&self, id: &str, command: &[&str]) -> Result<Ended> {
        let name = format!("exec-{}", EXECUTED.fetch_add(1, Ordering::Relaxed));
        let exec = [&CTR[..], &["tasks", "exec", "--exec-id", &name, id], command].concat();
        self.run_at(Place::Node, &exec).await
    }

    /// Returns what a container has said so far, without the API server.
    ///
    /// # Errors
    /// If the node's files cannot be read.
    pub async fn said(&self, namespace: &str, pod: &str, container: &str) -> Result<Vec<String>> {
        let files = format!("/var/log/pods/{namespace}_{pod}_*/{container}/*.log");
        // A container that has not started has no file.
        let command = ["sh", "-c", &format!("cat {files} 2>/dev/null || true")];
        let log = self.run_at(Place::Node, &command).await?.output()?;
        // Each line has its time, its stream and a letter before it.
        let text = |line: &str| line.splitn(4, ' ').nth(3).map(str::to_owned);
        Ok(log.lines().filter_map(text).collect())
    }

    /// All that is known of a pod: events, state, logs of its containers.
    pub async fn report(&self, namespace: &str, name: &str) -> String {
        let described = self.kubectl().ended(&["describe", "pod", "-n", namespace, name]).await;
        let logs = ["logs", "-n", namespace, name, "--all-containers", "--prefix", "--tail=40"];
        let logs = self.kubectl().ended(&logs).await;
        let text = |ended: Result<Ended>| match ended {
            Ok(ended) => ended.stdout + &ended.stderr,
            Err(error) => format!("{error:#}"),
        };
        format!("{}\n{}", text(described), text(logs))
    }

    /// All that is known of the pods of a namespace.
    pub async fn report_all(&self, namespace: &str) -> String {
        let listed = self.kubectl().run(&["get", "pods", "-n", namespace, "-oname"]).await;
        let mut report = String::new();
        for name in listed.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("pod/"))
        {
            report.push_str(&self.report(namespace, name).await);
        }
        report
    }
}

/// True if a pod is Ready.
pub fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
