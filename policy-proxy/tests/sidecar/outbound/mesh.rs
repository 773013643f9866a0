//! Connections to endpoints in the mesh, whose inbound half is the real one.

use super::*;
use crate::direct::listen;
use policy_core::{Protocol, ServerPolicy};
use policy_proxy::outbound::settings::Transport;
use policy_testkit::lasting;
use std::collections::BTreeSet;

/// A workload of the mesh, `web`, in front of an application.
pub(super) struct Web {
    pub(super) setup: Setup,
    /// Where the application's port is redirected to.
    pub(super) redirected: SocketAddr,
    /// The port of its sidecar.
    pub(super) inbound: u16,
}

impl Web {
    pub(super) async fn new(
        authority: &Authority,
        policy: ServerPolicy,
        application: SocketAddr,
    ) -> Self {
        Self::of(authority.workload(), policy, application).await
    }

    pub(super) async fn of(
        identity: TlsIdentity,
        policy: ServerPolicy,
        application: SocketAddr,
    ) -> Self {
        let identity = IdentityHandle::new(identity);
        let setup = Setup::with(Some(policy), application, identity, |config| {
            listen(config, Target::Direct);
        })
        .await;
        let (redirected, inbound) = (setup.address, setup.sidecar.addresses()[1].port());
        Self { setup, redirected, inbound }
    }

    /// The endpoint, reached at its own port.
    pub(super) fn endpoint(&self) -> Endpoint {
        meshed(self.redirected, self.inbound, false)
    }

    /// The endpoint, reached at its sidecar's port.
    pub(super) fn opaque(&self) -> Endpoint {
        meshed(self.by_header(), self.inbound, true)
    }

    /// The address whose port the header names.
    fn by_header(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], PORT.get()))
    }

    /// Transport headers that it read.
    fn headers(&self) -> usize {
        let name = "inbound_tcp_transport_header_connections_total{";
        self.setup.metrics().lines().filter(|line| line.starts_with(name)).count()
    }
}

pub(super) async fn client(authority: &Authority) -> Outbound {
    Outbound::with(SERVICE, IdentityHandle::new(client_of(authority)), |_| {}).await
}

pub(super) fn only_client(protocol: Protocol) -> ServerPolicy {
    server(protocol, identities(&[&name("client")]))
}

#[tokio::test]
async fn a_meshed_endpoint_is_reached_at_its_own_port_and_knows_the_client() {
    let (authority, app) = (Authority::new(), App::start().await);
    let web = Web::new(&authority, informing(only_client(detect())), app.address).await;
    let outbound = client(&authority).await;
    outbound.answer(service(&[web.endpoint()]));
    let mut http = Client::new(outbound.connect().await).await;
    let got = http.get("/").await;
    assert_eq!(got.status, http::StatusCode::OK);
    assert!(got.body.contains(&format!("l5d-client-id: {}\n", name("client"))), "{}", got.body);
    assert!(got.body.contains("l5d-connection-secure: true\n"), "{}", got.body);
    assert_eq!(web.headers(), 0, "no transport header");
    let label = format!("tls=\"true\",server_id=\"{}\",no_tls_reason=\"\"", name("web"));
    outbound.counted("outbound_tcp_opened_total", &label, 1).await;
}

#[tokio::test]
async fn an_opaque_endpoint_is_reached_through_its_sidecars_port() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let web = Web::new(&authority, only_client(Protocol::Opaque), echo.address).await;
    let outbound = client(&authority).await;
    outbound.answer(service(&[web.opaque()]));
    assert_eq!(outbound.echo(b"bytes").await.unwrap(), b"bytes");
    web.setup.logged(&format!("allow - {} connection", name("client"))).await;
    assert_eq!(web.headers(), 1);
}

#[tokio::test]
async fn the_header_is_always_sent_if_it_is_said() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let web = Web::new(&authority, only_client(detect()), echo.address).await;
    let identity = IdentityHandle::new(client_of(&authority));
    let outbound = Outbound::with(SERVICE, identity, |config| {
        config.outbound.transport = Transport::Header;
    })
    .await;
    outbound.answer(service(&[meshed(web.by_header(), web.inbound, false)]));
    assert_eq!(outbound.echo(b"EHLO a\r\n").await.unwrap(), b"EHLO a\r\n");
    assert_eq!(web.headers(), 1);
}

#[tokio::test]
async fn an_endpoint_of_another_identity_is_passed_over_and_never_gets_a_byte() {
    let (authority, echo, taken) = (Authority::new(), Echo::start().await, Echo::start().await);
    let good = Web::new(&authority, only_client(detect()), echo.address).await;
    let other = Web::new(&authority, server(detect(), everybody()), taken.address).await;
    let outbound = client(&authority).await;
    let wrong = meshed_as("db", other.redirected, other.inbound, false);
    outbound.answer(service(&[good.endpoint(), wrong.clone()]));
    for _ in 0..10 {
        assert_eq!(outbound.echo(b"EHLO a\r\n").await.unwrap(), b"EHLO a\r\n");
    }
    outbound.counted("outbound_tcp_attempts_failed_total", "reason=\"identity\"", 1).await;
    outbound.answer(service(&[wrong]));
    outbound.refuses("identity").await;
    assert_eq!((taken.connections(), echo.connections()), (0, 10));
}

#[tokio::test]
async fn what_proves_nothing_is_never_reached_in_plaintext() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let policy = || server(detect(), everybody());
    let with = |of: &Authority, from, until| {
        let leaf = of.leaf_with(&[san(&name("web"))], |params| lasting(params, from, until));
        let (server_name, roots) = (name("web").into(), vec![authority.root()]);
        TlsIdentity::new(Credentials { server_name, roots, chain: leaf.chain, key: leaf.key })
            .unwrap()
    };
    let expired = Web::of(with(&authority, -120, -60), policy(), echo.address).await;
    let untrusted = Web::of(with(&Authority::new(), -60, 60), policy(), echo.address).await;
    let none = Setup::new(policy(), echo.address).await;
    let plaintext = meshed(none.address, 4143, false);
    for endpoint in [expired.endpoint(), untrusted.endpoint(), plaintext] {
        let outbound = client(&authority).await;
        outbound.answer(service(std::slice::from_ref(&endpoint)));
        outbound.refuses("identity").await;
        // Nor as the address of a pod, nor when the controller is lost.
        outbound.answer(Destination::Workload(endpoint));
        outbound.destinations.lose_all();
        assert!(outbound.echo(b"secret").await.is_err());
    }
    // A server that does not speak TLS sees no more than what begins a handshake.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outbound = Outbound::with(SERVICE, IdentityHandle::new(client_of(&authority)), |config| {
        config.outbound.handshake = Duration::from_millis(200);
    })
    .await;
    outbound.answer(service(&[meshed(silent.local_addr().unwrap(), 4143, false)]));
    let (mut stream, peer) = tokio::join!(outbound.connect(), silent.accept());
    stream.write_all(b"secret").await.unwrap();
    let mut seen = Vec::new();
    let _ = peer.unwrap().0.read_to_end(&mut seen).await;
    assert_eq!(seen.first(), Some(&22), "a ClientHello");
    assert!(!seen.windows(6).any(|bytes| bytes == b"secret"));
    assert!(stream.read(&mut [0]).await.is_err());
    // The echo server behind them was reached by nobody, but for bytes of a ClientHello in plaintext.
    assert!(echo.connections() <= 2, "{}", echo.connections());
}

#[tokio::test]
async fn plaintext_and_mesh_endpoints_of_one_service_are_each_reached_in_their_way() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let web = Web::new(&authority, only_client(detect()), echo.address).await;
    let outside = Echo::start().await;
    let outbound = client(&authority).await;
    outbound.answer(service(&[web.endpoint(), plain(outside.address)]));
    let mut open = Vec::new();
    for _ in 0..10 {
        let mut stream = outbound.connect().await;
        assert_eq!(echo_on(&mut stream, b"EHLO a\r\n").await.unwrap(), b"EHLO a\r\n");
        open.push(stream);
    }
    assert_eq!((echo.connections(), outside.connections()), (5, 5));
    // Once the controller was lost for long, plaintext is no knowledge.
    let outbound = Outbound::with(SERVICE, IdentityHandle::new(client_of(&authority)), |config| {
        let table = policy_proxy::outbound::table::TableSettings {
            stale_unmeshed: Duration::ZERO,
            ..Default::default()
        };
        config.destinations = Destinations::new(table);
    })
    .await;
    outbound.answer(service(&[web.endpoint(), plain(outside.address)]));
    outbound.destinations.lose_all();
    for _ in 0..10 {
        assert_eq!(outbound.echo(b"EHLO a\r\n").await.unwrap(), b"EHLO a\r\n");
    }
    assert_eq!(outside.connections(), 5);
    outbound.answer(service(&[plain(outside.address)]));
    outbound.destinations.lose_all();
    outbound.refuses("discovery_unavailable").await;
}

#[tokio::test]
async fn a_connection_waits_for_the_first_certificate_and_not_for_ever() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let web = Web::new(&authority, only_client(detect()), echo.address).await;
    let outbound = Outbound::to(SERVICE).await;
    outbound.answer(service(&[web.endpoint()]));
    outbound.refuses("no_identity").await;
    let identity = IdentityHandle::empty();
    let outbound = Outbound::with(SERVICE, identity.clone(), |config| {
        config.outbound.answer = PATIENCE;
    })
    .await;
    outbound.answer(service(&[web.endpoint()]));
    let mut stream = outbound.connect().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    identity.replace(client_of(&authority));
    assert_eq!(echo_on(&mut stream, b"EHLO a\r\n").await.unwrap(), b"EHLO a\r\n");
}

#[tokio::test]
async fn an_address_that_another_pod_took_over_is_asked_for_again() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let web = Web::new(&authority, only_client(detect()), echo.address).await;
    let outbound = client(&authority).await;
    outbound.answer(Destination::Workload(meshed_as("db", web.redirected, web.inbound, false)));
    let serials = |destinations: &Destinations| -> BTreeSet<u64> {
        destinations.wanted().into_iter().map(|(_, serial)| serial).collect()
    };
    let before = serials(&outbound.destinations);
    let mut stream = outbound.connect().await;
    let begun = Instant::now();
    while serials(&outbound.destinations) == before {
        assert!(begun.elapsed() < PATIENCE, "nobody asked again");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    outbound.answer(Destination::Workload(web.endpoint()));
    assert_eq!(echo_on(&mut stream, b"EHLO a\r\n").await.unwrap(), b"EHLO a\r\n");
}

#[tokio::test]
async fn a_service_that_leads_to_this_pod_goes_through_its_own_inbound_half() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    for (granted, want) in [("web", true), ("other", false)] {
        let destinations = Destinations::new(Default::default());
        let policy = server(detect(), identities(&[&name(granted)]));
        let identity = IdentityHandle::new(authority.workload());
        let setup = Setup::with(Some(policy), echo.address, identity, |config| {
            listen(config, Target::Direct);
            listen(config, Target::OutboundTo(SERVICE.parse().unwrap()));
            config.pod_addresses = vec!["127.0.0.1".parse().unwrap()];
            config.destinations = destinations.clone();
        })
        .await;
        let inbound = setup.sidecar.addresses()[1].port();
        let to = SocketAddr::from(([127, 0, 0, 1], PORT.get()));
        let entry = destinations.entry(SERVICE.parse().unwrap()).unwrap();
        destinations.answer(entry.address(), Arc::new(service(&[meshed(to, inbound, false)])));
        let mut stream = TcpStream::connect(setup.sidecar.addresses()[2]).await.unwrap();
        let got = echo_on(&mut stream, b"EHLO a\r\n").await;
        assert_eq!(got.is_ok(), want, "{granted}");
        setup.logged(&format!("{} connection", name("web"))).await;
    }
}

#[tokio::test]
async fn a_root_that_is_taken_out_ends_what_it_vouched_for() {
    let (kept, removed) = (Authority::new(), Authority::new());
    let echo = Echo::start().await;
    // The client is known to both; each server is vouched for by one.
    let roots = |of: &[&Authority]| of.iter().map(|own| own.root()).collect::<Vec<_>>();
    let client_with = |roots| {
        let leaf = kept.leaf(&[san(&name("client"))]);
        let server_name = name("client").into();
        TlsIdentity::new(Credentials { server_name, roots, chain: leaf.chain, key: leaf.key })
            .unwrap()
    };
    let policy = || server(detect(), everybody());
    let lost = Web::of(removed.workload_with(roots(&[&kept])), policy(), echo.address).await;
    let stays = Web::of(kept.workload(), policy(), echo.address).await;
    let identity = IdentityHandle::new(client_with(roots(&[&kept, &removed])));
    let outbound = Outbound::with(SERVICE, identity.clone(), |_| {}).await;
    outbound.answer(service(&[lost.endpoint()]));
    let mut first = outbound.connect().await;
    echo_on(&mut first, b"EHLO a\r\n").await.unwrap();
    outbound.answer(service(&[stays.endpoint()]));
    let mut second = outbound.connect().await;
    echo_on(&mut second, b"EHLO a\r\n").await.unwrap();
    identity.replace(client_with(roots(&[&kept])));
    let ended = tokio::time::timeout(PATIENCE, first.read(&mut [0])).await.unwrap();
    assert_eq!(ended.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    assert_eq!(echo_on(&mut second, b"EHLO b\r\n").await.unwrap(), b"EHLO b\r\n");
}

#[tokio::test]
async fn a_certificate_that_expires_ends_its_connections() {
    let (authority, echo) = (Authority::new(), Echo::start().await);
    let leaf = authority.leaf_with(&[san(&name("web"))], |params| lasting(params, -60, 3));
    let (server_name, roots) = (name("web").into(), vec![authority.root()]);
    let own = Credentials { server_name, roots, chain: leaf.chain, key: leaf.key };
    let web =
        Web::of(TlsIdentity::new(own).unwrap(), server(detect(), everybody()), echo.address).await;
    let identity = IdentityHandle::new(client_of(&authority));
    let outbound = Outbound::with(SERVICE, identity, |config| {
        config.timeouts.grace = Duration::ZERO;
    })
    .await;
    outbound.answer(service(&[web.endpoint()]));
    let mut stream = outbound.connect().await;
    echo_on(&mut stream, b"EHLO a\r\n").await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await.unwrap();
    assert_eq!(ended.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    // In the second in which it expires a certificate is still accepted.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    outbound.refuses("identity").await;
}

/// A listener whose queue is full, and what fills it: a connection waits until one is accepted.
async fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from_std(socket.into()).unwrap();
    let (address, mut filling) = (listener.local_addr().unwrap(), Vec::new());
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await
    {
        filling.push(stream.unwrap());
    }
    (listener, filling)
}

#[tokio::test]
async fn what_joins_the_mesh_while_it_is_connected_to_gets_no_plaintext() {
    let authority = Authority::new();
    for before in [true, false] {
        let (listener, filling) = full_listener().await;
        let address = listener.local_addr().unwrap();
        let identity = IdentityHandle::new(client_of(&authority));
        let outbound = Outbound::with(&address.to_string(), identity, |_| {}).await;
        let known = Destination::Workload(plain(address));
        outbound.answer(if before { known } else { Destination::Unknown });
        let mut stream = outbound.connect().await;
        stream.write_all(b"secret").await.unwrap();
        // Time to be connecting, after what it waits for.
        tokio::time::sleep(Duration::from_millis(600)).await;
        outbound.answer(Destination::Workload(meshed(address, 4143, false)));
        // What waited is accepted, and so is each that follows.
        let mut firsts = Vec::new();
        while firsts.last() != Some(&b"\x16".to_vec()) {
            let (mut accepted, from) =
                tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            if filling.iter().any(|own| own.local_addr().unwrap() == from) {
                continue;
            }
            let mut first = vec![0];
            let read = accepted.read(&mut first).await.unwrap();
            first.truncate(read);
            firsts.push(first);
        }
        assert_eq!(firsts, [b"".to_vec(), b"\x16".to_vec()], "known before: {before}");
    }
}

/// Its address may be another pod's by then.
#[tokio::test]
async fn what_is_no_endpoint_any_more_when_it_accepts_gets_no_byte() {
    let (listener, filling) = full_listener().await;
    let address = listener.local_addr().unwrap();
    let echo = Echo::start().await;
    let outbound = Outbound::to(SERVICE).await;
    outbound.answer(service(&[plain(address)]));
    let mut stream = outbound.connect().await;
    stream.write_all(b"secret").await.unwrap();
    // Time to be connecting.
    tokio::time::sleep(Duration::from_millis(600)).await;
    outbound.answer(service(&[plain(echo.address)]));
    let mut accepted = loop {
        let accepted = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap();
        let (accepted, from) = accepted.unwrap();
        if filling.iter().all(|own| own.local_addr().unwrap() != from) {
            break accepted;
        }
    };
    assert_eq!(accepted.read(&mut [0]).await.unwrap(), 0);
    let mut answer = [0; 6];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, *b"secret");
}
