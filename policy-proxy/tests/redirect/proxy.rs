//! The sidecar behind real rules: original destinations, IPv4 and IPv6.

use crate::sidecar::Sidecar;
use crate::support::*;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A world with rules, a sidecar, and listeners on these ports.
fn meshed(redirect: &str, ports: &[u16]) -> Option<(World, Sidecar, Listeners)> {
    let world = world_or_skip()?;
    let output = world.redirect(redirect);
    assert!(output.status.success(), "{}", said(&output));
    let sidecar = Sidecar::start(&world);
    let listeners = Listeners::start(&world.pod, ports);
    Some((world, sidecar, listeners))
}

/// The response to bytes of no protocol. A refused connection may be closed before they are
/// written.
fn answer(mut stream: std::net::TcpStream) -> String {
    let _ = stream.write_all(b"\x00\x01\x02 not HTTP, and long enough to know\r\n\r\n");
    let _ = stream.shutdown(std::net::Shutdown::Write);
    read_all(stream)
}

fn carried_to_where_they_were_going(mode: &str) {
    let flags = format!("--mode {mode} --skip-inbound-ports 8081");
    let Some((world, _sidecar, listeners)) = meshed(&flags, &[8080, 8081]) else { return };
    for (pod, client) in POD.into_iter().zip(CLIENT) {
        let said = answer(world.connect(SocketAddr::new(pod, 8080)).unwrap());
        let seen = listeners.next();
        // The sidecar connects to the application at the address that the client connected to.
        assert_eq!((said.as_str(), seen.at, seen.from), ("8080", 8080, pod));
        let skipped = answer(world.connect(SocketAddr::new(pod, 8081)).unwrap());
        let seen = listeners.next();
        assert_eq!((skipped.as_str(), seen.at, seen.from), ("8081", 8081, client));
        let closed = answer(world.connect(SocketAddr::new(pod, 8082)).unwrap());
        assert_eq!(closed, "", "nobody listens there");
    }
    assert_eq!(listeners.more(), []);
}

#[test]
fn connections_redirected_by_nft_are_carried_to_where_they_were_going() {
    carried_to_where_they_were_going("nft");
}

#[test]
fn connections_redirected_by_iptables_are_carried_to_where_they_were_going() {
    carried_to_where_they_were_going("iptables");
}

#[test]
fn an_address_that_is_not_the_pods_is_refused() {
    let Some((world, _sidecar, listeners)) = meshed("", &[8080]) else { return };
    for (second, pod) in SECOND.into_iter().zip(POD) {
        assert_eq!(answer(world.connect(SocketAddr::new(second, 8080)).unwrap()), "", "{second}");
        assert_eq!(answer(world.connect(SocketAddr::new(pod, 8080)).unwrap()), "8080", "{pod}");
        assert_eq!(listeners.next().from, pod);
    }
    assert_eq!(listeners.more(), []);
}

/// The sidecar's own port is not redirected to itself, and plaintext to it goes nowhere.
#[test]
fn plaintext_to_the_inbound_port_itself_is_refused() {
    let Some((world, _sidecar, listeners)) = meshed("", &[8080]) else { return };
    for pod in POD {
        assert_eq!(answer(world.connect(SocketAddr::new(pod, 4143)).unwrap()), "", "{pod}");
    }
    assert_eq!(listeners.more(), []);
}

/// Foreign rules may redirect a pod's traffic to itself. If the sidecar forwarded it, every client
/// of the loopback device would count as the pod.
#[test]
fn redirected_loopback_traffic_is_refused() {
    let Some((world, _sidecar, listeners)) = meshed("", &[8080]) else { return };
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let ask = |ip: IpAddr| world.pod.inside(|| answer(connect(SocketAddr::new(ip, 8080)).unwrap()));
    for address in loopback {
        assert_eq!(ask(address), "8080", "as long as it is not redirected");
        assert_eq!(listeners.next().from, address);
    }
    world.pod.feed(
        &["nft", "-f", "-"],
        "table inet others {
           chain output {
             type nat hook output priority -110; policy accept;
             oifname \"lo\" meta skuid != 2102 tcp dport 8080 redirect to :4143
           }
         }",
    );
    for address in loopback {
        assert_eq!(ask(address), "", "{address}");
    }
    assert_eq!(listeners.more(), []);
}
