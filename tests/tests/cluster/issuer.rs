//! The issuer on a real API server: whom it certifies by the tokens that are issued there, how its
//! authority is kept by several replicas, and where its roots are.

pub(crate) mod ask;
pub(crate) mod followed;
mod refusing;

use ask::{AUDIENCE, Issuer, identity, request, token};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use policy_core::Identity;
use policy_issuer as issuer;
use policy_kube::rbac;
use policy_testkit::wait_until;
use policy_tests::cluster::{Cluster, ControllerProcess};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::Code;

/// A control plane of its own in a cluster that tests share.
struct Plane<'a> {
    cluster: &'a Cluster,
    home: String,
    /// ConfigMap of its roots: those of other tests are other tests' concern.
    map: String,
}

impl<'a> Plane<'a> {
    async fn new(cluster: &'a Cluster, name: &str) -> Self {
        let home = cluster.namespace(name).await.unwrap();
        let map = format!("{home}-roots");
        Self { cluster, home, map }
    }

    async fn issuer(&self, flags: &[&str]) -> ControllerProcess {
        let home = format!("--control-plane-namespace={}", self.home);
        let map = format!("--roots-configmap={}", self.map);
        let builder = ControllerProcess::issuer(self.cluster.kubeconfig());
        let started = builder.flags([home, map]).flags(flags).start().await.unwrap();
        started.wait_ready().await.unwrap();
        started
    }

    /// Returns a replica as its clients know it.
    async fn known(&self, replica: &ControllerProcess) -> Issuer {
        Issuer {
            address: replica.grpc(),
            identity: identity("portcullis-issuer", &self.home, &self.home),
            roots: self.roots(&self.home).await.expect("roots"),
        }
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), namespace)
    }

    async fn roots(&self, namespace: &str) -> Option<String> {
        let map = self.maps(namespace).get_opt(&self.map).await.unwrap()?;
        map.data?.remove(issuer::BUNDLE)
    }

    /// Mounted roots of a pod of this namespace, with the statement that vouches for them.
    async fn signed(&self, namespace: &str) -> Option<String> {
        let map = self.maps(namespace).get_opt(&self.map).await.unwrap()?;
        map.data?.remove(issuer::SIGNED)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.cluster.client(), &self.home)
    }

    /// A value of the issuer's Secret.
    async fn held(&self, key: &str) -> Option<String> {
        let secret = self.secrets().get_opt(issuer::SECRET).await.unwrap()?;
        String::from_utf8(secret.data?.remove(key)?.0).ok()
    }

    async fn patch_secret(&self, patch: Value) {
        let patch = Patch::Merge(&patch);
        let params = PatchParams::default();
        self.secrets().patch(issuer::SECRET, &params, &patch).await.unwrap();
    }

    /// A namespace with the service account `web`, and the token of that.
    async fn workload(&self, prefix: &str) -> (String, Vec<u8>) {
        let namespace = self.cluster.namespace(prefix).await.unwrap();
        let accounts = ["web", "other"].map(|name| {
            format!(
                "---\napiVersion: v1\nkind: ServiceAccount\n\
                 metadata: {{name: {name}, namespace: {namespace}}}\n"
            )
        });
        self.cluster.apply(&accounts.concat()).await.unwrap();
        let token = token(self.cluster, (&namespace, "web"), AUDIENCE, None).await;
        (namespace, token)
    }
}

/// Two identities of another kind.
const SPIFFE: [&str; 2] =
    ["spiffe://cluster.local/ns/shop/sa/web", "spiffe://cluster.local/ns/shop/sa/other"];

fn count(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_gets_its_own_identity_and_nobody_elses() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "issue").await;
    let replica = plane.issuer(&["--issuance-lifetime=2h"]).await;
    let known = plane.known(&replica).await;
    let (namespace, web) = plane.workload("shop").await;
    let name = identity("web", &namespace, &plane.home);

    let certified = known.certificate(&name, web.clone()).await;
    assert_eq!(certified.identity(), Some(Identity::Dns(name.as_str().into())));
    certified.verify(&known.roots).unwrap();
    let until = certified.answer.valid_until.as_ref().unwrap().seconds;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let left = u64::try_from(until).unwrap() - now;
    assert!((7100..=7220).contains(&left), "{left}");

    let other = identity("other", &namespace, &plane.home);
    let elsewhere = identity("web", "elsewhere", &plane.home);
    let foreign = token(cluster, (&namespace, "web"), "identity.l5d.io", None).await;
    let mut forged = web.clone();
    let middle = forged.len() / 2;
    forged[middle] ^= 1;
    let cases = [
        (&*other, web.clone(), vec![&*other], Code::PermissionDenied, "the token is for `web."),
        (
            &*elsewhere,
            web.clone(),
            vec![&*elsewhere],
            Code::PermissionDenied,
            "the request is for `web.e",
        ),
        ("", web.clone(), vec![&*name], Code::PermissionDenied, "the request is for ``"),
        (&*name, foreign, vec![&*name], Code::Unauthenticated, "another audience (allowed: `port"),
        (&*name, forged, vec![&*name], Code::Unauthenticated, "the token is refused"),
        (&*name, Vec::new(), vec![&*name], Code::Unauthenticated, "there is none"),
        (&*name, web.clone(), vec![&*other], Code::InvalidArgument, "the DNS name `other."),
        (&*name, web.clone(), vec![&*name, &*other], Code::InvalidArgument, "the DNS name `other."),
        (&*name, web.clone(), vec![], Code::InvalidArgument, "subjectAltName is missing"),
        // CVE-2022-40716: of several names a verifier takes another than the one that was checked.
        (&*name, web.clone(), vec![&*name, &*name], Code::InvalidArgument, "more than once"),
        (&*name, web.clone(), vec![&*name, SPIFFE[0]], Code::InvalidArgument, "has a URI"),
        (&*name, web.clone(), SPIFFE.to_vec(), Code::InvalidArgument, "has a URI"),
    ];
    for (asked, token, names, code, want) in cases {
        let status = known.certify(asked, token, request(&names).0).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(want), "{status:?}");
    }
    let garbage = known.certify(&name, web.clone(), b"garbage".to_vec()).await.unwrap_err();
    assert_eq!(garbage.code(), Code::InvalidArgument, "{garbage:?}");

    // A token that is bound to a pod ends with the pod.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": namespace},
        "spec": {"serviceAccountName": "web", "automountServiceAccountToken": false,
                 "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
    });
    let pod = cluster.objects().apply_one(&pod).await.unwrap();
    let bound = token(cluster, (&namespace, "web"), AUDIENCE, Some(&pod)).await;
    known.certificate(&name, bound.clone()).await;
    assert!(replica.logs().contains("\"pod\":\"web-0\""), "{}", replica.logs());
    cluster.delete(&pod.to_string()).await.unwrap();
    until_refused(&known, &name, &bound).await;

    // Each certificate has a line of its own.
    let metrics = replica.metrics().await;
    let lines = replica.logs().matches("\"certificate issued\"").count();
    assert!(lines >= 2, "{lines}");
    assert!(metrics.contains(&format!("issuer_certificates_total {lines}\n")), "{metrics}");
    assert!(metrics.contains("issuer_refused_total{reason=\"other_identity\"} 3\n"), "{metrics}");
}

/// The API server remembers what it found of a token for some seconds.
async fn until_refused(known: &Issuer, name: &str, token: &[u8]) {
    wait_until("a token of a pod that is gone is refused", async || {
        let answer = known.certify(name, token.to_vec(), request(&[name]).0).await;
        answer.is_err_and(|status| status.code() == Code::Unauthenticated)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_its_documented_rights_alone_it_brings_the_roots_wherever_they_are_needed() {
    let Some(cluster) = crate::shared().await else { return };
    let home = cluster.namespace("rights").await.unwrap();
    // The rights name the ConfigMap.
    let map = issuer::CONFIG_MAP.to_owned();
    let plane = Plane { cluster, home, map };
    let rights = rbac::manifests(&plane.home, "policy-controller", "portcullis-issuer").unwrap();
    cluster.apply(&rights).await.unwrap();
    let user = format!("system:serviceaccount:{}:portcullis-issuer", plane.home);
    let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
    let flag = format!("--control-plane-namespace={}", plane.home);
    let replica = ControllerProcess::issuer(&kubeconfig).flags([flag]).start().await.unwrap();
    replica.wait_ready().await.unwrap();
    let roots = plane.roots(&plane.home).await.unwrap();
    assert_eq!(count(&roots), 1);

    // A namespace that asks, by the label that the controller keeps; one where a pod asks on its own.
    let (asking, _) = plane.workload("asking").await;
    let (own, token) = plane.workload("own").await;
    assert_eq!(plane.roots(&asking).await, None);
    let label = format!(
        "apiVersion: v1\nkind: Namespace\n\
         metadata: {{name: {asking}, labels: {{portcullis.dev/inject: enabled}}}}\n\
         ---\napiVersion: v1\nkind: Pod\n\
         metadata: {{name: web-0, namespace: {own}, labels: {{portcullis.dev/proxy: injected}}}}\n\
         spec: {{serviceAccountName: web, automountServiceAccountToken: false, \
         containers: [{{name: c, image: i}}]}}\n"
    );
    cluster.apply(&label).await.unwrap();
    for namespace in [&asking, &own] {
        wait_until("the roots are there", async || {
            plane.roots(namespace).await == Some(roots.clone())
        })
        .await;
    }

    // What others change or delete is put right.
    let forged = json!({"data": {issuer::BUNDLE: "forged", "more": "text"}});
    let params = PatchParams::default();
    plane.maps(&asking).patch(&plane.map, &params, &Patch::Merge(&forged)).await.unwrap();
    plane.maps(&own).delete(&plane.map, &DeleteParams::default()).await.unwrap();
    wait_until("both are as they were", async || {
        let right = |map: Option<ConfigMap>| {
            let data = map.and_then(|map| map.data).unwrap_or_default();
            let signed = data.get(issuer::SIGNED).is_some_and(|text| text.contains("proof:"));
            data.len() == 2 && data.get(issuer::BUNDLE) == Some(&roots) && signed
        };
        right(plane.maps(&asking).get_opt(&plane.map).await.unwrap())
            && right(plane.maps(&own).get_opt(&plane.map).await.unwrap())
    })
    .await;

    // Tokens are reviewed with these rights, too.
    let known = plane.known(&replica).await;
    let name = identity("web", &own, &plane.home);
    known.certificate(&name, token).await.verify(&roots).unwrap();
    let forbidden = replica.logs().lines().filter(|line| line.contains("forbidden")).count();
    assert_eq!(forbidden, 0, "{}", replica.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_of_two_replicas_never_distrusts_what_is_valid() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "rotate").await;
    let flags = ["--root-settle=2s"];
    // Both find nothing, and agree on one authority.
    let (one, two) = tokio::join!(plane.issuer(&flags), plane.issuer(&flags));
    let (namespace, token) = plane.workload("rotated").await;
    let name = identity("web", &namespace, &plane.home);
    let first_root = plane.roots(&plane.home).await.unwrap();
    assert_eq!(Some(&first_root), plane.held("ca.crt").await.as_ref());
    let mut before = Vec::new();
    for replica in [&one, &two] {
        let certified = plane.known(replica).await.certificate(&name, token.clone()).await;
        certified.verify(&first_root).unwrap();
        before.push(certified);
    }

    plane.patch_secret(json!({"metadata": {"annotations": {issuer::ROTATE: "now"}}})).await;
    wait_until("the next root is published", async || {
        plane.roots(&plane.home).await.is_some_and(|roots| count(&roots) == 2)
    })
    .await;
    let both = plane.roots(&plane.home).await.unwrap();
    assert!(both.contains(&first_root));
    wait_until("the next authority is in use", async || {
        plane.held("ca.crt").await.is_some_and(|root| root != first_root)
    })
    .await;
    let second_root = plane.held("ca.crt").await.unwrap();
    assert!(both.contains(&second_root), "it was published before");
    for replica in [&one, &two] {
        wait_until("each replica issues from it", async || {
            let known = plane.known(replica).await;
            let certified = known.certificate(&name, token.clone()).await;
            // Whichever it is from, everybody accepts it.
            certified.verify(&both).unwrap();
            certified.verify(&second_root).is_ok()
        })
        .await;
    }
    let published = plane.roots(&plane.home).await.unwrap();
    assert_eq!(count(&published), 2, "the former root stays");
    for certified in &before {
        certified.verify(&published).unwrap();
    }
    assert_eq!(plane.held("ca-previous.crt").await.as_ref(), Some(&first_root));

    // The wish is fulfilled once, and the former root goes when nothing of it can be valid.
    assert_eq!(plane.held("rotate.done").await.as_deref(), Some("now"));
    assert_eq!(plane.held("next.crt").await, None);
    let past = k8s_openapi::ByteString(b"2020-01-01T00:00:00Z".to_vec());
    plane.patch_secret(json!({"data": {"previous.until": past}})).await;
    wait_until("the former root is not published any more", async || {
        plane.roots(&plane.home).await.as_ref() == Some(&second_root)
    })
    .await;
    for certified in &before {
        certified.verify(&second_root).unwrap_err();
    }
    plane.known(&two).await.certificate(&name, token).await.verify(&second_root).unwrap();
}

/// `Type Reason: note` of the Events in the control plane's namespace.
async fn events(plane: &Plane<'_>) -> Vec<String> {
    let api: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(plane.cluster.client(), &plane.home);
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let text = |text: Option<String>| text.unwrap_or_default();
    all.into_iter()
        .map(|event| format!("{} {}: {}", text(event.type_), text(event.reason), text(event.note)))
        .collect()
}

/// A certificate of an authority that is valid between these days from now, and its key, PEM.
fn authority_between(name: &str, days: (i64, i64)) -> (String, String) {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let at = |days: i64| {
        let distance = Duration::from_secs(86_400 * days.unsigned_abs());
        if days < 0 { SystemTime::now() - distance } else { SystemTime::now() + distance }
    };
    params.not_before = at(days.0).into();
    params.not_after = at(days.1).into();
    let key = rcgen::KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn bytes(text: String) -> k8s_openapi::ByteString {
    k8s_openapi::ByteString(text.into_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_expired_is_told_to_have_expired_and_what_has_to_be_done() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "expired").await;
    let (certificate, key) = authority_between("the old one", (-20, -10));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": issuer::SECRET, "namespace": plane.home},
        "data": {"tls.crt": bytes(certificate.clone()), "tls.key": bytes(key),
                 "ca.crt": bytes(certificate.clone())},
    });
    cluster.apply(&secret.to_string()).await.unwrap();
    let replica = plane.issuer(&[]).await;
    wait_until("another is made", async || {
        plane.held("ca.crt").await.is_some_and(|root| root != certificate)
    })
    .await;
    let told = || async { events(&plane).await.join("\n") };
    wait_until("an event tells it", async || told().await.contains("AuthorityExpired")).await;
    let told = told().await;
    let words = "Warning AuthorityExpired: the authority expired at ";
    assert!(told.contains(words) && told.contains("do not trust the new one: restart them"));
    assert!(!told.contains("AuthorityReplaced") && !told.contains("AuthoritySupplied"), "{told}");
    // Who starts now trusts the new one.
    let (namespace, token) = plane.workload("later").await;
    let name = identity("web", &namespace, &plane.home);
    let anew = plane.held("ca.crt").await.unwrap();
    plane.known(&replica).await.certificate(&name, token).await.verify(&anew).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn more_roots_than_anybody_reads_are_not_published_and_the_one_in_use_always_is() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "many").await;
    let mut first = plane.issuer(&[]).await;
    let root = plane.held("ca.crt").await.unwrap();
    first.terminate();
    let former: Vec<String> =
        (0..70).map(|at| authority_between(&format!("former {at}"), (-20, 10)).0).collect();
    let until = bytes("2100-01-01T00:00:00Z".to_owned());
    let data = json!({"ca-previous.crt": bytes(former.concat()), "previous.until": until});
    plane.patch_secret(json!({"data": data})).await;

    let second = plane.issuer(&[]).await;
    wait_until("the former ones are published", async || {
        plane.roots(&plane.home).await.is_some_and(|roots| count(&roots) > 1)
    })
    .await;
    let roots = plane.roots(&plane.home).await.unwrap();
    let parsed = |text: &str| policy_tls::identity::certificates(text.as_bytes()).unwrap();
    let published = parsed(&roots);
    assert_eq!(published.len(), 64, "in use, and the newest of the former");
    assert_eq!(published[0], parsed(&root)[0]);
    assert_eq!(published[1..], parsed(&former[7..].concat()));
    // Sidecars read it, and follow: they began with the root in use.
    let signed = plane.signed(&plane.home).await.unwrap();
    let document = policy_tls::identity::SignedRoots::read(signed.as_bytes()).unwrap();
    let began = policy_tls::identity::Trust::new(parsed(&root));
    assert_eq!(began.after(&document, SystemTime::now()).unwrap().roots(), published);
    wait_until("an event tells it", async || {
        events(&plane).await.iter().any(|event| {
            event.starts_with(
                "Warning RootsLeftOut: 7 roots are not published, because clients read",
            )
        })
    })
    .await;
    // It goes on to certify.
    let (namespace, token) = plane.workload("shop").await;
    let name = identity("web", &namespace, &plane.home);
    plane.known(&second).await.certificate(&name, token).await.verify(&root).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_gets_lost_is_restored_and_without_a_replica_is_made_anew() {
    let Some(cluster) = crate::shared().await else { return };
    let plane = Plane::new(cluster, "lost").await;
    let mut replica = plane.issuer(&[]).await;
    let (namespace, token) = plane.workload("losing").await;
    let name = identity("web", &namespace, &plane.home);
    let root = plane.held("ca.crt").await.unwrap();
    plane.secrets().delete(issuer::SECRET, &DeleteParams::default()).await.unwrap();
    wait_until("it is restored", async || plane.held("ca.crt").await.as_ref() == Some(&root)).await;
    let garbage = k8s_openapi::ByteString(b"garbage".to_vec());
    plane.patch_secret(json!({"data": {"tls.key": garbage}})).await;
    wait_until("it is put right", async || {
        plane.held("tls.key").await.is_some_and(|key| key.contains("PRIVATE KEY"))
    })
    .await;
    plane.known(&replica).await.certificate(&name, token.clone()).await.verify(&root).unwrap();

    replica.terminate();
    plane.secrets().delete(issuer::SECRET, &DeleteParams::default()).await.unwrap();
    let successor = plane.issuer(&[]).await;
    let known = plane.known(&successor).await;
    let anew = plane.held("ca.crt").await.unwrap();
    assert_ne!(anew, root);
    known.certificate(&name, token).await.verify(&anew).unwrap();
}
