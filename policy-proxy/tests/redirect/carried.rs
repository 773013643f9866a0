//! The pod's own connections, redirected by real rules and carried by the real sidecar.

use crate::sidecar::Sidecar;
use crate::support::*;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

const CANARY: &str = "127.0.0.1:4193";
const APPLICATION: u32 = 1000;

/// A pod whose own connections are redirected to its sidecar, which no controller answers.
fn start(mode: &str, networks: &str) -> Option<(World, Sidecar)> {
    let world = world_or_skip()?;
    let flags = format!("--mode {mode} --outbound-port 4140 --canary {CANARY}");
    let output = world.redirect(&flags);
    assert!(output.status.success(), "{}", said(&output));
    let ips = POD.map(|ip| ip.to_string()).join(",");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let outbound = ["--outbound-listen", "127.0.0.1:4140,[::1]:4140", "--canary", CANARY];
    let networks = ["--outbound-networks", networks, "--inbound-ips", &ips];
    let flags = [outbound, networks].concat();
    let sidecar = Sidecar::following(&world, nobody, &flags);
    Some((world, sidecar))
}

fn status(from: &Namespace, to: SocketAddr) -> String {
    let mut stream = from.inside(|| connect(to)).unwrap();
    write!(stream, "GET /live HTTP/1.1\r\nhost: pod\r\nconnection: close\r\n\r\n").unwrap();
    read_all(stream).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn what_a_pod_sends_goes_where_it_dialled_through_the_sidecar() {
    for mode in ["nft", "iptables"] {
        let Some((world, sidecar)) = start(mode, "203.0.113.0/24") else { return };
        let outside = Listeners::start(&world.client, &[80]);
        for (client, pods) in CLIENT.into_iter().zip(POD.into_iter().zip(SECOND)) {
            let to = SocketAddr::new(client, 80);
            let stream = world.pod.inside(|| as_user(APPLICATION, || connect(to))).unwrap();
            assert_eq!(read_all(stream), "80", "{mode}");
            let seen = outside.next();
            // The connection is the sidecar's own, from whichever address of the pod.
            assert!(seen.at == 80 && [pods.0, pods.1].contains(&seen.from), "{mode}: {seen:?}");
        }
        // The sidecar carries both, so that nothing remains if it ends.
        drop(sidecar);
        for client in CLIENT {
            let to = SocketAddr::new(client, 80);
            let refused = world.pod.inside(|| as_user(APPLICATION, || connect(to)));
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{mode}");
        }
    }
}

#[test]
fn without_a_controller_what_would_have_to_be_looked_up_is_reset() {
    let Some((world, _sidecar)) = start("nft", "10.77.0.0/24,fd77::/64") else { return };
    let outside = Listeners::start(&world.client, &[80]);
    for client in CLIENT {
        let to = SocketAddr::new(client, 80);
        let mut stream = world.pod.inside(|| as_user(APPLICATION, || connect(to))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let read = stream.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset));
    }
    assert_eq!(outside.more(), []);
}

#[test]
fn a_connection_to_the_listener_itself_is_reset() {
    let Some((world, _sidecar)) = start("nft", "203.0.113.0/24") else { return };
    for own in ["127.0.0.1:4140", "[::1]:4140"] {
        let to: SocketAddr = own.parse().unwrap();
        let read = world.pod.inside(|| {
            let mut stream = connect(to)?;
            stream.read(&mut [0])
        });
        assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset), "{own}");
    }
}

#[test]
fn the_listener_receives_the_call_that_proves_redirection() {
    for mode in ["nft", "iptables"] {
        let Some((world, _sidecar)) = start(mode, "203.0.113.0/24") else { return };
        let begun = std::time::Instant::now();
        for pod in POD {
            while status(&world.client, SocketAddr::new(pod, 4192)) != "200" {
                assert!(begun.elapsed() < PATIENCE, "{mode}: not proven");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
}
