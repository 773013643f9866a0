//! Redirected connections, and changes to the rules.

use crate::support::*;
use crate::tool::{TOOLS, Tool, wants};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fn from_outside_to(world: &World, listeners: &Listeners, to: SocketAddr) -> Seen {
    let stream = world.connect(to).unwrap();
    let seen = listeners.next();
    assert_eq!(read_all(stream), seen.at.to_string());
    seen
}

fn redirects_what_comes_from_outside(tool: Tool) {
    let Some(world) = world_or_skip() else { return };
    let path = tool.path(&world);
    let listeners = Listeners::start(&world.pod, &[22, 80, 4143, 4191, 8000, 8002, 65535]);
    let redirected =
        "inbound TCP is redirected to port 4143, except to ports 22,4143,4191,8000-8001";
    wants(tool, &world, path.as_ref(), "--skip-inbound-ports 8000-8001,22", (0, redirected));
    for (pod, client) in POD.into_iter().zip(CLIENT) {
        let seen = |port| from_outside_to(&world, &listeners, SocketAddr::new(pod, port));
        // Port 81 has no listener: a redirected port need not exist.
        for port in [80, 81, 8002, 65535] {
            let original = Some(SocketAddr::new(pod, port));
            assert_eq!(seen(port), Seen { at: 4143, from: client, original }, "{tool:?}");
        }
        // With connection tracking, a connection that was not redirected has its own address as its
        // original destination: by this the sidecar recognises a direct connection.
        for port in [22, 4143, 4191, 8000] {
            let original = Some(SocketAddr::new(pod, port));
            assert_eq!(seen(port), Seen { at: port, from: client, original }, "{tool:?}");
        }
    }
}

#[test]
fn nft_redirects_what_comes_from_outside_save_skipped_and_own_ports() {
    redirects_what_comes_from_outside(Tool::Nft);
}

#[test]
fn iptables_redirects_what_comes_from_outside_save_skipped_and_own_ports() {
    redirects_what_comes_from_outside(Tool::Iptables);
}

#[test]
fn the_older_iptables_redirects_what_comes_from_outside_save_skipped_and_own_ports() {
    redirects_what_comes_from_outside(Tool::Legacy);
}

/// To loopback and to the pod's own addresses, as the application, as root and as the sidecar.
#[test]
fn what_a_pod_says_to_itself_is_left_alone() {
    for tool in TOOLS {
        let Some(world) = world_or_skip() else { return };
        let path = tool.path(&world);
        wants(tool, &world, path.as_ref(), "", (0, "inbound TCP is redirected to port 4143"));
        let listeners = Listeners::start(&world.pod, &[80, 4143]);
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        for address in loopback.into_iter().chain(POD).chain(SECOND) {
            for user in [0, 1000, 2102] {
                let to = SocketAddr::new(address, 80);
                let stream = world.pod.inside(|| {
                    let user = rustix::process::Uid::from_raw(user);
                    rustix::thread::set_thread_uid(user).unwrap();
                    connect(to).unwrap()
                });
                let seen = listeners.next();
                assert_eq!((seen.at, seen.original), (80, Some(to)), "{tool:?} as {user}");
                assert_eq!(read_all(stream), "80");
            }
        }
        // Outbound connections are not the sidecar's.
        let outside = Listeners::start(&world.client, &[80]);
        for client in CLIENT {
            let stream = world.pod.inside(|| connect(SocketAddr::new(client, 80)).unwrap());
            assert_eq!(read_all(stream), "80");
            let from = outside.next().from;
            let own = [POD, SECOND];
            assert!(own.as_flattened().contains(&from), "{tool:?}: {from}");
        }
        assert_eq!(listeners.more(), []);
    }
}

#[test]
fn rules_are_replaced_as_often_as_they_are_written_and_others_are_left_alone() {
    for tool in TOOLS {
        let Some(world) = world_or_skip() else { return };
        let path = tool.path(&world);
        let foreign = match tool {
            Tool::Nft => "nft add table inet others",
            Tool::Iptables => "iptables-nft -t nat -A PREROUTING -p udp -j RETURN",
            Tool::Legacy => "iptables-legacy -t nat -A PREROUTING -p udp -j RETURN",
        };
        world.pod.run(foreign);
        let before = tool.listed(&world);
        let wants = |flags: &str, part: &str| wants(tool, &world, path.as_ref(), flags, (0, part));
        wants("--skip-inbound-ports 80", "80,4143,4191");
        let once = tool.listed(&world);
        assert_ne!(once, before);
        wants("--skip-inbound-ports 80", "80,4143,4191");
        assert_eq!(tool.listed(&world), once);
        wants("--skip-inbound-ports 81 --inbound-port 5143 --proxy-uid 7", "81,4191,5143");
        let other = tool.listed(&world);
        assert!(
            other.contains("5143") && other.contains('7') && !other.contains("4143"),
            "{other}"
        );
        wants("--skip-inbound-ports 80", "80,4143,4191");
        assert_eq!(tool.listed(&world), once);
        wants("--undo", "nothing is redirected; removed with");
        assert_eq!(
            without_empty_tables(tool, &tool.listed(&world)),
            without_empty_tables(tool, &before)
        );
        wants("--undo", "nothing is redirected; there were no rules");
    }
}

/// iptables leaves the tables it needed, without rules.
fn without_empty_tables(tool: Tool, listed: &str) -> Vec<String> {
    let empty = |line: &&str| match tool {
        Tool::Nft => true,
        Tool::Iptables | Tool::Legacy => line.starts_with("-A"),
    };
    listed.lines().filter(empty).map(str::to_owned).collect()
}

#[test]
fn a_check_writes_nothing_and_finds_what_was_tampered_with() {
    for tool in TOOLS {
        let Some(world) = world_or_skip() else { return };
        let path = tool.path(&world);
        let wants = |flags: &str, code, part: &str| {
            wants(tool, &world, path.as_ref(), flags, (code, part));
        };
        wants("--check", 1, "no rules of Portcullis were found");
        wants("--check", 1, "no rules of Portcullis were found");
        for how in 0..3 {
            wants("", 0, "inbound TCP is redirected to port 4143");
            wants("--check", 0, "as read with");
            wants("--check --skip-inbound-ports 80", 1, "are not as expected");
            tool.tamper(&world, how);
            wants("--check", 1, "are not as expected");
            wants("--check", 1, "are not as expected");
        }
        wants("", 0, "inbound TCP is redirected to port 4143");
        wants("--check", 0, "as read with");
    }
}

/// The tool says so like a kernel that is built without them.
#[test]
fn a_kernel_without_timeouts_of_connection_tracking_has_the_rules_without_them() {
    const NFT: &str = r#"#!/bin/sh
input=$(cat)
case "$input" in
  *"ct timeout"*) echo "Error: Could not process rule: Operation not supported" >&2; exit 1 ;;
esac
printf '%s\n' "$input" | kernel "$@"
"#;
    let Some(world) = world_or_skip() else { return };
    let path = world.programs(&[("kernel", "nft"), ("cat", "cat")]);
    // Written by another process: what other tests start here might have it open for writing.
    world.pod.feed(&["tee", path.join("nft").to_str().unwrap()], NFT);
    std::fs::set_permissions(path.join("nft"), permissions(0o755)).unwrap();
    let wants = |flags: &str, part: &str| wants(Tool::Nft, &world, Some(&path), flags, (0, part));
    wants("", "inbound TCP is redirected to port 4143");
    wants("", "the rules have no timeouts of connection tracking: nft: Error: Could not process");
    wants("--check", "as read with nft");
    let listed = Tool::Nft.listed(&world);
    assert!(listed.contains("chain inbound {") && !listed.contains("ct timeout"), "{listed}");
}

/// The image of the init container has no /etc/protocols, by which nft names protocols.
#[test]
fn without_names_of_protocols_the_rules_are_found_as_they_were_written() {
    const NFT: &str = r#"#!/bin/sh
hide='mount --bind /dev/null /etc/protocols && exec nft "$@"'
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec unshare --mount sh -c "$hide" nft "$@"
"#;
    let Some(world) = world_or_skip() else { return };
    let path = world.programs(&[]);
    world.pod.feed(&["tee", path.join("nft").to_str().unwrap()], NFT);
    std::fs::set_permissions(path.join("nft"), permissions(0o755)).unwrap();
    let wants = |flags: &str, part: &str| wants(Tool::Nft, &world, Some(&path), flags, (0, part));
    wants("", "inbound TCP is redirected to port 4143");
    wants("--check", "as read with nft");
    assert!(Tool::Nft.listed(&world).contains("ct timeout ended {"));
}

/// Rules that an earlier run wrote with another tool would take precedence.
#[test]
fn rules_written_by_other_means_are_replaced() {
    let Some(world) = world_or_skip() else { return };
    let done = |flags: &str| {
        let output = world.redirect(flags);
        assert!(output.status.success(), "{flags}: {}", said(&output));
    };
    let ours = |listed: String| listed.to_ascii_lowercase().contains("portcullis");
    done("--mode iptables --inbound-port 5143");
    assert!(ours(world.pod.run("iptables-save")) && ours(world.pod.run("ip6tables-save")));
    done("");
    assert!(ours(world.pod.run("nft list table inet portcullis")));
    assert!(!ours(world.pod.run("iptables-save")) && !ours(world.pod.run("ip6tables-save")));
    done("--mode iptables");
    assert!(!world.pod.run("nft list tables").contains("inet portcullis"));
    assert!(ours(world.pod.run("iptables-save")) && ours(world.pod.run("ip6tables-save")));
    done("--undo");
    assert!(!ours(world.pod.run("nft list ruleset")));
}
