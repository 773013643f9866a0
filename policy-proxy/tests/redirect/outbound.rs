//! Redirection of the pod's own connections.

use crate::support::*;
use crate::tool::{TOOLS, Tool, wants};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::PathBuf;

/// Further addresses of the client, which the pod's rules leave alone.
const SKIPPED: [IpAddr; 2] = [v4(4), v6(4)];
const CANARIES: [&str; 2] = ["127.0.0.127:4192", "[::1]:4192"];
const PROXY: u32 = 2102;

/// A pod whose own connections are redirected.
struct Pod {
    world: World,
    path: Option<PathBuf>,
    tool: Tool,
    inside: Listeners,
    outside: Listeners,
}

/// The side of the link that a connection arrived on.
#[derive(Debug, PartialEq, Eq)]
enum Arrived {
    /// At the pod: the listener's port, and the original destination.
    Inside(u16, Option<SocketAddr>),
    /// At the client: the listener's port.
    Outside(u16),
}

const REDIRECTED: u16 = 4140;

impl Pod {
    fn start(tool: Tool, flags: &str) -> Option<Self> {
        let world = world_or_skip()?;
        let path = tool.path(&world);
        let [skipped4, skipped6] = SKIPPED;
        for command in [
            format!("ip address add {skipped4}/24 dev eth0"),
            // Deprecated: the client's own connections come from its first address.
            format!("ip address add {skipped6}/64 dev eth0 nodad preferred_lft 0"),
            "ip address add 169.254.169.254/16 dev eth0".to_owned(),
            "ip address add fe80::3/64 dev eth0 nodad".to_owned(),
        ] {
            world.client.run(&command);
        }
        world.pod.run("ip route add 169.254.0.0/16 dev eth0");
        world.pod.run("ip address add fe80::2/64 dev eth0 nodad");
        let inside = Listeners::start(&world.pod, &[80, 4140, 4143]);
        let outside = Listeners::start(&world.client, &[53, 80, 2525, 4140]);
        let said = "inbound TCP is redirected to port 4143, except to ports 4143,4191; outbound TCP \
                    to port 4140, except to ports 53,2525-2526 and networks \
                    169.254.0.0/16,fe80::/10,10.77.0.4/32,fd77::4/128";
        wants(tool, &world, path.as_ref(), &format!("{OUTBOUND} {flags}"), (0, said));
        Some(Self { world, path, tool, inside, outside })
    }

    /// Connects as a user of the pod.
    fn connect(&self, user: u32, to: SocketAddr) -> Arrived {
        let stream = self.world.pod.inside(|| as_user(user, || connect(to))).unwrap();
        let port: u16 = read_all(stream).parse().unwrap();
        match (self.inside.more().as_slice(), self.outside.more().as_slice()) {
            ([seen], []) => {
                assert_eq!(seen.at, port);
                Arrived::Inside(port, seen.original)
            }
            ([], [seen]) => {
                assert_eq!(seen.at, port);
                Arrived::Outside(port)
            }
            other => panic!("{to}: {other:?}"),
        }
    }

    #[track_caller]
    fn assert_redirected(&self, user: u32, to: SocketAddr) {
        let expected = Arrived::Inside(REDIRECTED, Some(to));
        assert_eq!(self.connect(user, to), expected, "{:?}: {user} to {to}", self.tool);
    }

    #[track_caller]
    fn assert_left_alone(&self, user: u32, to: SocketAddr) {
        let expected = Arrived::Outside(to.port());
        assert_eq!(self.connect(user, to), expected, "{:?}: {user} to {to}", self.tool);
    }
}

const OUTBOUND: &str = "--outbound-port 4140 --skip-outbound-ports 2525-2526 \
                        --skip-outbound-networks 10.77.0.4/32,fd77::4/128";

/// The client's link-local IPv6 address, as the pod calls it.
fn link_local(world: &World) -> SocketAddr {
    let link = world.pod.run("ip -oneline link show eth0");
    let index: u32 = link.split(':').next().unwrap().parse().unwrap();
    let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 3);
    SocketAddr::V6(SocketAddrV6::new(address, 80, 0, index))
}

#[test]
fn what_a_pod_says_to_others_is_redirected_whoever_in_it_speaks() {
    for tool in TOOLS {
        let Some(pod) = Pod::start(tool, "") else { return };
        for client in CLIENT {
            for user in [0, 1000] {
                // Nobody listens on 81. Port 4140 of another pod is any port.
                for port in [80, 81, 4140, 54] {
                    pod.assert_redirected(user, SocketAddr::new(client, port));
                }
            }
        }
    }
}

#[test]
fn the_sidecar_dns_link_local_addresses_and_what_is_skipped_are_left_alone() {
    for tool in TOOLS {
        let Some(pod) = Pod::start(tool, "") else { return };
        for (client, skipped) in CLIENT.into_iter().zip(SKIPPED) {
            pod.assert_left_alone(PROXY, SocketAddr::new(client, 80));
            for user in [0, 1000, PROXY] {
                pod.assert_left_alone(user, SocketAddr::new(client, 53));
                pod.assert_left_alone(user, SocketAddr::new(client, 2525));
                pod.assert_left_alone(user, SocketAddr::new(skipped, 80));
            }
        }
        let metadata = "169.254.169.254:80".parse().unwrap();
        for user in [0, 1000] {
            pod.assert_left_alone(user, metadata);
            pod.assert_left_alone(user, link_local(&pod.world));
        }
    }
}

#[test]
fn what_a_pod_says_to_itself_is_left_alone_and_inbound_rules_hold() {
    for tool in TOOLS {
        let Some(pod) = Pod::start(tool, "") else { return };
        let loopback = ["127.0.0.1", "127.0.0.2", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        for address in loopback.into_iter().chain(POD).chain(SECOND) {
            for user in [0, 1000, PROXY] {
                // The outbound port itself keeps its own address as original destination: by this
                // the sidecar recognises a connection that nobody redirected.
                for port in [80, 4140] {
                    let to = SocketAddr::new(address, port);
                    let expected = Arrived::Inside(port, Some(to));
                    assert_eq!(pod.connect(user, to), expected, "{tool:?}: {user} to {to}");
                }
            }
        }
        for (address, client) in POD.into_iter().zip(CLIENT) {
            let to = SocketAddr::new(address, 80);
            let stream = pod.world.connect(to).unwrap();
            let expected = Seen { at: 4143, from: client, original: Some(to) };
            assert_eq!(pod.inside.next(), expected, "{tool:?}");
            assert_eq!(read_all(stream), "4143");
        }
    }
}

#[test]
fn datagrams_are_left_alone() {
    for tool in TOOLS {
        let Some(pod) = Pod::start(tool, "") else { return };
        for (client, own) in CLIENT.into_iter().zip(POD) {
            let bind = |at: IpAddr| UdpSocket::bind(SocketAddr::new(at, 0)).unwrap();
            let server = pod.world.client.inside(|| bind(client));
            server.set_read_timeout(Some(PATIENCE)).unwrap();
            let sender = pod.world.pod.inside(|| bind(own));
            sender.send_to(b"x", server.local_addr().unwrap()).unwrap();
            let mut byte = [0; 1];
            let expected = (1, sender.local_addr().unwrap());
            assert_eq!(server.recv_from(&mut byte).unwrap(), expected, "{tool:?}");
        }
    }
}

/// The canary is an address of loopback: whatever the pod's network is, it can be called, and without
/// the rules nobody listens there.
#[test]
fn the_canary_is_redirected_for_the_sidecar_too_and_for_nothing_else_at_its_address() {
    for tool in TOOLS {
        for canary in CANARIES {
            let Some(pod) = Pod::start(tool, &format!("--canary {canary}")) else { return };
            let canary: SocketAddr = canary.parse().unwrap();
            for user in [0, 1000, PROXY] {
                pod.assert_redirected(user, canary);
            }
            let beside = SocketAddr::new(canary.ip(), 4193);
            let refused = pod.world.pod.inside(|| as_user(PROXY, || connect(beside)));
            let kind = refused.unwrap_err().kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionRefused, "{tool:?}");
            wants(tool, &pod.world, pod.path.as_ref(), "--undo", (0, "nothing is redirected"));
            let refused = pod.world.pod.inside(|| as_user(PROXY, || connect(canary)));
            let kind = refused.unwrap_err().kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionRefused, "{tool:?}: rules removed");
        }
    }
}

#[test]
fn a_check_compares_the_outbound_rules_too() {
    for tool in TOOLS {
        let Some(pod) = Pod::start(tool, "--canary 127.0.0.127:4192") else { return };
        let wants = |flags: &str, code, part: &str| {
            wants(tool, &pod.world, pod.path.as_ref(), flags, (code, part));
        };
        let same = format!("{OUTBOUND} --canary 127.0.0.127:4192");
        wants(&format!("--check {same}"), 0, "as read with");
        for other in [
            "",
            OUTBOUND,
            "--outbound-port 4140 --canary 127.0.0.127:4192",
            &same.replace("4140", "4141"),
            &same.replace("4192", "4193"),
            &same.replace("2526", "2527"),
            &same.replace("fd77::4/128", "fd77::/64"),
        ] {
            wants(&format!("--check {other}"), 1, "are not as expected");
        }
        for emptied in tool.without_local_rules() {
            wants(&same, 0, "outbound TCP to port 4140");
            pod.world.pod.run(emptied);
            wants(&format!("--check {same}"), 1, "are not as expected");
        }
        // A run without the outbound port leaves the inbound rules alone.
        wants("", 0, "inbound TCP is redirected to port 4143");
        wants("--check", 0, "as read with");
        pod.assert_left_alone(1000, SocketAddr::new(CLIENT[0], 80));
        wants("--undo", 0, "nothing is redirected; removed with");
        wants("--check", 1, "no rules of Portcullis were found");
    }
}
