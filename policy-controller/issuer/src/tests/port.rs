//! The port while clients without credentials hold all that they may.

use super::{AUDIENCE, LIFETIME, certifier_of, token};
use crate::authority::generate;
use crate::ca_secret::CaSecret;
use crate::message::Messages;
use crate::metrics::IssuerMetrics;
use crate::plan::Rotation;
use crate::serve::Port;
use crate::serving_cert::ServingCertificate;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use policy_core::{
    DefaultPolicy, Owner, Protocol, Revision, ServerPolicy, UndeclaredPorts, Unmatched,
};
use policy_enforce::{PolicyLayer, PolicyStore, StoreConfig, Telemetry};
use policy_kube::rotation::secret::Data;
use policy_kube::testing::{answer, client};
use policy_proto::linkerd::identity::CertifyRequest;
use policy_proto::linkerd::identity::identity_client::IdentityClient;
use policy_proto::linkerd::identity::identity_server::IdentityServer;
use policy_server::{CapacityBounds, Rate, RevocationOrder, SharedCapacity, TlsHandle, TlsMetrics};
use policy_tls::identity::provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};

const ISSUER: &str = "portcullis-issuer.portcullis.serviceaccount.identity.linkerd.cluster.local";

const NAME: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";

/// Room of the port: fewer connections than a test can open.
const CONNECTIONS: CapacityBounds =
    CapacityBounds { total: 32, per_client: 8, first: RevocationOrder::LeastRecentlyUsed };

struct Issuer {
    address: SocketAddr,
    connections: SharedCapacity,
    messages: Arc<Messages>,
    tls: Arc<ClientConfig>,
    _stop: DropGuard,
}

/// An API server that authenticates every token as one of a pod of `shop/web`.
fn api_server() -> kube::Client {
    client(|_| {
        let status = serde_json::json!({
            "authenticated": true, "audiences": [AUDIENCE],
            "user": { "username": "system:serviceaccount:shop:web" },
        });
        let review = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "metadata": {}, "spec": {}, "status": status,
        });
        answer(201, &review)
    })
}

fn guard(port: NonZeroU16) -> PolicyLayer {
    let owner = Owner::Default(DefaultPolicy::AllUnauthenticated);
    let mut policy = ServerPolicy::without_grants(owner, Protocol::Grpc);
    policy.authorizations = DefaultPolicy::AllUnauthenticated.authorizations();
    policy.routes.otherwise = Unmatched::DefaultRoute;
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
    store.declare(&BTreeSet::from([port]), UndeclaredPorts::Deny);
    store.apply(port, Arc::new(policy), Revision::default()).unwrap();
    PolicyLayer::new(&store, port, "portcullis/portcullis-issuer")
}

async fn issuer(rate: Rate) -> Issuer {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let lifetime = Duration::from_secs(30 * 86_400);
    let settle = Duration::from_secs(1);
    let rotation = Rotation { lifetime, after: 66, settle, certificates: LIFETIME };
    let made = generate("cluster.local", clock, lifetime).unwrap();
    let root = made.certificate.clone();
    let held = CaSecret::create(made, &Data::new(), "", &rotation, clock).unwrap();
    let certifier = certifier_of(rate, &api_server());
    certifier.signer.put(held.authority.clone(), Some(now), rotation.longest());
    let tls = TlsHandle::empty(&TlsMetrics::default());
    let signer = certifier.signer.clone();
    let mut serving = ServingCertificate::new(ISSUER.into(), LIFETIME, signer, tls.clone());
    serving.refresh(b"", &root, clock).unwrap();

    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let connections = SharedCapacity::new(CONNECTIONS);
    let messages = Arc::new(Messages::new(rate));
    let port = Port {
        routes: Routes::new(IdentityServer::new(certifier)),
        tls,
        guard: guard(address.port().try_into().unwrap()),
        connections: connections.clone(),
        messages: messages.clone(),
        metrics: IssuerMetrics::default(),
    };
    let stop = CancellationToken::new();
    tokio::spawn(port.run(socket, stop.clone()));
    let mut roots = RootCertStore::empty();
    for root in policy_tls::identity::certificates(root.as_bytes()).unwrap() {
        roots.add(root).unwrap();
    }
    let mut tls = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let _stop = stop.drop_guard();
    Issuer { address, connections, messages, tls: Arc::new(tls), _stop }
}

impl Issuer {
    async fn connect(&self, from: [u8; 4]) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        socket.connect(self.address).await
    }

    async fn http2(&self, from: [u8; 4]) -> Result<SendRequest<Body>, Box<dyn std::error::Error>> {
        let stream = self.connect(from).await?;
        let name = ServerName::try_from(ISSUER)?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Requests a certificate as a sidecar does.
    async fn certify(&self, from: [u8; 4]) -> Result<(), Status> {
        let failed = |error: Box<dyn std::error::Error>| Status::unavailable(error.to_string());
        let sender = self.http2(from).await.map_err(failed)?;
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let mut sender = sender.clone();
            *request.uri_mut() =
                format!("https://{ISSUER}{}", request.uri().path()).parse().unwrap();
            async move { sender.send_request(request).await }
        });
        let mut params = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let request = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let request = CertifyRequest {
            identity: NAME.to_owned(),
            token: token(AUDIENCE),
            certificate_signing_request: request.der().to_vec(),
        };
        let answer = IdentityClient::new(service).certify(request).await?.into_inner();
        assert!(!answer.leaf_certificate.is_empty());
        Ok(())
    }
}

/// A request whose message of this size lacks its last byte.
fn unfinished(size: u32) -> Request<Body> {
    let mut message = vec![0];
    message.extend_from_slice(&size.to_be_bytes());
    message.resize(usize::try_from(size).unwrap() + 4, 0);
    let first = Ok::<_, Infallible>(Frame::data(Bytes::from(message)));
    let body = stream::iter([first]).chain(stream::pending());
    let path = format!("https://{ISSUER}/io.linkerd.proxy.identity.Identity/Certify");
    let request = Request::post(path).header("content-type", "application/grpc");
    request.header("te", "trailers").body(Body::new(StreamBody::new(body))).unwrap()
}

fn code(answer: &Response<Incoming>) -> Code {
    Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code())
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_gets_its_certificate_while_others_hold_all_that_needs_no_token() {
    let issuer = Arc::new(issuer(Rate { per_second: 1000, burst: 1000 }).await);
    soon(issuer.certify([127, 0, 0, 1])).await.unwrap();
    // Two addresses open connections with unfinished messages, again and again; forty more of one
    // network open connections and send nothing.
    let stop = CancellationToken::new();
    let mut attackers = Vec::new();
    for address in 2..4 {
        let (issuer, stop) = (issuer.clone(), stop.clone());
        attackers.push(tokio::spawn(stop.run_until_cancelled_owned(async move {
            let mut held = Vec::new();
            loop {
                if let Ok(mut sender) = issuer.http2([127, 0, 8, address]).await {
                    let requests: Vec<_> = (0..4)
                        .map(|_| tokio::spawn(sender.send_request(unfinished(32_000))))
                        .collect();
                    held.push((sender, requests));
                }
                if held.len() > 32 {
                    held.remove(0);
                }
            }
        })));
    }
    for address in 0..40 {
        let (issuer, stop) = (issuer.clone(), stop.clone());
        attackers.push(tokio::spawn(stop.run_until_cancelled_owned(async move {
            let mut held = Vec::new();
            loop {
                held.extend(issuer.connect([127, 0, 9, address]).await.ok());
                if held.len() > 8 {
                    held.remove(0);
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })));
    }
    let mut slowest = Duration::ZERO;
    for number in 0..20 {
        let began = Instant::now();
        soon(issuer.certify([127, 0, 0, 1])).await.unwrap();
        slowest = slowest.max(began.elapsed());
        // A neighbour of those who say nothing shares their network's room: it tries again as a
        // sidecar does.
        let mut left = 5;
        while let Err(error) = soon(issuer.certify([127, 0, 9, 200])).await {
            left -= 1;
            assert!(left > 0, "{error}");
        }
        assert!(issuer.connections.held() <= CONNECTIONS.total, "{number}");
        assert!(issuer.messages.held() <= 4 * 1024 * 1024, "{number}");
    }
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    stop.cancel();
    for attacker in attackers {
        _ = attacker.await;
    }
}

#[tokio::test]
async fn a_rate_is_kept_before_a_message_is_read_and_a_message_has_a_few_seconds() {
    let issuer = issuer(Rate { per_second: 1, burst: 2 }).await;
    let mut sender = issuer.http2([127, 0, 0, 2]).await.unwrap();
    let began = Instant::now();
    let first = sender.send_request(unfinished(1000));
    let second = sender.send_request(unfinished(1000));
    let (first, second) = tokio::join!(soon(first), soon(second));
    let codes = [first, second].map(|answer| code(&answer.unwrap()));
    assert_eq!(codes, [Code::DeadlineExceeded; 2]);
    assert!((3..8).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    // Tokens have come back meanwhile: two, as many as there can be.
    let began = Instant::now();
    let refused = loop {
        // What is allowed to send waits, so that it is given up.
        let answer = sender.send_request(unfinished(1000));
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(200), answer).await {
            break code(&answer.unwrap());
        }
    };
    assert_eq!(refused, Code::ResourceExhausted);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    soon(issuer.certify([127, 0, 0, 3])).await.unwrap();
}
