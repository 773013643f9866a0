//! An object that breaks opens nothing, through a real API server without a webhook: what it lets pass and
//! stores, what it prunes, and what the watch tells of it.

use super::source::followed::{Followed, config};
use policy_crds::{Body, Object};
use policy_testkit::long_or;
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip};
use policy_tests::invalid_objects::{Random, World, is_invalid, mutate, worlds};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Objects that break, in all.
const BROKEN: usize = 100;

/// Objects that break in one world.
const EACH: usize = 10;

/// Changes that are tried for one that an API server stores and that breaks its object.
const TRIES: usize = 40;

#[tokio::test]
async fn what_an_api_server_stores_of_an_object_that_breaks_opens_nothing() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let control_plane = cluster.namespace("control-plane").await.unwrap();
    let mut followed = Followed::start(cluster.client(), config(&control_plane)).await;
    followed.synced(1).await;
    let count = long_or("STORED", BROKEN);
    let worlds = worlds().into_iter().filter(World::is_plain);
    let worlds: Vec<World> = worlds.filter(|world| !has_smi(world)).collect();
    let step = (worlds.len() / count.div_ceil(EACH) / 3).max(1);
    let (mut closed, mut opened) = (0, Vec::new());
    for (seed, world) in worlds.iter().step_by(step).enumerate() {
        if closed >= count {
            break;
        }
        let objects = cluster.objects();
        if let Err(refused) = create(&objects, world).await {
            println!("{}: {refused:#}", world.name);
            remove(&objects, world).await;
            continue;
        }
        followed
            .until(&world.name, |seen| {
                (0..world.values().len()).all(|number| seen.objects.contains_key(world.key(number)))
            })
            .await;
        let seen = |followed: &Followed, key: &_| {
            followed.seen.objects.get(key).map(|object| Object::clone(object))
        };
        let stored = world.with(|key| seen(&followed, key)).unwrap();
        let mut random = Random::new(seed);
        let mut broken = 0;
        for _ in 0..TRIES {
            if broken == EACH || stored.refused().is_empty() {
                break;
            }
            let (number, before) = stored.any_valid(&mut random);
            let (after, mutation) = mutate(before, &mut random);
            if mutation.says_all_itself(before) {
                continue;
            }
            // What it refuses, as by the schema, breaks nothing.
            let Some(version) = replace(&objects, &after).await else { continue };
            let key = stored.key(number).clone();
            let told = |seen: &super::source::followed::Seen| {
                seen.versions.get(&key.kind).is_some_and(|newest| *newest >= version)
            };
            followed.until(&format!("{mutation}"), told).await;
            let found = followed.seen.objects.get(&key).unwrap();
            if is_invalid(found) {
                broken += 1;
                let found = stored.recorded(number, Object::clone(found));
                if let Some(request) = stored.newly_permitted(number, found) {
                    opened.push(format!("{}: {mutation}\n  permitted: {request}", world.name));
                }
            }
            let Some(version) = replace(&objects, before).await else {
                panic!("{}: {key} cannot be restored", world.name)
            };
            let restored = |seen: &super::source::followed::Seen| {
                seen.versions.get(&key.kind).is_some_and(|newest| *newest >= version)
                    && seen.is(&key, |object| matches!(object.body, Body::Valid(_)))
            };
            followed.until("the object as it was", restored).await;
        }
        closed += broken;
        remove(&objects, world).await;
        followed
            .until("no object", |seen| {
                (0..world.values().len())
                    .all(|number| !seen.objects.contains_key(world.key(number)))
            })
            .await;
    }
    println!("{closed} objects broke");
    assert!(closed >= count, "too few objects broke: {closed}");
    assert!(opened.is_empty(), "{} requests were opened\n{}", opened.len(), opened.join("\n"));
}

/// True for objects of SMI, in versions that its last definitions do not serve any more.
fn has_smi(world: &World) -> bool {
    let group = |value: &Value| value["apiVersion"].as_str().map(str::to_owned);
    world.values().iter().filter_map(group).any(|group| group.contains(".smi-spec.io/"))
}

/// Creates the objects of a world, with their statuses, in namespaces that are there.
///
/// # Errors
/// Some are not valid for an API server.
async fn create(objects: &Objects, world: &World) -> anyhow::Result<()> {
    for name in namespaces(world) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        objects.apply_one(&namespace).await?;
    }
    for value in world.values() {
        objects.apply_with_status(&served(value).to_string()).await?;
    }
    Ok(())
}

/// Deletes what there is of a world.
async fn remove(objects: &Objects, world: &World) {
    for value in world.values().iter().filter(|value| value["kind"] != "Namespace") {
        objects.delete(&served(value).to_string()).await.unwrap();
    }
    for name in namespaces(world) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        objects.delete(&namespace.to_string()).await.unwrap();
    }
}

/// The namespaces of the objects of a world.
fn namespaces(world: &World) -> BTreeSet<String> {
    let own = |value: &Value| {
        let is_namespace = value["kind"] == "Namespace";
        let field = if is_namespace { "name" } else { "namespace" };
        value["metadata"][field].as_str().map(str::to_owned)
    };
    world.values().iter().filter_map(own).collect()
}

/// An object in a version that the installed definitions serve.
fn served(value: &Value) -> Value {
    let mut value = value.clone();
    if value["kind"] == "ReferenceGrant" {
        value["apiVersion"] = "gateway.networking.k8s.io/v1beta1".into();
    }
    value
}

/// Replaces an object, and returns its version; absent: it is refused. Unknown fields are left out, as by
/// clients that do not ask otherwise.
async fn replace(objects: &Objects, value: &Value) -> Option<u64> {
    let stored = objects.replace(&served(value)).await.ok()?;
    stored["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
