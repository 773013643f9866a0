//! The times of claims over a history of edits, with what the leader records in between.

use super::{World, bytes, compiled, permitted, proptest};
use policy_core::HostPattern;
use policy_crds::resource::{PathPrefix, Recorded};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use policy_engine::Compiled;
use policy_engine::testing::trees::HOSTS;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Paths of hosts, with the roots that hold them.
type Held = BTreeSet<(String, String, ObjectKey)>;

fn held(compiled: &Compiled) -> Held {
    let mut held = Held::new();
    for host in HOSTS.map(HostPattern::parse) {
        let claims = compiled.claims_on(&host);
        let active = claims.in_order().into_iter().filter(|claim| claim.is_active());
        held.extend(
            active
                .map(|claim| (claim.host.to_string(), claim.path.to_string(), claim.root.clone())),
        );
    }
    held
}

/// The times that the leader records in the status of each InboundRoute.
#[derive(Default)]
struct Statuses(BTreeMap<ObjectKey, Arc<Recorded>>);

impl Statuses {
    /// Compiles objects with their statuses, and records their state at this time.
    fn record(&mut self, mut objects: Vec<Object>, now: i64) -> Compiled {
        for object in &mut objects {
            if let Some(recorded) = self.0.get(&object.meta.key) {
                object.meta.recorded = Some(recorded.clone());
            }
        }
        let compiled = compiled(objects.clone());
        for object in &objects {
            let key = &object.meta.key;
            if key.kind != Kind::InboundRoute {
                continue;
            }
            let postponed = matches!(object.body, Body::Invalid(_));
            let mut recorded = Recorded { postponed, ..Recorded::default() };
            for claim in compiled.delegation_state(key).claims.iter() {
                if claim.admitted {
                    let time = claim.claimed_at.unwrap_or(now);
                    recorded.claims.insert((claim.host.clone(), claim.path.clone()), time);
                } else {
                    assert_eq!(claim.claimed_at, None, "{key} {claim:?}");
                    recorded.postponed = true;
                }
            }
            self.0.insert(key.clone(), Arc::new(recorded));
        }
        compiled
    }
}

/// 2026-02-01, after the creation of all objects.
const LATER: i64 = 1_769_904_000;

fn still_held(before: &Held, after: &Compiled) -> Result<(), String> {
    let after = held(after);
    let mut lost = before.difference(&after);
    lost.next().map_or(Ok(()), |lost| Err(format!("{lost:?} is lost: {after:?}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// An edit of the RouteAdmissionPolicy that admits more takes no path from its holder.
    #[test]
    fn a_claim_that_the_policy_admits_later_comes_behind_all_that_hold(data in bytes()) {
        let wide = World::read(&data);
        for narrow in wide.with_narrower_admission() {
            let mut statuses = Statuses::default();
            let before = held(&statuses.record(narrow.objects(), LATER));
            for now in [LATER + 1, LATER + 2] {
                let after = statuses.record(wide.objects(), now);
                prop_assert_eq!(still_held(&before, &after), Ok(()), "{:?}", narrow);
            }
        }
    }

    /// A root that becomes invalid keeps its paths: nobody else gets one, no request more is permitted,
    /// and the root has them again when it is corrected.
    #[test]
    fn a_root_that_becomes_invalid_keeps_its_paths_and_opens_nothing(data in bytes()) {
        prop_assert_eq!(keeps_and_opens_nothing(&data), Ok(()));
    }
}

fn keeps_and_opens_nothing(data: &[u8]) -> Result<(), String> {
    let world = World::read(data);
    for (broken, corrected) in world.with_a_broken_root() {
        let mut statuses = Statuses::default();
        statuses.record(world.objects(), LATER);
        let valid = statuses.record(world.objects(), LATER + 1);
        let (before, may) = (held(&valid), permitted(&world, &valid));
        for now in [LATER + 2, LATER + 3] {
            let during = statuses.record(broken.objects(), now);
            let added = permitted(&broken, &during).difference(&may).next().cloned();
            if held(&during) != before || added.is_some() {
                return Err(format!("{added:?} is permitted: {broken:?}"));
            }
        }
        for now in [LATER + 4, LATER + 5] {
            let after = statuses.record(corrected.objects(), now);
            if held(&after) != before || permitted(&corrected, &after) != may {
                return Err(format!("it is not as before: {corrected:?}"));
            }
        }
    }
    Ok(())
}

/// An earlier root of another namespace handed a path down to the namespace of the root that broke. Its
/// tree answered below the path that the invalid root keeps.
#[test]
fn what_an_invalid_root_keeps_no_earlier_tree_answers_in_its_namespace() {
    let data = [
        1, 109, 0, 1, 0, 78, 1, 84, 0, 1, 0, 0, 21, 133, 163, 1, 0, 6, 63, 3, 0, 28, 0, 43, 1, 1,
        1, 84, 0, 1, 0, 126, 0, 109, 126, 8, 0, 0, 0, 32, 1, 31, 31, 84, 0, 0, 0, 0, 138, 76, 127,
        2, 73, 48, 39, 33, 109, 0, 1, 0, 49, 84, 0, 1, 0, 0, 84, 0, 19, 145, 53, 55, 140, 0, 3, 0,
        3, 0, 0, 0, 0, 0, 49, 0, 0, 0, 6, 0, 0, 1, 8, 52, 1, 17, 0, 35, 6, 0, 0, 0, 0, 0, 18, 7,
        48, 4, 0, 0, 0, 0, 49, 192, 180, 8, 0, 255, 1, 0, 1, 254, 0, 0, 28, 0, 0, 0, 1, 1, 0, 0, 6,
        0, 0, 22, 0, 0, 0, 0, 74, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 40, 0, 0, 1, 1, 0,
        1, 0, 0, 0, 14, 0, 0, 0, 0, 4, 5, 148, 54, 18, 217, 87, 180, 199, 120, 235, 105, 89, 103,
        88, 239, 250, 94, 163, 38, 59, 126, 48, 227, 254, 187, 184, 122, 26, 188, 183, 194, 65,
        202, 4, 48, 140, 108, 179, 170, 183, 194, 212, 229, 97, 5, 50, 252, 43, 162, 32, 137, 197,
        18, 103, 223, 39, 77, 145, 142, 19, 255, 241, 142, 234, 172, 4, 75, 3, 178, 110, 148, 68,
        191, 141, 20, 227, 182, 107, 246, 111, 89, 91, 137, 255, 113, 39, 50, 117, 231, 92, 234,
        48, 105, 1, 202, 209, 178, 251, 59, 247, 254, 196, 140, 5, 150, 63, 134, 182, 29, 154, 202,
        185, 247, 129, 223, 63, 123, 99, 75, 48, 209, 121, 79, 162, 101, 147, 8, 213, 92, 200, 97,
        178, 211, 117, 43, 197, 176, 42, 175, 58, 145, 17, 35, 52, 32, 4, 44, 197, 167, 68, 81,
        121, 79, 146, 221, 186, 133, 128, 28, 3, 29, 147, 103, 117, 12, 8, 133, 182, 232, 38, 206,
        31, 192, 68, 15, 165, 235, 237, 6, 252, 85, 79, 37, 172, 87, 44, 85, 223, 88, 46, 197, 5,
        100, 167, 165, 176, 109, 219, 136, 116, 250, 180, 186, 212, 116, 200, 177, 96, 192, 159,
        41, 161, 131, 241, 1, 108, 59, 1, 42, 152, 200, 35, 104, 183, 167, 174, 250, 62, 206, 190,
        197, 226, 164, 236, 42, 112, 7, 192, 71, 79, 34, 114, 56, 59, 230, 201, 157, 61, 73, 97, 0,
        17, 174, 183, 37, 33, 116, 217, 13, 197, 87, 78, 196, 182, 155, 158, 234, 188, 4, 87, 7,
        184, 243, 184, 5, 236, 156, 28, 190, 135, 230, 24, 200, 17, 70, 92, 14, 95, 9, 225, 193,
        167, 6, 17, 3, 122, 224, 240, 143, 15, 120, 122, 26, 18, 121, 9, 187, 225, 192, 13, 90, 27,
        57, 33, 24, 31, 83, 169, 58, 212, 227, 113, 149, 87, 156, 204, 12, 178, 26, 139, 227, 54,
        197, 109, 48, 150, 130, 53, 58, 123, 160, 166, 98, 122, 109, 182, 87, 114, 93, 133, 234,
        50, 138, 11, 99, 60, 36, 2, 132, 35, 71, 209, 238, 28, 188, 192, 175, 231, 24, 244, 211,
        129, 244, 112, 34, 187, 30, 198, 9, 191, 82, 211, 169, 155, 183, 226, 173, 82, 21, 58, 227,
        220, 148, 231, 112, 220, 96, 93, 246, 193, 67, 180, 197, 212, 41, 224, 114, 156, 226, 223,
        63, 127, 147, 129, 73, 233, 165, 101, 33, 147, 143, 253, 217, 187, 21, 37, 71, 222, 206,
        180,
    ];
    assert_eq!(keeps_and_opens_nothing(&data), Ok(()));
}

/// A root of a namespace with these paths, of this generation.
fn root(namespace: &str, created: u8, generation: u8, paths: &[&str]) -> Object {
    let rules = paths.iter().map(|path| format!("{{match: {path}, servers: [{{name: web}}]}}"));
    let rules = rules.collect::<Vec<_>>().join(", ");
    let text = format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: root, namespace: {namespace}, generation: {generation}, \
         creationTimestamp: '2026-01-01T00:00:0{created}Z'}}\n\
         spec: {{virtualhost: {{fqdn: a.io}}, routes: [{rules}]}}"
    );
    super::common::objects(&[&text]).remove(0)
}

fn admission(spec: &str) -> Object {
    let text = format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: RouteAdmissionPolicy\n\
         metadata: {{name: default}}\nspec: {{{spec}}}"
    );
    super::common::objects(&[&text]).remove(0)
}

/// The namespaces and paths of active claims.
fn owners(compiled: &Compiled) -> Vec<(String, String)> {
    held(compiled).into_iter().map(|(_, path, root)| (root.namespace.to_string(), path)).collect()
}

fn pair(namespace: &str, path: &str) -> (String, String) {
    (namespace.to_owned(), path.to_owned())
}

/// The older root of a namespace without roots waited for the policy, and took the host of another.
#[test]
fn a_parked_claim_has_no_time_although_its_root_is_older_and_was_never_edited() {
    let objects =
        |spec: &str| vec![root("old", 0, 1, &["/"]), root("new", 1, 1, &["/"]), admission(spec)];
    let mut statuses = Statuses::default();
    let closed = statuses.record(objects("rootNamespaces: [new]"), LATER);
    assert_eq!(owners(&closed), [pair("new", "/")]);
    let open = statuses.record(objects("rootNamespaces: []"), LATER + 1);
    assert_eq!(owners(&open), [pair("new", "/")]);
    let without_new = |spec: &str| {
        objects(spec).into_iter().filter(|o| &*o.meta.key.namespace != "new").collect()
    };
    let gone = statuses.record(without_new("rootNamespaces: []"), LATER + 2);
    assert_eq!(owners(&gone), [pair("old", "/")]);
    // Without the status of an earlier policy the creation counts.
    let fresh = Statuses::default().record(objects("rootNamespaces: []"), LATER);
    assert_eq!(owners(&fresh), [pair("old", "/")]);
}

/// A status does not have all claims of a root with many long paths. Those that it leaves out began no
/// earlier than those that it has.
#[test]
fn a_claim_that_the_status_leaves_out_is_no_older_than_those_that_it_has() {
    let mut long = root("old", 0, 1, &["/", "/a"]);
    let host = HostPattern::parse("a.io");
    let shown = PathPrefix::parse("/").unwrap();
    let of = |time| {
        Arc::new(Recorded {
            claims: [((host.clone(), shown.clone()), time)].into(),
            ..Recorded::default()
        })
    };
    let shared = admission("namespaceOwnership: InterNamespaceAllowed");
    for (time, owner) in [(LATER, "new"), (1_767_225_600, "old")] {
        long.meta.recorded = Some(of(time));
        let compiled =
            compiled(vec![long.clone(), root("new", 1, 1, &["/", "/a"]), shared.clone()]);
        let owners = owners(&compiled);
        assert!(owners.contains(&pair(owner, "/a")), "{owners:?}");
    }
}

/// A root that was invalid from its creation, and that a later version of the controller can read, took
/// the host of another.
#[test]
fn a_root_that_was_never_valid_before_has_not_claimed_since_its_creation() {
    let mut old = root("old", 0, 1, &["/"]);
    let new = root("new", 1, 1, &["/"]);
    old.meta.recorded = Some(Arc::new(Recorded { postponed: true, ..Recorded::default() }));
    assert!(matches!(old.body, Body::Valid(Resource::InboundRoute(_))));
    assert_eq!(owners(&compiled(vec![old, new])), [pair("new", "/")]);
}

/// The owner of a host moved its one path, and the next claimant had the host.
#[test]
fn the_owner_of_a_host_has_a_new_path_since_it_claimed_the_host() {
    let mut statuses = Statuses::default();
    let strict = |paths: &[&str]| vec![root("one", 0, 2, paths), root("two", 1, 1, &["/b"])];
    // It has no time yet, and is behind the other.
    let first =
        statuses.record(vec![root("one", 0, 1, &["/a"]), root("two", 1, 1, &["/b"])], LATER);
    assert_eq!(owners(&first), [pair("one", "/a")]);
    assert_eq!(owners(&statuses.record(strict(&["/b"]), LATER + 1)), [pair("one", "/b")]);
    // Where paths are shared, a path is claimed on its own.
    let mut statuses = Statuses::default();
    let shared = |generation, path: &str| {
        let admission = admission("namespaceOwnership: InterNamespaceAllowed");
        vec![root("one", 0, generation, &[path]), root("two", 1, 1, &["/b"]), admission]
    };
    statuses.record(shared(1, "/a"), LATER);
    assert_eq!(owners(&statuses.record(shared(2, "/b"), LATER + 1)), [pair("two", "/b")]);
}

/// The owner read what is wrong with its object, and not that its host stays closed meanwhile.
#[test]
fn an_invalid_root_says_which_hosts_it_keeps_and_others_learn_no_name() {
    let mut old = root("old", 0, 2, &["//"]);
    let keep = |text: &str| (HostPattern::parse(text), PathPrefix::parse("/").unwrap());
    let claims = [(keep("a.io"), LATER), (keep("b.io"), LATER), (keep("c.io"), 0)].into();
    old.meta.recorded = Some(Arc::new(Recorded { claims, ..Recorded::default() }));
    let compiled = compiled(vec![old.clone(), root("new", 1, 2, &["/"])]);
    assert_eq!(owners(&compiled), [pair("old", "/"), pair("old", "/")]);
    let told = |namespace: &str| {
        let key = ObjectKey { namespace: namespace.into(), ..old.meta.key.clone() };
        let first = &compiled.conditions[&key][0];
        format!("{}: {}", first.reason.as_str(), first.message)
    };
    let own = told("old");
    assert!(own.starts_with("Invalid: spec.routes[0].match: "), "{own}");
    let kept = "; it keeps what it claimed of these hosts, denied, until it is corrected or deleted: \
                a.io, b.io";
    assert!(own.ends_with(kept), "{own}");
    assert_eq!(
        told("new"),
        "HostAlreadyClaimed: a root in another namespace holds a.io and claimed it earlier"
    );
}
