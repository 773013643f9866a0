//! Publishing without an API server, and without an endorsement that proxies would accept.

#![allow(clippy::arithmetic_side_effects, reason = "test numbers are small")]

use super::super::authority::{Authority, PemSources, generate};
use super::*;
use policy_kube::testing::{answer, client, refused, refusing_client};
use std::time::Duration;

fn authority() -> (Authority, String) {
    let made = generate("a", SystemTime::now(), Duration::from_secs(86_400)).unwrap();
    let places = PemSources { certificate: "c".into(), key: "k".into(), roots: "r".into() };
    let (certificate, key) = (made.certificate.as_bytes(), made.key.as_bytes());
    (Authority::read(places, certificate, key, certificate).unwrap(), made.certificate)
}

#[tokio::test]
async fn copies_keep_who_vouched_for_them_where_nobody_can_vouch_anew() {
    let now = SystemTime::now();
    let (authority, root) = authority();
    let roots = Roots::new(refusing_client(), CONFIG_MAP, "mesh", RootsScope::Injected);
    assert!(roots.endorse(&root, &authority, now).await.is_err());
    assert_eq!(roots.last_endorsed(&root), None, "nothing is known, so nothing is written");
    let document = endorse::endorse(None, &root, &authority, now).unwrap();
    let copy = Bundle { bundle: root.clone(), signed: Some(endorse::encode(&document)) };
    let home = roots.writer.map_of(None, &copy);
    roots.cache.lock().maps.insert("mesh".to_owned(), home);
    assert!(roots.endorse(&root, &authority, now).await.is_err());
    assert_eq!(roots.last_endorsed(&root), Some(copy));
}

#[tokio::test]
async fn what_an_authority_says_that_nobody_knows_overwrites_nothing() {
    let now = SystemTime::now();
    let ((old, first), (new, second)) = (authority(), authority());
    let document = endorse::endorse(None, &first, &old, now).unwrap();
    let copy = Bundle { bundle: first, signed: Some(endorse::encode(&document)) };
    let named = Roots::new(refusing_client(), CONFIG_MAP, "mesh", RootsScope::Injected);
    let home = serde_json::to_value(named.writer.map_of(None, &copy)).unwrap();
    let writes = Arc::new(Mutex::new(0_u32));
    let counted = writes.clone();
    let server = client(move |request| match request.method().as_str() == "GET" {
        true => answer(200, &home),
        false => {
            *counted.lock() += 1;
            refused(403)
        }
    });
    let roots = Roots::new(server, CONFIG_MAP, "mesh", RootsScope::Injected);
    let error = roots.endorse(&second, &new, now).await.unwrap_err().to_string();
    assert!(error.contains("supply the former authority and the roots of both first"), "{error}");
    assert_eq!(*writes.lock(), 0);
}

#[tokio::test]
async fn an_immutable_copy_is_deleted_and_made_anew_except_the_control_planes_own() {
    let copy = Bundle { bundle: "roots".to_owned(), signed: None };
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, made) = (asked.clone(), serde_json::json!({"metadata": {"name": CONFIG_MAP}}));
    let server = client(move |request| {
        log.lock().push(format!("{} {}", request.method(), request.uri().path()));
        match request.method().as_str() {
            "PUT" => refused(422),
            _ => answer(200, &made),
        }
    });
    let writer = Roots::new(server, CONFIG_MAP, "mesh", RootsScope::Injected).writer;
    let fixed = || {
        let mut map = writer.map_of(None, &copy);
        (map.immutable, map.metadata.uid) = (Some(true), Some("u".to_owned()));
        Some(map)
    };
    let restored = writer.write("shop", fixed(), &copy).await;
    assert!(matches!(restored, WriteResult::Restored(_)));
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let one = |namespace: &str| format!("{}/{CONFIG_MAP}", maps(namespace));
    let expected = [format!("DELETE {}", one("shop")), format!("POST {}", maps("shop"))];
    assert_eq!(*asked.lock(), expected);
    asked.lock().clear();
    let own = writer.write("mesh", fixed(), &copy).await;
    assert!(matches!(own, WriteResult::Refused(why) if why == "no (422)"));
    assert_eq!(*asked.lock(), [format!("PUT {}", one("mesh"))]);
}

/// Editors of a namespace write a mebibyte into their ConfigMap, and a quarter of one into each pod.
#[tokio::test]
async fn what_editors_of_a_namespace_write_is_kept_in_bounds_and_others_keep_their_roots() {
    let copy = Bundle { bundle: "roots".to_owned(), signed: None };
    let roots = Roots::new(refusing_client(), CONFIG_MAP, "mesh", RootsScope::Injected);
    let right = |namespace: &str| {
        let mut map = roots.writer.map_of(None, &copy);
        map.metadata.namespace = Some(namespace.to_owned());
        map
    };
    let texts = |count: usize, bytes: usize| -> BTreeMap<String, String> {
        (0..count).map(|number| (format!("key-{number}"), "a".repeat(bytes))).collect()
    };
    let mut large = right("evil");
    large.data.as_mut().unwrap().insert("more".to_owned(), "a".repeat(1_000_000));
    large.metadata.annotations = Some(texts(4, 60_000));
    large.metadata.labels.as_mut().unwrap().extend(texts(4000, 63));
    let mut kept = right("shop");
    kept.metadata.annotations = Some(texts(1, 1000));
    for map in [&large, &right("mesh"), &kept] {
        let mut map = map.clone();
        to_roots(&mut map);
        roots.map(ObjectEvent::Applied(map));
    }
    let (others, wrong) = roots.compare(&copy);
    assert_eq!(others, BTreeSet::from(["mesh".to_owned(), "shop".to_owned()]));
    let [(namespace, Some(map))] = &*wrong else { panic!("{wrong:?}") };
    assert_eq!(namespace, "evil");
    assert!(serde_json::to_string(map).unwrap().len() < 1000, "{map:?}");
    assert_eq!(roots.cache.lock().maps.get("shop"), Some(&kept));

    let mut pod = Pod::default();
    pod.metadata = kube::api::ObjectMeta {
        name: Some("web".to_owned()),
        namespace: Some("evil".to_owned()),
        annotations: Some(texts(4, 60_000)),
        labels: Some(texts(4000, 63)),
        ..pod.metadata
    };
    to_injection(&mut pod);
    assert!(serde_json::to_string(&pod).unwrap().len() < 200, "{pod:?}");
}

#[tokio::test]
async fn only_what_a_namespace_can_cause_is_a_refusal() {
    for (code, is_refusal) in
        [(403, true), (409, true), (422, true), (429, false), (500, false), (504, false)]
    {
        let server = client(move |_| refused(code));
        let writer = Roots::new(server, CONFIG_MAP, "mesh", RootsScope::Injected).writer;
        let copy = Bundle { bundle: "roots".to_owned(), signed: None };
        let written = writer.write("shop", None, &copy).await;
        assert_eq!(matches!(written, WriteResult::Refused(_)), is_refusal, "{code}");
    }
}
