//! Certify: requests, renewals, and the certificate in force while the issuer is unavailable.

use crate::support::*;
use policy_core::Identity;
use policy_tls::identity::IdentityMetrics;
use policy_tls::identity::{
    FailureKind, IdentityConfig, IdentitySource, KeyAndRequest, Roots, SourceError, TrustAnchors,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tonic::Status;

async fn honest() -> (Arc<Authority>, Issuer) {
    let authority = Arc::new(Authority::new());
    let own = authority.clone();
    let issuer =
        Issuer::start(authority.identity(ISSUER), move |request| Ok(own.answer(request, |_| {})));
    (authority, issuer.await)
}

#[tokio::test]
async fn a_certificate_is_asked_for_by_name_token_and_request_and_put_in_force() {
    let (authority, issuer) = honest().await;
    let world = World::certify(issuer.address, &authority, |_| {}).await;
    let state = world.ready().await;
    let held = state.certificate.unwrap();
    assert_eq!(held.name, Some(Identity::Dns(NAME.into())));
    assert_eq!((held.roots, held.rejection, state.failure), (1, None, None));
    let asked = issuer.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].identity.as_str(), asked[0].token.as_slice()), (NAME, &b"a token"[..]));
    let own = world.identity.current().clone().unwrap();
    assert_eq!(own.server_name(), NAME);
    let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let expires = Some(seconds(held.not_after));
    assert_eq!(world.metric("control_identity_cert_expiration_timestamp_seconds"), expires);
    let refreshed = Some(seconds(held.since));
    assert_eq!(world.metric("control_identity_cert_refresh_timestamp_seconds"), refreshed);
    assert_eq!(world.metric("control_identity_cert_refreshes_total{result=\"ok\"}"), Some(1));
    assert_eq!(world.metric("control_identity_cert_refreshes_total{result=\"error\"}"), Some(0));
    assert_eq!(world.metric("identity_usable"), Some(1));
    assert_eq!(world.metric("identity_roots"), Some(1));
}

#[tokio::test]
async fn renewal_comes_in_time_with_the_token_of_that_time_and_the_same_key() {
    let (authority, issuer) = honest().await;
    let own = authority.clone();
    issuer.answers(move |request| Ok(own.answer(request, |params| lasting(params, -60, 3))));
    let bounds = (Duration::from_millis(10), Duration::from_secs(60));
    let world = World::certify(issuer.address, &authority, |config| config.refresh = bounds).await;
    world.ready().await;
    let first = world.certificate();
    std::fs::write(world.path("token"), "another token").unwrap();
    wait_until("renewed", async || world.certificate() != first).await;
    let renewed = async || issuer.asked().iter().any(|asked| asked.token == b"another token");
    wait_until("asked with the new token", renewed).await;
    let asked = issuer.asked();
    let requests: Vec<_> = asked.iter().map(|asked| &asked.certificate_signing_request).collect();
    assert!(requests.windows(2).all(|pair| pair[0] == pair[1]), "one key per process");
    assert!(world.metric("control_identity_cert_refreshes_total{result=\"ok\"}") >= Some(2));
}

#[tokio::test]
async fn an_issuer_that_fails_is_asked_again_with_pauses_and_the_reason_is_told() {
    let (authority, issuer) = honest().await;
    issuer.answers(|_| Err(Status::unavailable("no leader")));
    let world = World::certify(issuer.address, &authority, |_| {}).await;
    let said = world.failure(FailureKind::Refused).await;
    assert_eq!(said, format!("localhost:{}: Unavailable: no leader", issuer.address.port()));
    let missing = world.status.missing().unwrap();
    assert_eq!(missing, format!("no certificate yet: {said}"));
    wait_until("asked again", async || issuer.asked().len() >= 5).await;
    assert_eq!(world.metric("identity_usable"), Some(0));
    assert!(world.metric("identity_failures_total{reason=\"refused\"}") >= Some(4));
    assert!(world.metric("identity_last_failure_timestamp_seconds").is_some());
    let own = authority.clone();
    issuer.answers(move |request| Ok(own.answer(request, |_| {})));
    assert_eq!(world.ready().await.failure, None, "success ends it");
}

#[tokio::test]
async fn an_issuer_that_nobody_reaches_and_one_of_another_name_are_unreachable() {
    let authority = Authority::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let world = World::certify(free, &authority, |_| {}).await;
    let said = world.failure(FailureKind::Unreachable).await;
    assert!(said.contains("refused"), "{said}");
    let stranger = Issuer::start(authority.identity("other.example"), |_| unreachable!()).await;
    let world = World::certify(stranger.address, &authority, |_| {}).await;
    let said = world.failure(FailureKind::Unreachable).await;
    assert!(said.contains("not valid for name") && said.contains("other.example"), "{said}");
    let foreign = Issuer::start(Authority::new().identity(ISSUER), |_| unreachable!()).await;
    let world = World::certify(foreign.address, &authority, |_| {}).await;
    let said = world.failure(FailureKind::Unreachable).await;
    assert!(said.contains("UnknownIssuer"), "{said}");
    assert_eq!(
        (stranger.asked().len(), foreign.asked().len()),
        (0, 0),
        "no token is shown to them"
    );
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up() {
    let (authority, issuer) = honest().await;
    issuer.delays(PATIENCE * 10);
    let timeout = Duration::from_millis(300);
    let world = World::certify(issuer.address, &authority, |config| config.timeout = timeout).await;
    let said = world.failure(FailureKind::Refused).await;
    assert!(said.ends_with("no answer within 300ms"), "{said}");
    wait_until("asked again", async || issuer.asked().len() >= 2).await;
    issuer.delays(Duration::ZERO);
    world.ready().await;
}

#[tokio::test]
async fn what_is_in_force_stays_while_the_issuer_is_away_until_it_expires() {
    let (authority, issuer) = honest().await;
    let own = authority.clone();
    let away = Arc::new(AtomicBool::new(false));
    let gone = away.clone();
    issuer.answers(move |request| match gone.load(Ordering::SeqCst) {
        false => Ok(own.answer(request, |params| lasting(params, -60, 8))),
        true => Err(Status::unavailable("away")),
    });
    let bounds = (Duration::from_millis(10), Duration::from_millis(500));
    let world = World::certify(issuer.address, &authority, |config| config.refresh = bounds).await;
    world.ready().await;
    away.store(true, Ordering::SeqCst);
    let state = world.until(|state| state.failure.is_some()).await;
    let (held, failure) = (state.certificate.clone().unwrap(), state.failure.clone().unwrap());
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(state.missing(failure.at.min(held.not_after - Duration::from_secs(1))), None);
    let certificate = world.certificate();
    world.until(|state| state.missing(SystemTime::now()).is_some()).await;
    let said = world.status.missing().unwrap();
    assert!(said.starts_with("the certificate expired at "), "{said}");
    assert!(said.ends_with("Unavailable: away"), "{said}");
    wait_until("shown", async || world.metric("identity_usable") == Some(0)).await;
    assert_eq!(world.certificate(), certificate, "others judge it for themselves");
    let own = authority.clone();
    issuer.answers(move |request| Ok(own.answer(request, |_| {})));
    world.ready().await;
    assert_eq!(world.metric("identity_usable"), Some(1));
}

#[tokio::test]
async fn a_token_that_is_missing_empty_or_too_long_is_named_and_read_again() {
    let (authority, issuer) = honest().await;
    let world = World::certify(issuer.address, &authority, |config| {
        std::fs::remove_file(&config.token).unwrap();
    });
    let world = world.await;
    let token = world.path("token");
    let said = world.failure(FailureKind::Token).await;
    assert!(said.starts_with(&format!("cannot read `{}`", token.display())), "{said}");
    std::fs::write(&token, " \n").unwrap();
    let says = |words: &'static str| {
        move |state: &policy_tls::identity::IdentityState| {
            state.failure.as_ref().is_some_and(|failure| failure.message.contains(words))
        }
    };
    world.until(says("empty; expected a token")).await;
    std::fs::write(&token, "x".repeat(65 << 10)).unwrap();
    world.until(says("longer than 65536 bytes")).await;
    assert_eq!(issuer.asked().len(), 0);
    std::fs::write(&token, "x").unwrap();
    world.ready().await;
}

#[tokio::test]
async fn roots_that_are_missing_or_no_roots_are_named_and_read_again() {
    let (authority, issuer) = honest().await;
    let world = World::certify(issuer.address, &authority, |config| {
        if let TrustAnchors::Trusted(Roots::File(path)) = &config.roots {
            std::fs::remove_file(path).unwrap();
        }
    });
    let world = world.await;
    let said = world.failure(FailureKind::Roots).await;
    assert!(said.contains("roots.pem"), "{said}");
    std::fs::write(world.path("roots.pem"), "").unwrap();
    let empty = |state: &policy_tls::identity::IdentityState| {
        state.failure.as_ref().is_some_and(|f| f.message.contains("holds no certificate"))
    };
    world.until(empty).await;
    std::fs::write(world.path("roots.pem"), authority.pem()).unwrap();
    world.ready().await;
    // A resolved failure is not reported for the rest of the certificate's lifetime.
    std::fs::write(world.path("roots.pem"), "").unwrap();
    world.until(empty).await;
    std::fs::write(world.path("roots.pem"), authority.pem()).unwrap();
    world.until(|state| state.failure.is_none()).await;
    assert_eq!(issuer.asked().len(), 1, "nothing had to be asked for");
}

#[tokio::test]
async fn roots_are_reloaded_live_and_a_certificate_that_they_do_not_reach_is_replaced_at_once() {
    let (old, issuer) = honest().await;
    let world = World::certify(issuer.address, &old, |_| {}).await;
    world.ready().await;
    let first = world.certificate();
    let new = Arc::new(Authority::new());
    // Rotation: both roots, then the issuer signs with the new one, then the old one is removed.
    std::fs::write(world.path("roots.pem"), [old.pem(), new.pem()].concat()).unwrap();
    let roots = |count| {
        move |state: &policy_tls::identity::IdentityState| {
            state.certificate.as_ref().is_some_and(|held| held.roots == count)
        }
    };
    world.until(roots(2)).await;
    assert_eq!(world.certificate(), first, "roots alone need no other certificate");
    let by_new = new.clone();
    issuer.answers(move |request| Ok(by_new.answer(request, |_| {})));
    std::fs::write(world.path("roots.pem"), new.pem()).unwrap();
    world.until(roots(1)).await;
    // The issuer's certificate is of the old root, so that its responses are not accepted.
    let said = world.failure(FailureKind::Unreachable).await;
    assert!(said.contains("UnknownIssuer"), "{said}");
    let missing = world.status.missing().unwrap();
    assert!(missing.starts_with("the certificate does not verify"), "{missing}");
    assert!(world.metric("identity_roots_changes_total") >= Some(2));
}

#[tokio::test]
async fn a_root_taken_out_makes_a_certificate_of_the_other_root_be_fetched_at_once() {
    let (kept, issuer) = honest().await;
    let removed = Arc::new(Authority::new());
    let by_removed = removed.clone();
    issuer.answers(move |request| Ok(by_removed.answer(request, |_| {})));
    let world = World::certify(issuer.address, &kept, |config| {
        if let TrustAnchors::Trusted(Roots::File(path)) = &config.roots {
            std::fs::write(path, [kept.pem(), removed.pem()].concat()).unwrap();
        }
    });
    let world = world.await;
    world.ready().await;
    let first = world.certificate();
    let by_kept = kept.clone();
    issuer.answers(move |request| Ok(by_kept.answer(request, |_| {})));
    std::fs::write(world.path("roots.pem"), kept.pem()).unwrap();
    wait_until("renewed", async || world.certificate() != first).await;
    assert_eq!(world.ready().await.certificate.unwrap().roots, 1);
}

#[tokio::test]
async fn a_chain_through_an_authority_below_the_root_is_accepted() {
    let (authority, issuer) = honest().await;
    let (below, intermediate) = authority.below();
    issuer.answers(move |request| {
        let mut answer = below.answer(request, |_| {});
        answer.intermediate_certificates = vec![intermediate.to_vec()];
        Ok(answer)
    });
    let world = World::certify(issuer.address, &authority, |_| {}).await;
    world.ready().await;
    assert_eq!(world.identity.current().as_ref().unwrap().chain().len(), 2);
}

#[tokio::test]
async fn key_and_request_of_a_helper_are_used_and_named_when_they_cannot_be() {
    let (authority, issuer) = honest().await;
    let made = KeyAndRequest::generate(NAME).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key.p8"), made.key.secret_der()).unwrap();
    std::fs::write(folder.path().join("csr.der"), &made.request).unwrap();
    let path = folder.path().to_owned();
    let mut tried = None;
    let world = World::certify(issuer.address, &authority, |config| {
        config.folder = Some(path);
        tried = Some(config.clone());
    });
    let world = world.await;
    world.ready().await;
    assert_eq!(issuer.asked()[0].certificate_signing_request, made.request);
    let config = tried.unwrap();
    let open = async || {
        let config = IdentityConfig::Certify(config.clone());
        IdentitySource::open(config, IdentityMetrics::default()).await.unwrap_err()
    };
    let other = KeyAndRequest::generate(NAME).unwrap();
    std::fs::write(folder.path().join("csr.der"), &other.request).unwrap();
    let said = open().await.to_string();
    assert!(said.ends_with("csr.der: made for another key than key.p8"), "{said}");
    std::fs::remove_file(folder.path().join("key.p8")).unwrap();
    let error = open().await;
    assert!(matches!(error, SourceError::Read { .. }), "{error}");
    assert!(error.to_string().contains("key.p8"), "{error}");
}
