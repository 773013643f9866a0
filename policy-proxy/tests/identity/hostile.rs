//! Responses of an issuer that must not be accepted. Each is rejected by name, and the next good
//! one is accepted.

use crate::support::*;
use policy_proto::linkerd::identity::{CertifyRequest, CertifyResponse};
use policy_tls::identity::FailureKind;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, SanType};
use std::sync::Arc;

/// Asserts that the response is rejected with these words, that no part of it was in force, and
/// that the next honest response is accepted.
async fn refused(
    words: &str,
    answer: impl Fn(&Authority, &CertifyRequest) -> CertifyResponse + Send + Sync + 'static,
) {
    let authority = Arc::new(Authority::new());
    let own = authority.clone();
    let issuer =
        Issuer::start(authority.identity(ISSUER), move |request| Ok(answer(&own, request))).await;
    let world = World::certify(issuer.address, &authority, |_| {}).await;
    let said = world.failure(FailureKind::Answer).await;
    assert!(said.contains(words), "`{said}` does not say `{words}`");
    assert_eq!(world.certificate(), None, "{words}");
    let own = authority.clone();
    issuer.answers(move |request| Ok(own.answer(request, |_| {})));
    world.ready().await;
}

#[tokio::test]
async fn another_name_or_one_name_more() {
    refused("a certificate for [other.example]; expected exactly", |authority, request| {
        authority.answer(request, |params| params.subject_alt_names = vec![dns("other.example")])
    })
    .await;
    let more = [dns("other.example"), uri("spiffe://cluster.local/ns/a/sa/b"), dns("*.example")];
    for name in more.into_iter().chain([SanType::IpAddress("10.0.0.1".parse().unwrap())]) {
        refused("expected exactly", move |authority, request| {
            authority.answer(request, |params| params.subject_alt_names.push(name.clone()))
        })
        .await;
    }
    refused("a certificate for []; expected exactly", |authority, request| {
        authority.answer(request, |params| params.subject_alt_names.clear())
    })
    .await;
}

#[tokio::test]
async fn another_key() {
    refused("certificate: ", |authority, _| {
        let params = leaf(&[dns(NAME)], |_| {});
        answered(authority.sign(&params, &KeyPair::generate().unwrap()), &params)
    })
    .await;
}

#[tokio::test]
async fn expired_and_not_valid_yet() {
    refused("a certificate that expired at", |authority, request| {
        authority.answer(request, |params| lasting(params, -3600, -60))
    })
    .await;
    refused("this clock or the issuer's is wrong", |authority, request| {
        authority.answer(request, |params| lasting(params, 3600, 7200))
    })
    .await;
}

#[tokio::test]
async fn an_end_that_is_missing_past_or_after_the_certificates_own() {
    refused("valid_until: not set", |authority, request| CertifyResponse {
        valid_until: None,
        ..authority.answer(request, |_| {})
    })
    .await;
    for (seconds, nanos, words) in [
        (0, 0, "expired at 1970-01-01T00:00:00Z"),
        (-1, 0, "expired at"),
        (i64::MAX, 0, "valid_until: "),
        (
            4_102_444_800,
            0,
            "valid_until: 2100-01-01T00:00:00Z, later than the certificate's notAfter",
        ),
    ] {
        refused(words, move |authority, request| CertifyResponse {
            valid_until: Some(prost_types::Timestamp { seconds, nanos }),
            ..authority.answer(request, |_| {})
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_no_certificate() {
    for bytes in [
        Vec::new(),
        b"-----BEGIN CERTIFICATE-----".to_vec(),
        vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        vec![0; 1000],
    ] {
        refused("not a certificate; expected X.509 in DER", move |authority, request| {
            CertifyResponse { leaf_certificate: bytes.clone(), ..authority.answer(request, |_| {}) }
        })
        .await;
    }
    refused("", |authority, request| {
        let mut answer = authority.answer(request, |_| {});
        answer.leaf_certificate.truncate(200);
        answer
    })
    .await;
    refused("", |authority, request| {
        let mut answer = authority.answer(request, |_| {});
        answer.intermediate_certificates = vec![b"no certificate".to_vec()];
        let place = answer.leaf_certificate.len() - 5;
        answer.leaf_certificate[place] ^= 1;
        answer
    })
    .await;
}

#[tokio::test]
async fn what_is_too_large() {
    refused("a certificate of more than 16384 bytes", |authority, request| CertifyResponse {
        leaf_certificate: vec![0x30; 20 << 10],
        ..authority.answer(request, |_| {})
    })
    .await;
    refused("9 intermediate certificates", |authority, request| CertifyResponse {
        intermediate_certificates: vec![vec![0x30]; 9],
        ..authority.answer(request, |_| {})
    })
    .await;
}

#[tokio::test]
async fn a_message_beyond_the_bound_is_not_read() {
    let authority = Arc::new(Authority::new());
    let own = authority.clone();
    let issuer = Issuer::start(authority.identity(ISSUER), move |request| {
        let leaf_certificate = vec![0; 16 << 20];
        Ok(CertifyResponse { leaf_certificate, ..own.answer(request, |_| {}) })
    });
    let issuer = issuer.await;
    let world = World::certify(issuer.address, &authority, |_| {}).await;
    let said = world.failure(FailureKind::Refused).await;
    assert!(said.contains("131072"), "{said}");
}

#[tokio::test]
async fn a_chain_that_ends_elsewhere() {
    let stranger = Authority::new();
    refused("does not verify as a server's: UnknownIssuer", move |_, request| {
        stranger.answer(request, |_| {})
    })
    .await;
    refused("does not verify as a server's: UnknownIssuer", |authority, request| {
        authority.below().0.answer(request, |_| {})
    })
    .await;
}

#[tokio::test]
async fn a_certificate_that_is_good_for_one_role_only() {
    for (usage, words) in [
        (ExtendedKeyUsagePurpose::ServerAuth, "does not verify as a client's"),
        (ExtendedKeyUsagePurpose::ClientAuth, "does not verify as a server's"),
    ] {
        refused(words, move |authority, request| {
            authority.answer(request, |params| params.extended_key_usages = vec![usage.clone()])
        })
        .await;
    }
}
