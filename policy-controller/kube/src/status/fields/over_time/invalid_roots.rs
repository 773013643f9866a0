//! Roots that become invalid, and are corrected or deleted.

use super::*;

/// Ways to make the first root invalid: also those after which nobody can read which host it claimed.
fn mistakes() -> Vec<Value> {
    let with = |path: &str, value: Value| {
        let mut spec = first();
        *spec.pointer_mut(path).unwrap() = value;
        spec
    };
    vec![
        with("/routes/0/match", json!("//")),
        with("/virtualhost/aliases", json!(["h.example:80"])),
        with("/virtualhost", json!(7)),
        json!({"routes": []}),
        json!({"delegatedFrom": [{"fqdn": "elsewhere.example"}], "routes": 7}),
    ]
}

/// One bad edit of the owner gave the host to the next claimant, for good.
#[test]
fn a_root_that_becomes_invalid_keeps_its_host_denied_until_it_is_corrected_or_deleted() {
    for mistake in mistakes() {
        let mut cluster = Cluster::new();
        cluster.put("n1", first());
        cluster.put("n2", root(&[HOST], &["/"]));
        cluster.record();
        assert_eq!(cluster.answering("/"), ["n1"]);
        let claims = cluster.claims("n1");
        assert_eq!(claims.len(), 2);
        for correct in [true, false] {
            cluster.put("n1", mistake.clone());
            assert_eq!(cluster.answering("/"), [""; 0], "{mistake}");
            cluster.record();
            assert_eq!(cluster.answering("/"), [""; 0], "{mistake}, recorded");
            let mut kept = cluster.claims("n1");
            kept.sort();
            let mut before = claims.clone();
            before.sort();
            assert_eq!(kept, before, "{mistake}");
            let [waiting] = &cluster.claims("n2")[..] else { panic!("{:?}", cluster.roots) };
            assert_eq!([&*waiting[1], &waiting[3]], ["Inactive", "HostAlreadyClaimed"]);
            if correct {
                cluster.put("n1", first());
                assert_eq!(cluster.answering("/"), ["n1"], "{mistake}, corrected");
                cluster.record();
                assert_eq!(cluster.answering("/"), ["n1"], "{mistake}, corrected and recorded");
                assert_eq!(cluster.claims("n1"), claims, "{mistake}");
            }
        }
        cluster.delete("n1");
        assert_eq!(cluster.answering("/"), ["n2"], "{mistake}, deleted");
    }
}

#[test]
fn a_root_that_is_valid_without_a_host_gives_it_up_although_it_was_invalid_before() {
    let mut cluster = Cluster::new();
    cluster.put("n1", first());
    cluster.put("n2", root(&[HOST], &["/"]));
    cluster.record();
    cluster.put("n1", json!({"routes": []}));
    cluster.record();
    cluster.put("n1", root(&["first.example"], &["/"]));
    assert_eq!(cluster.answering("/"), ["n2"]);
    cluster.record();
    cluster.put("n1", first());
    cluster.record();
    assert_eq!(cluster.answering("/"), ["n2"], "it claims the host anew");
}

#[test]
fn a_root_whose_claim_was_never_recorded_keeps_nothing_while_it_is_invalid() {
    for recorded in [false, true] {
        let mut cluster = Cluster::new();
        cluster.put("n1", json!({"virtualhost": {"fqdn": HOST}, "routes": [{"match": "//"}]}));
        if recorded {
            cluster.record();
        }
        cluster.put("n2", root(&[HOST], &["/"]));
        assert_eq!(cluster.answering("/"), ["n2"]);
        cluster.record();
        assert_eq!(cluster.claims("n1"), [] as [[String; 4]; 0]);
        cluster.put("n1", first());
        cluster.record();
        assert_eq!(cluster.answering("/"), ["n2"], "it claims since it is valid");
    }
}

#[test]
fn an_invalid_root_keeps_no_claim_that_the_policy_does_not_admit() {
    let mut cluster = Cluster::new();
    cluster.put("n1", first());
    cluster.put("n2", root(&[HOST], &["/"]));
    cluster.record();
    cluster.put("n1", json!({"routes": []}));
    cluster.record();
    cluster.admit(json!({"rootNamespaces": ["n2", "n3"]}));
    assert_eq!(cluster.answering("/"), ["n2"]);
    cluster.record();
    assert_eq!(cluster.claims("n1"), [] as [[String; 4]; 0]);
    cluster.admit(json!({}));
    cluster.put("n1", first());
    cluster.record();
    assert_eq!(cluster.answering("/"), ["n2"], "the claim was lost, not only hidden");
}

#[test]
fn a_claim_that_waits_keeps_its_place_while_its_root_is_invalid() {
    let mut cluster = Cluster::new();
    for namespace in NAMESPACES {
        cluster.put(namespace, root(&[HOST], &["/"]));
    }
    cluster.record();
    cluster.put("n2", json!({"routes": []}));
    cluster.record();
    assert_eq!(cluster.answering("/"), ["n1"]);
    cluster.delete("n1");
    assert_eq!(cluster.answering("/"), [""; 0], "the second has it, and is invalid");
    cluster.put("n2", root(&[HOST], &["/"]));
    assert_eq!(cluster.answering("/"), ["n2"]);
}

#[test]
fn a_path_that_an_invalid_root_keeps_is_no_part_of_a_shorter_one() {
    let mut cluster = Cluster::new();
    cluster.admit(sharing());
    cluster.put("n1", root(&[HOST], &["/a"]));
    cluster.put("n2", root(&[HOST], &["/"]));
    cluster.record();
    assert_eq!((cluster.answering("/a/b"), cluster.answering("/c")), (vec!["n1"], vec!["n2"]));
    cluster.put("n1", json!({"routes": []}));
    cluster.record();
    assert_eq!((cluster.answering("/a/b"), cluster.answering("/c")), (vec![], vec!["n2"]));
}
