//! SPIFFE's Workload API over a real Unix socket.

use crate::support::*;
use policy_core::Identity;
use policy_proto::spiffe::spiffe_workload_api_server::{
    SpiffeWorkloadApi, SpiffeWorkloadApiServer,
};
use policy_proto::spiffe::{X509svid, X509svidRequest, X509svidResponse};
use policy_tls::identity::{AgentAddress, FailureKind, IdentityConfig, SpiffeConfig};
use rcgen::KeyPair;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status};

const OURS: &str = "spiffe://cluster.local/ns/shop/sa/web";
const OTHER: &str = "spiffe://cluster.local/ns/shop/sa/other";
const SERVER_NAME: &str = "web.shop.example";

/// The agent's next response: a message, or the end of the stream.
type Said = Result<X509svidResponse, Status>;

/// An agent with scripted responses to requests that follow the specification.
#[derive(Clone)]
struct Agent(watch::Sender<Said>);

#[tonic::async_trait]
impl SpiffeWorkloadApi for Agent {
    type FetchX509SVIDStream = ReceiverStream<Said>;

    async fn fetch_x509svid(
        &self,
        request: Request<X509svidRequest>,
    ) -> Result<Response<Self::FetchX509SVIDStream>, Status> {
        if request.metadata().get("workload.spiffe.io").is_none_or(|value| value != "true") {
            return Err(Status::invalid_argument("security header missing from request"));
        }
        let mut said = self.0.subscribe();
        said.mark_changed();
        let (say, stream) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            while said.changed().await.is_ok() {
                let message = said.borrow_and_update().clone();
                let last = message.is_err();
                if say.send(message).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

impl Agent {
    fn new(said: Said) -> Self {
        Self(watch::Sender::new(said))
    }

    fn serve(&self, socket: &Path) -> JoinHandle<Result<(), tonic::transport::Error>> {
        let _ = std::fs::remove_file(socket);
        let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
        let service = SpiffeWorkloadApiServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming))
    }

    fn says(&self, said: Said) {
        let _before = self.0.send_replace(said);
    }
}

fn svid(authority: &Authority, id: &str) -> X509svid {
    lasting_svid(authority, id, 3600)
}

fn lasting_svid(authority: &Authority, id: &str, seconds: i64) -> X509svid {
    let key = KeyPair::generate().unwrap();
    let params = leaf(&[uri(id)], |params| lasting(params, -60, seconds));
    X509svid {
        spiffe_id: id.to_owned(),
        x509_svid: authority.sign(&params, &key),
        x509_svid_key: key.serialize_der(),
        bundle: authority.root().to_vec(),
        hint: String::new(),
    }
}

fn message(svids: &[X509svid]) -> Said {
    Ok(X509svidResponse { svids: svids.to_vec(), ..X509svidResponse::default() })
}

async fn world(id: Option<&str>) -> World {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("agent.sock");
    let agent = AgentAddress::parse(&format!("unix://{}", socket.display())).unwrap();
    let mut config = SpiffeConfig::new(agent, id, SERVER_NAME);
    config.backoff = (Duration::from_millis(5), Duration::from_millis(50));
    config.interval = Duration::from_millis(20);
    World::start(IdentityConfig::Spiffe(config), folder).await
}

fn name(world: &World) -> Option<String> {
    let current = world.identity.current();
    current.as_ref().and_then(|own| own.name()).map(|name| name.as_str().to_owned())
}

#[tokio::test]
async fn the_identity_that_is_ours_is_put_in_force_with_its_bundle_as_roots() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[svid(&authority, OTHER), svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    let held = world.ready().await.certificate.unwrap();
    assert_eq!(held.name, Some(Identity::Spiffe(OURS.into())));
    let own = world.identity.current().clone().unwrap();
    assert_eq!((own.server_name(), own.roots()), (SERVER_NAME, &[authority.root()][..]));
}

#[tokio::test]
async fn without_a_name_of_ours_the_first_is_taken() {
    let authority = Authority::new();
    let world = world(None).await;
    let agent = Agent::new(message(&[svid(&authority, OTHER), svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    assert_eq!(name(&world).as_deref(), Some(OTHER));
}

#[tokio::test]
async fn a_socket_that_is_missing_is_tried_again_and_nothing_is_ready_before() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let said = world.failure(FailureKind::Unreachable).await;
    assert!(said.contains("agent.sock") && said.contains("No such file"), "{said}");
    wait_until("tried again", async || {
        world.metric("identity_failures_total{reason=\"unreachable\"}") >= Some(3)
    })
    .await;
    assert!(world.status.missing().unwrap().starts_with("no certificate yet: "));
    let agent = Agent::new(message(&[svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
}

#[tokio::test]
async fn certificates_and_bundles_are_replaced_as_they_come() {
    let (old, new) = (Authority::new(), Authority::new());
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[svid(&old, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    let first = world.certificate();
    let mut both = svid(&new, OURS);
    both.bundle.extend_from_slice(&old.root());
    agent.says(message(&[both]));
    world.until(|state| state.certificate.as_ref().is_some_and(|held| held.roots == 2)).await;
    assert_ne!(world.certificate(), first);
    agent.says(message(&[svid(&new, OURS)]));
    world.until(|state| state.certificate.as_ref().is_some_and(|held| held.roots == 1)).await;
    assert_eq!(world.identity.current().as_ref().unwrap().roots(), [new.root()]);
}

#[tokio::test]
async fn what_the_agent_takes_back_is_not_used_any_longer() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    agent.says(message(&[svid(&authority, OTHER)]));
    let said = world.failure(FailureKind::Answer).await;
    assert!(said.contains(&format!("no `{OURS}` among [{OTHER}]")), "{said}");
    assert_eq!(name(&world), None);
    agent.says(message(&[svid(&authority, OURS)]));
    world.ready().await;
    agent.says(Err(Status::permission_denied("no identity issued")));
    world.until(|state| state.certificate.is_none()).await;
    let said = world.status.missing().unwrap();
    assert!(said.contains("PermissionDenied: no identity issued"), "{said}");
    agent.says(message(&[svid(&authority, OURS)]));
    world.ready().await;
}

#[tokio::test]
async fn an_agent_that_goes_away_takes_nothing_with_it() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[svid(&authority, OURS)]));
    let server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    let first = world.certificate();
    agent.says(Err(Status::unavailable("restarting")));
    server.abort();
    std::fs::remove_file(world.path("agent.sock")).unwrap();
    world.failure(FailureKind::Unreachable).await;
    assert_eq!((world.certificate(), world.status.missing()), (first.clone(), None));
    agent.says(message(&[svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    wait_until("renewed", async || world.certificate() != first).await;
    assert_eq!(world.ready().await.failure, None);
}

#[tokio::test]
async fn a_certificate_that_expires_without_another_is_said_and_asked_for_again() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[lasting_svid(&authority, OURS, 10)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    world.until(|state| state.missing(SystemTime::now()).is_some()).await;
    let said = world.status.missing().unwrap();
    assert!(said.starts_with("the certificate expired at "), "{said}");
    agent.says(message(&[svid(&authority, OURS)]));
    world.ready().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_and_the_identity_stays() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    let first = world.certificate();
    let good = || svid(&authority, OURS);
    let key = KeyPair::generate().unwrap();
    let foreign = Authority::new();
    let cases = [
        ("x509_svid: expected", X509svid { x509_svid: Vec::new(), ..good() }),
        ("x509_svid: expected", X509svid { x509_svid: b"no DER".to_vec(), ..good() }),
        ("bundle: expected", X509svid { bundle: Vec::new(), ..good() }),
        (
            "bundle: expected",
            X509svid { bundle: [authority.root().as_ref(), b"x"].concat(), ..good() },
        ),
        ("x509_svid_key: missing", X509svid { x509_svid_key: Vec::new(), ..good() }),
        ("certificate: ", X509svid { x509_svid_key: b"no key".to_vec(), ..good() }),
        ("certificate: ", X509svid { x509_svid_key: key.serialize_der(), ..good() }),
        (
            "the certificate is not for this identity",
            X509svid { spiffe_id: OURS.into(), ..svid(&authority, OTHER) },
        ),
        ("UnknownIssuer", X509svid { bundle: foreign.root().to_vec(), ..good() }),
        ("Expired", lasting_svid(&authority, OURS, -30)),
    ];
    for (words, svid) in cases {
        agent.says(message(&[svid]));
        let says = |state: &policy_tls::identity::IdentityState| {
            state.failure.as_ref().is_some_and(|failure| failure.message.contains(words))
        };
        world.until(says).await;
        assert_eq!((world.certificate(), world.status.missing()), (first.clone(), None), "{words}");
        // In between, so that every case is reported anew.
        agent.says(message(&[X509svid {
            spiffe_id: OURS.into(),
            x509_svid: vec![1],
            ..X509svid::default()
        }]));
    }
    agent.says(message(&[good()]));
    world.until(|state| state.failure.is_none()).await;
    assert_ne!(world.certificate(), first);
}

#[tokio::test]
async fn a_client_of_another_trust_domain_is_refused_whatever_signed_it() {
    let authority = Authority::new();
    let world = world(Some(OURS)).await;
    let agent = Agent::new(message(&[svid(&authority, OURS)]));
    let _server = agent.serve(&world.path("agent.sock"));
    world.ready().await;
    let server = world.identity.current().as_ref().unwrap().server().clone();
    let shake = async |names: &[rcgen::SanType]| {
        let key = KeyPair::generate().unwrap();
        let chain = vec![authority.sign(&leaf(names, |_| {}), &key).into()];
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let (server_name, roots) = ("client.example".into(), vec![authority.root()]);
        let own = policy_tls::identity::Credentials { server_name, roots, chain, key };
        let own = policy_tls::identity::TlsIdentity::new(own).unwrap();
        let client = own.client(Identity::Spiffe(OURS.into())).unwrap();
        let (near, far) = tokio::io::duplex(64 << 10);
        let name = SERVER_NAME.try_into().unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(client));
        let acceptor = tokio_rustls::TlsAcceptor::from(server.clone());
        let (_client, accepted) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
        accepted.is_ok()
    };
    assert!(shake(&[uri(OTHER)]).await);
    assert!(shake(&[dns("bot.example")]).await, "DNS identities are not of a trust domain");
    assert!(!shake(&[uri("spiffe://elsewhere/ns/shop/sa/other")]).await);
    assert!(!shake(&[uri("spiffe://cluster.local.elsewhere/sa/other")]).await);
}
