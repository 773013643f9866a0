//! Limits of outbound connections, and their end with the process.

use super::*;
use policy_proxy::outbound::table::TableSettings;

fn table(max_entries: usize) -> Destinations {
    Destinations::new(TableSettings { max_entries, ..TableSettings::default() })
}

#[tokio::test]
async fn destinations_without_number_are_refused_and_those_in_use_stay() {
    let echo = Echo::start().await;
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.destinations = table(8);
        config.outbound.answer = PATIENCE;
        config.listeners.extend((1..=40).map(|host| Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            target: Target::OutboundTo(SocketAddr::from(([10, 9, 0, host], 80))),
        }));
    })
    .await;
    outbound.answer(service(&[plain(echo.address)]));
    let mut first = outbound.connect().await;
    assert_eq!(echo_on(&mut first, b"a").await.unwrap(), b"a");
    let mut waiting = Vec::new();
    for address in &outbound.sidecar.addresses()[1..] {
        // The reset may come before this side has seen that it is connected.
        waiting.push(TcpStream::connect(address).await);
    }
    let reason = "reason=\"too_many_destinations\"";
    outbound.counted("outbound_tcp_refused_total", reason, 33).await;
    assert_eq!(outbound.destinations.len(), 8);
    assert_eq!(echo_on(&mut first, b"b").await.unwrap(), b"b");
    // A place that is free again goes to the next.
    drop(waiting);
    let wanted = outbound.destinations.wanted();
    for (address, _) in
        wanted.into_iter().filter(|(address, _)| address.ip().to_string() != "10.96.0.1")
    {
        outbound.destinations.refuse(address, "gone");
    }
    outbound.counted("outbound_tcp_refused_total", "reason=\"discovery_unavailable\"", 7).await;
    let last = *outbound.sidecar.addresses().last().unwrap();
    let _stream = TcpStream::connect(last).await.unwrap();
    let begun = Instant::now();
    let new: SocketAddr = "10.9.0.40:80".parse().unwrap();
    while !outbound.destinations.wanted().iter().any(|(address, _)| *address == new) {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_reset_until_others_end() {
    let echo = Echo::start().await;
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.limits.connections = 1;
    })
    .await;
    outbound.answer(service(&[plain(echo.address)]));
    let mut first = outbound.connect().await;
    assert_eq!(echo_on(&mut first, b"a").await.unwrap(), b"a");
    outbound.refuses("too_many_connections").await;
    drop(first);
    outbound.counted("outbound_tcp_closed_total", "", 1).await;
    let begun = Instant::now();
    while outbound.echo(b"b").await.is_err() {
        assert!(begun.elapsed() < PATIENCE);
    }
}

#[tokio::test]
async fn draining_goes_on_accepting_what_the_application_calls() {
    let echo = Echo::start().await;
    let mut outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.listeners.push(Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            target: Target::Fixed { port: PORT, upstream: echo.address },
        });
        config.workers = std::num::NonZeroUsize::new(2).unwrap();
    })
    .await;
    outbound.answer(service(&[plain(echo.address)]));
    let mut open = outbound.connect().await;
    assert_eq!(echo_on(&mut open, b"a").await.unwrap(), b"a");
    outbound.sidecar.drain();
    let inbound = outbound.sidecar.addresses()[1];
    let begun = Instant::now();
    while TcpStream::connect(inbound).await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "the inbound half accepts no more");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // On either worker.
    for _ in 0..20 {
        assert_eq!(outbound.echo(b"new").await.unwrap(), b"new");
    }
    assert_eq!(echo_on(&mut open, b"b").await.unwrap(), b"b");
    let ended = tokio::time::timeout(Duration::from_millis(300), outbound.sidecar.ended()).await;
    assert!(ended.is_err(), "an open connection is waited for");
    drop(open);
    tokio::time::timeout(PATIENCE, outbound.sidecar.ended()).await.unwrap();
    assert!(TcpStream::connect(outbound.address).await.is_err());
}

#[tokio::test]
async fn a_silent_connection_ends_where_a_bound_is_set() {
    let echo = Echo::start().await;
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.timeouts.opaque_idle = Some(Duration::from_secs(1));
    })
    .await;
    outbound.answer(service(&[plain(echo.address)]));
    let mut stream = outbound.connect().await;
    assert_eq!(echo_on(&mut stream, b"a").await.unwrap(), b"a");
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await.unwrap();
    // What it cuts must not look whole.
    assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_host_without_ipv6_is_listened_on_all_the_same() {
    // Without IPv6 this address is left out; with it, it is bound.
    let outbound = Outbound::with(SERVICE, IdentityHandle::empty(), |config| {
        config.listeners.push(Listener {
            address: "[::1]:0".parse().unwrap(),
            target: Target::OutboundTo(SERVICE.parse().unwrap()),
        });
        // No host has this one.
        config.listeners.push(Listener {
            address: "[2001:db8::1]:0".parse().unwrap(),
            target: Target::Outbound,
        });
    })
    .await;
    assert!((1..=2).contains(&outbound.sidecar.addresses().len()));
    assert!(TcpStream::connect(outbound.address).await.is_ok());
}
