//! No reconnect ever widens: a client that goes from replica to replica, while permissions are taken
//! away in two watched namespaces and backups are restored, is never sent what was in force before.
//!
//! Everything between the watches and the client is the controller's own. Watches and storage are a
//! model, so that each watch of each replica can lag by itself.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test ends where it cannot go on"
)]

mod model;

use model::{CHANGING, PERMISSIONS, Replica, Store, WORLDS, settle};
use policy_core::{Revision, Source};
use policy_engine::hold::Hold;
use policy_engine::publish::{PortPolicy, SourceProgress};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A client, and the policy that it has in force.
struct Client {
    replica: usize,
    hold: Option<Hold>,
    applied: Revision,
    world: usize,
    permitted: BTreeSet<String>,
}

impl Client {
    /// The world that a policy is of, and what it permits.
    fn read(policy: &PortPolicy) -> (usize, BTreeSet<String>) {
        let grants = policy.policy.authorizations.iter();
        let names = grants.filter_map(|grant| match &grant.source {
            Source::Object(object) => Some(object.name().to_string()),
            Source::Default(_) => None,
        });
        let (worlds, permitted): (BTreeSet<String>, BTreeSet<String>) =
            names.partition(|name| name.starts_with('w'));
        let world = worlds
            .iter()
            .map(|name| name.trim_start_matches('w').parse().unwrap())
            .max()
            .unwrap_or(0);
        (world, permitted)
    }

    fn new(policy: &PortPolicy) -> Self {
        let (world, permitted) = Self::read(policy);
        let applied = policy.revision.clone();
        Self { replica: 0, hold: None, applied, world, permitted }
    }

    /// Connects to a replica, which decides whether it is held.
    fn connect(&mut self, number: usize, seen: &SourceProgress) {
        self.replica = number;
        self.hold = seen.is_behind(&self.applied).then(|| Hold::new(&self.applied, seen));
    }

    /// Applies the policy of the replica, unless it holds the client.
    fn take(&mut self, seen: &SourceProgress, policy: &PortPolicy) -> Result<(), TestCaseError> {
        if self.hold.as_ref().is_some_and(|hold| !hold.has_ended(seen)) {
            return Ok(());
        }
        self.hold = None;
        let (world, permitted) = Self::read(policy);
        prop_assert!(world >= self.world, "world {world} after {}", self.world);
        let (old, new) = (&self.applied, &policy.revision);
        if world == self.world {
            let wider: Vec<_> = permitted.difference(&self.permitted).collect();
            prop_assert!(wider.is_empty(), "{wider:?} again: {old:?}, then {new:?}");
        }
        (self.world, self.permitted, self.applied) = (world, permitted, new.clone());
        Ok(())
    }
}

/// An event of the test.
#[derive(Clone, Debug)]
enum Happens {
    Revoke(usize),
    /// Another object is written.
    Noise,
    Backup,
    Restore,
    Follow(usize, usize),
    FollowAll(usize),
    Look(usize),
    Connect(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..PERMISSIONS).prop_map(Happens::Revoke),
        2 => Just(Happens::Noise),
        1 => Just(Happens::Backup),
        1 => Just(Happens::Restore),
        6 => (0..2_usize, 0..CHANGING).prop_map(|(replica, watch)| Happens::Follow(replica, watch)),
        2 => (0..2_usize).prop_map(Happens::FollowAll),
        2 => (0..2_usize).prop_map(Happens::Look),
        6 => (0..2_usize).prop_map(Happens::Connect),
    ]
}

struct Stage {
    store: Store,
    backup: Store,
    replicas: [Replica; 2],
    client: Client,
}

impl Stage {
    async fn new() -> Self {
        let store = Store::new();
        let replicas = [Replica::start(&store).await, Replica::start(&store).await];
        let policy = replicas[0].policy().await;
        let client = Client::new(&policy);
        Self { backup: store.clone(), store, replicas, client }
    }

    /// Restores the backup. Each replica has read something since it was made: one that has not
    /// cannot notice, and has nothing that the storage does not have.
    async fn restore(&mut self) {
        if self.store.world + 1 == WORLDS {
            return;
        }
        self.store.revision += 1_000;
        self.store.lease.1 = self.store.revision;
        for replica in &mut self.replicas {
            replica.follow_all(&self.store).await;
            replica.look(&mut self.store).await;
            settle().await;
            replica.follow_all(&self.store).await;
        }
        let world = self.store.world + 1;
        self.store = Store { world, gone: Vec::new(), ..self.backup.clone() };
        self.store.there.insert(format!("w{world}"));
        self.store.revision += 1;
        self.backup = self.store.clone();
    }

    async fn step(&mut self, happens: Happens) -> Result<(), TestCaseError> {
        match happens {
            Happens::Revoke(number) => self.store.revoke(format!("i{number}")),
            Happens::Noise => self.store.revision += 3,
            Happens::Backup => self.backup = self.store.clone(),
            Happens::Restore => self.restore().await,
            Happens::Follow(replica, watch) => {
                self.replicas[replica].follow(&self.store, watch).await;
            }
            Happens::FollowAll(replica) => self.replicas[replica].follow_all(&self.store).await,
            Happens::Look(replica) => self.replicas[replica].look(&mut self.store).await,
            Happens::Connect(replica) => {
                let seen = self.replicas[replica].seen();
                self.client.connect(replica, &seen);
            }
        }
        settle().await;
        let replica = &self.replicas[self.client.replica];
        // In this order, as a session does: the policy is not older than what was seen.
        let seen = replica.seen();
        let policy = replica.policy().await;
        self.client.take(&seen, &policy)
    }

    /// Ends the events: both replicas become current, and the client with them.
    async fn ends_well(mut self) -> Result<(), TestCaseError> {
        for _ in 0..3 {
            for replica in &mut self.replicas {
                replica.follow_all(&self.store).await;
                replica.look(&mut self.store).await;
                settle().await;
                replica.follow_all(&self.store).await;
            }
        }
        let epochs = self.replicas.each_ref().map(|replica| replica.seen().revision.epoch.clone());
        prop_assert_eq!(&epochs[0], &epochs[1]);
        for number in 0..2 {
            let (seen, policy) =
                (self.replicas[number].seen(), self.replicas[number].policy().await);
            let (_, permitted) = Client::read(&policy);
            let mut expected = self.store.there.clone();
            expected.retain(|name| name.starts_with('i'));
            prop_assert_eq!(permitted, expected);
            self.client.connect(number, &seen);
            self.client.take(&seen, &policy)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_reconnect_ever_widens(steps in prop::collection::vec(happens(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut stage = Stage::new().await;
            for happens in steps {
                stage.step(happens).await?;
            }
            stage.ends_well().await
        })?;
    }
}
