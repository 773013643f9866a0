//! The service with an API server that fails, and the port under attack.

mod port;

use super::authority::{Lifetime, generate};
use super::ca_secret::CaSecret;
use super::metrics::IssuerMetrics;
use super::plan::{MAX_READ_AGE, Rotation};
use super::service::Certifier;
use super::signer::{SignError, Signer};
use super::token::Tokens;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use policy_engine::config::ControllerConfig;
use policy_kube::rotation::secret::Data;
use policy_kube::testing::refusing_client;
use policy_proto::linkerd::identity::CertifyRequest;
use policy_proto::linkerd::identity::identity_server::Identity;
use policy_server::log::ClientLines;
use policy_server::{Limit, Rate};
use std::time::{Duration, Instant, SystemTime};
use tonic::{Code, Request};

const AUDIENCE: &str = "portcullis.dev/identity";

const LIFETIME: Lifetime =
    Lifetime { lifetime: Duration::from_secs(3600), skew: Duration::from_secs(20) };

fn certifier(rate: Rate) -> Certifier {
    certifier_of(rate, &refusing_client())
}

fn certifier_of(rate: Rate, client: &kube::Client) -> Certifier {
    Certifier {
        config: ControllerConfig::default(),
        lifetime: LIFETIME,
        tokens: Tokens::new(client, &[AUDIENCE.to_owned()]),
        signer: Signer::default(),
        limit: Limit::new(rate),
        turns: Certifier::turns(),
        timeout: Duration::from_secs(10),
        lines: ClientLines::default(),
        metrics: IssuerMetrics::default(),
    }
}

/// Returns an unsigned token for this audience with a long lifetime.
fn token(audience: &str) -> Vec<u8> {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!("{{\"aud\":[\"{audience}\"],\"exp\":9999999999}}");
    format!("{}.{}.AAAA", part("{\"alg\":\"RS256\"}"), part(&claims)).into_bytes()
}

async fn refused(certifier: &Certifier, token: Vec<u8>) -> (Code, String) {
    let request = CertifyRequest {
        identity: "web.shop.serviceaccount.identity.linkerd.cluster.local".to_owned(),
        token,
        certificate_signing_request: Vec::new(),
    };
    let status = Identity::certify(certifier, Request::new(request)).await.unwrap_err();
    (status.code(), status.message().to_owned())
}

#[tokio::test]
async fn an_api_server_that_cannot_be_asked_is_no_verdict_on_a_token() {
    let certifier = certifier(Rate { per_second: 100, burst: 100 });
    let (code, text) = refused(&certifier, token(AUDIENCE)).await;
    assert_eq!(code, Code::Unavailable, "{text}");
    assert!(text.contains("may not create a TokenReview"), "{text}");
    // A malformed token is refused without a TokenReview.
    let large = vec![b'a'; 16 * 1024 + 1];
    for (token, want) in [
        (token("other"), "it is for another audience (allowed: `portcullis.dev/identity`)"),
        (b"\xff".to_vec(), "it is not UTF-8"),
        (b"a.b".to_vec(), "it is not a JSON Web Token"),
        (large, "it has 16385 bytes (allowed: 16384)"),
    ] {
        let (code, text) = refused(&certifier, token).await;
        assert_eq!(code, Code::Unauthenticated, "{text}");
        assert!(text.contains(want), "{text}");
    }
}

#[test]
fn a_replica_that_has_not_read_the_secret_for_a_while_issues_nothing() {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let lifetime = Duration::from_secs(30 * 86_400);
    let settle = Duration::from_secs(1);
    let rotation = Rotation { lifetime, after: 66, settle, certificates: LIFETIME };
    let made = generate("cluster.local", clock, lifetime).unwrap();
    let held = CaSecret::create(made, &Data::new(), "", &rotation, clock).unwrap();
    let name = "web.shop.serviceaccount.identity.linkerd.cluster.local";
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let request = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = super::csr::check(request.der(), name).unwrap();
    let signer = Signer::default();
    let sign = |at| signer.sign(&key, name, LIFETIME, (at, clock));
    assert_eq!(sign(now).unwrap_err(), SignError::None);
    signer.put(held.authority.clone(), Some(now), rotation.longest());
    assert!(sign(now + MAX_READ_AGE).is_ok());
    let late = now + MAX_READ_AGE + Duration::from_secs(5);
    assert_eq!(sign(late).unwrap_err(), SignError::Stale(65));
    // No certificate is valid for longer than the Secret allows.
    signer.put(held.authority, Some(now), Duration::from_secs(600));
    assert_eq!(sign(now).unwrap().leaf.not_after, clock + Duration::from_secs(600));
}
