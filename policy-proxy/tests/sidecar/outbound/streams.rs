//! The bytes of outbound connections: greetings, half-close, back-pressure and resets.

use super::mesh::{Web, client, only_client};
use super::*;
use policy_core::Protocol;
use policy_testkit::long_or;
use socket2::SockRef;

/// Listens, and hands out the connections.
async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server that is reached in plaintext, and one in mesh TLS.
async fn ways(authority: &Authority, application: SocketAddr) -> [(Outbound, Option<Web>); 2] {
    let plaintext = Outbound::to(SERVICE).await;
    plaintext.answer(service(&[plain(application)]));
    let web = Web::new(authority, only_client(Protocol::Opaque), application).await;
    let mesh = client(authority).await;
    mesh.answer(service(&[web.opaque()]));
    [(plaintext, None), (mesh, Some(web))]
}

/// Greets as MySQL does, and waits.
async fn greeter() -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(GREETING).await.unwrap();
            tokio::spawn(async move { while !matches!(stream.read(&mut [0]).await, Ok(0)) {} });
        }
    });
    address
}

const GREETING: &[u8] = b"J\0\0\0\n8.4.0\0";

async fn is_greeted(outbound: &Outbound) {
    let mut stream = outbound.connect().await;
    let mut greeting = [0; GREETING.len()];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut greeting)).await.unwrap().unwrap();
    assert_eq!(greeting, GREETING);
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_at_once() {
    let address = greeter().await;
    for (outbound, _web) in ways(&Authority::new(), address).await {
        is_greeted(&outbound).await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_needs_no_opaque_port() {
    let (authority, address) = (Authority::new(), greeter().await);
    let hour = Duration::from_secs(3600);
    let web = Web::new(&authority, only_client(Protocol::Detect { timeout: hour }), address).await;
    let outbound = client(&authority).await;
    outbound.answer(service(&[web.endpoint()]));
    is_greeted(&outbound).await;
}

#[tokio::test]
async fn one_side_may_end_while_the_other_goes_on() {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.unwrap();
                tokio::time::sleep(Duration::from_millis(300)).await;
                read.reverse();
                stream.write_all(&read).await.unwrap();
            });
        }
    });
    for (outbound, _web) in ways(&Authority::new(), address).await {
        let mut stream = outbound.connect().await;
        stream.write_all(b"abc").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"cba");
    }
}

#[tokio::test]
async fn much_arrives_as_it_was_sent_in_both_directions() {
    let echo = Echo::start().await;
    let megabytes = long_or("MEGABYTES", 48);
    for (outbound, _web) in ways(&Authority::new(), echo.address).await {
        let (mut read, mut write) = outbound.connect().await.into_split();
        let piece = |number: usize| -> Vec<u8> {
            (0..1_000_000_usize).map(|at| (at.wrapping_mul(31) ^ number).to_le_bytes()[0]).collect()
        };
        tokio::spawn(async move {
            for number in 0..megabytes {
                write.write_all(&piece(number)).await.unwrap();
            }
            write.shutdown().await.unwrap();
        });
        let mut got = vec![0; 1_000_000];
        for number in 0..megabytes {
            read.read_exact(&mut got).await.unwrap();
            assert!(got == piece(number), "megabyte {number}");
        }
        assert_eq!(read.read(&mut got).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_the_client_back() {
    let (listener, address) = listener().await;
    for (outbound, _web) in ways(&Authority::new(), address).await {
        let mut stream = outbound.connect().await;
        let (_held, _) = listener.accept().await.unwrap();
        let mut sent = 0_usize;
        let piece = vec![0; 100_000];
        while let Ok(written) =
            tokio::time::timeout(Duration::from_millis(500), stream.write(&piece)).await
        {
            sent += written.unwrap();
            assert!(sent < 200_000_000, "no end of it");
        }
    }
}

/// The system ends connections whose peer takes nothing for as long as it may leave bytes
/// unacknowledged, although it acknowledges.
#[tokio::test]
async fn a_server_may_take_any_time_before_it_reads() {
    let (listener, address) = listener().await;
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.outbound.user_timeout = Duration::from_secs(4);
    })
    .await;
    outbound.answer(service(&[plain(address)]));
    let (mut client, accepted) = tokio::join!(outbound.connect(), listener.accept());
    let mut server = accepted.unwrap().0;
    const SIZE: usize = 40_000_000;
    let sending = tokio::spawn(async move {
        client.write_all(&vec![7; SIZE]).await.unwrap();
        client.shutdown().await.unwrap();
        client
    });
    tokio::time::sleep(Duration::from_secs(9)).await;
    let mut got = Vec::new();
    tokio::time::timeout(PATIENCE, server.read_to_end(&mut got)).await.unwrap().unwrap();
    assert!(got == vec![7; SIZE], "{}", got.len());
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn a_reset_on_one_side_is_a_reset_on_the_other() {
    let (listener, address) = listener().await;
    let reset = |stream: TcpStream| {
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    };
    for (outbound, web) in ways(&Authority::new(), address).await {
        let (mut client, accepted) = tokio::join!(outbound.connect(), listener.accept());
        let mut server = accepted.unwrap().0;
        client.write_all(b"a").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        reset(server);
        let read = tokio::time::timeout(PATIENCE, client.read(&mut [0])).await.unwrap();
        assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
        // The inbound half of another pod passes a reset on as the end of the connection.
        let (mut client, accepted) = tokio::join!(outbound.connect(), listener.accept());
        let mut server = accepted.unwrap().0;
        client.write_all(b"a").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        reset(client);
        let read = tokio::time::timeout(PATIENCE, server.read(&mut [0])).await.unwrap();
        if web.is_none() {
            assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
        } else {
            assert!(!matches!(read, Ok(1..)), "{read:?}");
        }
    }
}
