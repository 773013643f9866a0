//! Errors and diagnosis where rules cannot be set.

use crate::support::*;

/// Like the init container: user 0 with two capabilities and no privilege escalation.
const CONFINED: [&str; 3] =
    ["setpriv", "--bounding-set=-all,+net_admin,+net_raw", "--no-new-privs"];

#[test]
fn the_init_containers_two_capabilities_are_enough() {
    for mode in ["nft", "iptables"] {
        let Some(world) = world_or_skip() else { return };
        let output = world.redirect_as(&CONFINED, None, &format!("--mode {mode}"));
        assert!(output.status.success(), "{mode}: {}", said(&output));
        assert!(world.redirect("--check").status.success());
        let both = "--outbound-port 4140 --canary 127.0.0.127:4192";
        let output = world.redirect_as(&CONFINED, None, &format!("--mode {mode} {both}"));
        assert!(output.status.success(), "{mode}: {}", said(&output));
    }
    let Some(world) = world_or_skip() else { return };
    let legacy = ["save", "restore"].map(|action| {
        ["iptables", "ip6tables"]
            .map(|family| (format!("{family}-{action}"), format!("{family}-legacy-{action}")))
    });
    let links: Vec<(&str, &str)> = legacy
        .as_flattened()
        .iter()
        .map(|(name, program)| (name.as_str(), program.as_str()))
        .collect();
    let programs = world.programs(&links);
    let lock = format!("XTABLES_LOCKFILE={}", world.files.path().join("lock").display());
    let setpriv = find("setpriv").unwrap();
    let mut confined = CONFINED;
    confined[0] = setpriv.to_str().unwrap();
    let before: Vec<&str> = ["/usr/bin/env", &lock].into_iter().chain(confined).collect();
    let output = world.redirect_as(&before, Some(&programs), "");
    assert!(said(&output).contains("written with iptables"), "{}", said(&output));
}

#[test]
fn without_net_admin_the_termination_message_names_the_capability_and_pod_security() {
    for mode in ["auto", "nft", "iptables"] {
        let Some(world) = world_or_skip() else { return };
        let log = world.files.path().join("termination-log");
        std::fs::write(&log, "").unwrap();
        let before = ["setpriv", "--bounding-set=-net_admin"];
        let flags = format!("--mode {mode} --termination-log {}", log.display());
        let output = world.redirect_as(&before, None, &flags);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let message = std::fs::read_to_string(&log).unwrap();
        for part in [
            "cannot be redirected",
            "does not have the capability NET_ADMIN",
            "Pod Security",
            "not permitted",
        ] {
            assert!(
                message.contains(part) || mode == "iptables" && part == "not permitted",
                "{message}"
            );
        }
        assert!(said(&output).contains(&message), "{}", said(&output));
        assert_eq!(world.pod.run("nft list ruleset"), "");
    }
}

#[test]
fn without_any_tool_it_says_so() {
    let Some(world) = world_or_skip() else { return };
    let none = world.programs(&[]);
    let output = world.redirect_as(&[], Some(&none), "");
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    for part in
        ["neither nft nor iptables", "nft is not installed", "iptables-save is not installed"]
    {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn settings_that_are_invalid_are_all_named_and_write_nothing() {
    let Some(world) = world_or_skip() else { return };
    let log = world.files.path().join("termination-log");
    std::fs::write(&log, "").unwrap();
    let flags = format!(
        "--skip-inbound-ports 80-70 --inbound-port http --mode ebpf --termination-log {}",
        log.display()
    );
    let output = world.redirect(&flags);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        std::fs::read_to_string(&log).unwrap(),
        "--inbound-port: `http`: expected a port from 1 to 65535
--skip-inbound-ports: `80-70`: expected ports and ranges such as 80,443-445
--mode: `ebpf`: expected auto, nft or iptables"
    );
    assert_eq!(world.pod.run("nft list ruleset"), "");
}
