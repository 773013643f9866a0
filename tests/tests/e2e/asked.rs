//! Pods that are asked for without a pause while something else goes on: each is to be injected.

use super::world::eventually;
use futures_util::future::join_all;
use policy_tests::cluster::node::Node;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Pods of one round.
const AT_ONCE: usize = 10;

/// Pause between rounds.
const PAUSE: Duration = Duration::from_millis(500);

/// Request for a pod, with the reason if it was not made as it should be.
#[derive(Clone, Debug)]
struct Asked {
    begun: Instant,
    refused: Option<String>,
}

/// Pods that are asked for, until it is dropped.
pub(crate) struct Pods {
    asked: Arc<Mutex<Vec<Asked>>>,
    _ends: DropGuard,
}

impl Pods {
    /// Asks for pods of a namespace that wants sidecars. Webhooks are called for them as for any other,
    /// and nothing is kept (`dryRun`).
    pub(crate) fn ask(node: &'static Node, namespace: &str) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let ends = CancellationToken::new();
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        let task = {
            let asked = Arc::clone(&asked);
            async move {
                loop {
                    let round = join_all((0..AT_ONCE).map(|number| one(node, &path, number))).await;
                    asked.lock().unwrap().extend(round);
                    sleep(PAUSE).await;
                }
            }
        };
        tokio::spawn(ends.clone().run_until_cancelled_owned(task));
        Self { asked, _ends: ends.drop_guard() }
    }

    /// Reasons why pods requested after `since` were not made, as soon as there was a whole round.
    pub(crate) async fn refused_since(&self, since: Instant) -> Vec<String> {
        let found = || -> Vec<Asked> {
            let asked = self.asked.lock().unwrap();
            asked.iter().filter(|asked| asked.begun > since).cloned().collect()
        };
        eventually("pods are asked for", true, async || found().len() >= AT_ONCE).await;
        found().into_iter().filter_map(|asked| asked.refused).collect()
    }
}

/// Asks for a pod.
async fn one(node: &Node, path: &str, number: usize) -> Asked {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("asked-{number}")},
        "spec": {"containers": [{"name": "app", "image": "none.example/none"}]},
    });
    let begun = Instant::now();
    let refused = match node.objects().post(path, &pod).await {
        Ok(made) if made["metadata"]["labels"]["portcullis.dev/proxy"] == "injected" => None,
        Ok(made) => Some(format!("without a sidecar: {}", made["spec"]["initContainers"])),
        Err(error) => Some(format!("{error:#}")),
    };
    Asked { begun, refused }
}
