//! A backup of etcd is restored under running replicas.

use super::line::Line;
use super::watching::Watch;
use super::{PATIENCE, free, grant, replica, server, shop};
use policy_core::ServerPolicy;
use policy_proto::messages::Revision;
use policy_proto::native::PortState;
use policy_tests::cluster::{Cluster, cluster_or_skip};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Client that holds the policy of a pod.
struct Client {
    watch: Watch,
    state: PortState,
    revision: Revision,
    policy: Arc<ServerPolicy>,
}

impl Client {
    async fn open(workload: &str, at: SocketAddr) -> Self {
        let mut watch = Watch::open(workload, at, &BTreeMap::new()).await.unwrap();
        let mut state = PortState::default();
        let (revision, policy) = watch.next(8080, &mut state, PATIENCE).await.unwrap();
        Self { watch, state, revision, policy }
    }

    /// Waits until it has this many grants, in the epoch or in another one.
    async fn until(&mut self, grants: usize, epoch: Result<&str, &str>) {
        let of_epoch = |revision: &Revision| match epoch {
            Ok(same) => revision.epoch == same,
            Err(other) => revision.epoch != other,
        };
        while self.policy.authorizations.len() != grants || !of_epoch(&self.revision) {
            let next = self.watch.next(8080, &mut self.state, PATIENCE).await;
            (self.revision, self.policy) = next.unwrap_or_else(|| {
                panic!("never {grants} {epoch:?}: {:?} {:?}", self.revision, self.policy)
            });
        }
    }
}

fn other_grant(shop: &str) -> String {
    grant(shop).replace("name: everybody", "name: others")
}

/// Enough writes that the versions of the backup are far behind.
async fn much_happens(cluster: &Cluster, shop: &str) {
    for number in 0..20 {
        let other = server(shop, "HTTP/1").replace("app: web", &format!("app: other{number}"));
        cluster.apply(&other.replace("name: web,", "name: elsewhere,")).await.unwrap();
    }
}

#[tokio::test]
async fn a_restored_backup_begins_an_epoch_and_no_replica_that_lags_behind_undoes_what_follows() {
    let Some(mut cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a"]).await;
    cluster.apply(&grant(&shop)).await.unwrap();
    let [current, lagging, _] = free();
    let all = [current, lagging];
    let line = Line::to(cluster.kubeconfig(), cluster.folder()).await;
    let first = replica(cluster.kubeconfig(), &home, current, &all).await;
    let second = replica(line.kubeconfig(), &home, lagging, &all).await;
    let backup = cluster.back_up().await.unwrap();

    // Both replicas have what is not in the backup.
    let workload = format!("{shop}:a");
    let mut client = Client::open(&workload, current).await;
    let before = client.revision.epoch.clone();
    much_happens(&cluster, &shop).await;
    cluster.apply(&other_grant(&shop)).await.unwrap();
    client.until(2, Ok(&before)).await;
    Client::open(&workload, lagging).await.until(2, Ok(&before)).await;

    // One of them hears of the restore.
    line.freeze();
    cluster.restore(&backup).await.unwrap();
    client.until(1, Err(&before)).await;
    cluster.delete(&grant(&shop)).await.unwrap();
    client.until(0, Err(&before)).await;

    // The other one goes on with what there was before, and does not give it to a client that has more.
    let old = Client::open(&workload, lagging).await;
    assert_eq!((old.policy.authorizations.len(), &old.revision.epoch), (2, &before));
    let has = BTreeMap::from([(8080, client.revision.clone())]);
    let mut moved = Watch::open(&workload, lagging, &has).await.unwrap();
    let mut state = PortState::default();
    let sent = moved.next(8080, &mut state, Duration::from_secs(5)).await;
    assert!(sent.is_none(), "an older policy was sent: {sent:?}");

    // It comes to the epoch of the first. The Lease counts one restore, which both noticed.
    line.thaw();
    let mut moved = Client::open(&workload, lagging).await;
    moved.until(0, Ok(&client.revision.epoch)).await;
    assert_eq!(client.revision.epoch, format!("{before}.1"));
    for replica in [&first, &second] {
        assert_eq!(replica.ready().await.0, 200, "{}", replica.ready().await.1);
    }
}
