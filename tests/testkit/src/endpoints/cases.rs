//! The rows of the table.

use super::case::{Case, Choice, Front};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

/// The addresses of Services outside of the cluster's networks.
const EXTERNAL: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));
const EXTERNAL_LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 8));

const ONE: &str = "10.200.0.1:8080";
const TWO: &str = "10.200.0.2:8080";
const BOTH: &[&str] = &[ONE, TWO];

/// All cases.
pub fn cases() -> Vec<Case> {
    [readiness(), published(), local(), external(), zones(), nodes(), ports(), slices()].concat()
}

/// A case that tells of the others. Whoever chooses as it says knows whether the node is in a zone, and
/// what was written before, of both families.
pub fn last() -> Case {
    let v6 = json!({"addressType": "IPv6"});
    case("written last")
        .slice(&["10.200.0.1 +ready zone:a", "10.200.0.2 +ready zone:b"])
        .slice_with(v6, &["fd10:200::1 +ready zone:a", "fd10:200::2 +ready zone:b"])
        .chooses(&[ONE])
        .without_zone(BOTH)
        .leads(Front::V6, 80, Choice::of(&["[fd10:200::1]:8080"]))
        .without_zone(&["[fd10:200::1]:8080", "[fd10:200::2]:8080"])
}

fn case(name: &'static str) -> Case {
    Case::new(name)
}

fn rejected(case: Case) -> Case {
    case.leads(Front::V4, 80, Choice::Rejected)
}

fn dropped(case: Case) -> Case {
    case.leads(Front::V4, 80, Choice::Dropped)
}

fn readiness() -> Vec<Case> {
    vec![
        case("ready").slice(&["10.200.0.1 +ready", "10.200.0.2 +ready"]).chooses(BOTH),
        case("without conditions").slice(&["10.200.0.1", "10.200.0.2 -serving"]).chooses(BOTH),
        case("one is unready").slice(&["10.200.0.1 -ready", "10.200.0.2 +ready"]).chooses(&[TWO]),
        rejected(
            case("all are unready").slice(&["10.200.0.1 -ready", "10.200.0.2 -ready +serving"]),
        ),
        rejected(case("a slice without endpoints").slice(&[])),
        rejected(case("no slice")),
        case("one ends")
            .slice(&["10.200.0.1 -ready +serving +terminating", "10.200.0.2 +ready"])
            .chooses(&[TWO]),
        case("all end, one serves")
            .slice(&[
                "10.200.0.1 -ready +serving +terminating",
                "10.200.0.2 -ready -serving +terminating",
                "10.200.0.3 -ready +serving -terminating",
            ])
            .chooses(&[ONE]),
        case("ends, nobody says whether it serves")
            .slice(&["10.200.0.1 -ready +terminating"])
            .chooses(&[ONE]),
        rejected(case("ends without serving").slice(&["10.200.0.1 -ready -serving +terminating"])),
    ]
}

/// kube-proxy goes by the slices alone: their controller states what is published as ready.
fn published() -> Vec<Case> {
    let case = |name| case(name).spec(json!({"publishNotReadyAddresses": true}));
    vec![
        case("published, as the controller writes it")
            .slice(&["10.200.0.1 +ready -serving -terminating"])
            .chooses(&[ONE]),
        case("published, ends").slice(&["10.200.0.1 +ready -serving +terminating"]).chooses(&[ONE]),
        rejected(case("published, the slice says unready").slice(&["10.200.0.1 -ready"])),
    ]
}

fn local() -> Vec<Case> {
    let case = |name| case(name).spec(json!({"internalTrafficPolicy": "Local"}));
    vec![
        case("local")
            .slice(&["10.200.0.1 +ready on:node-one", "10.200.0.2 +ready on:node-two"])
            .chooses(&[ONE]),
        case("local, hints elsewhere")
            .slice(&[
                "10.200.0.1 +ready on:node-one zone:b node:node-two",
                "10.200.0.2 +ready on:node-two zone:a",
            ])
            .chooses(&[ONE]),
        case("local, ours end")
            .slice(&[
                "10.200.0.1 -ready +serving +terminating on:node-one",
                "10.200.0.2 +ready on:node-two",
            ])
            .chooses(&[ONE]),
        case("local, some of ours end")
            .slice(&[
                "10.200.0.1 -ready +serving +terminating on:node-one",
                "10.200.0.2 +ready on:node-one",
            ])
            .chooses(&[TWO]),
        case("local, the same address in two slices")
            .slice(&["10.200.0.1 +ready"])
            .slice(&["10.200.0.1 +ready on:node-one"])
            .chooses(&[ONE]),
        dropped(
            case("local, none is ours")
                .slice(&["10.200.0.2 +ready on:node-two", "10.200.0.3 +ready"]),
        ),
        dropped(
            case("local, ours is unready")
                .slice(&["10.200.0.1 -ready on:node-one", "10.200.0.2 +ready on:node-two"]),
        ),
        dropped(case("local, ours ends without serving").slice(&[
            "10.200.0.1 -ready -serving +terminating on:node-one",
            "10.200.0.2 -ready +serving +terminating on:node-two",
        ])),
        rejected(case("local, none anywhere").slice(&["10.200.0.1 -ready on:node-one"])),
    ]
}

/// At the addresses outside of the cluster the local policy of the cluster's inside does not count, nor
/// does that of the outside for pods.
fn external() -> Vec<Case> {
    let endpoints = &["10.200.0.1 +ready on:node-one", "10.200.0.2 +ready on:node-two"];
    vec![
        case("an external address")
            .spec(json!({"externalIPs": [EXTERNAL], "internalTrafficPolicy": "Local"}))
            .slice(endpoints)
            .chooses(&[ONE])
            .leads(Front::External(EXTERNAL), 80, Choice::of(BOTH))
            .leads(Front::External(EXTERNAL), 81, Choice::Undeclared),
        case("an external address, local for the outside")
            .spec(json!({"externalIPs": [EXTERNAL_LOCAL], "externalTrafficPolicy": "Local"}))
            .slice(endpoints)
            .chooses(BOTH)
            .leads(Front::External(EXTERNAL_LOCAL), 80, Choice::of(BOTH)),
    ]
}

fn zones() -> Vec<Case> {
    vec![
        case("zones")
            .slice(&["10.200.0.1 +ready zone:a", "10.200.0.2 +ready zone:b"])
            .chooses(&[ONE])
            .without_zone(BOTH),
        case("one for two zones")
            .slice(&["10.200.0.1 +ready zone:b zone:a", "10.200.0.2 +ready zone:b"])
            .chooses(&[ONE])
            .without_zone(BOTH),
        case("one without a zone")
            .slice(&["10.200.0.1 +ready zone:a", "10.200.0.2 +ready"])
            .chooses(BOTH),
        case("no zone fits")
            .slice(&["10.200.0.1 +ready zone:b", "10.200.0.2 +ready zone:c"])
            .chooses(BOTH),
        case("an unready one without a zone")
            .slice(&["10.200.0.1 +ready zone:a", "10.200.0.2 +ready zone:b", "10.200.0.3 -ready"])
            .chooses(&[ONE])
            .without_zone(BOTH),
        case("the one that fits is unready")
            .slice(&[
                "10.200.0.1 +ready zone:b",
                "10.200.0.2 +ready zone:c",
                "10.200.0.3 -ready zone:a",
            ])
            .chooses(BOTH),
        case("zones of those that end")
            .slice(&[
                "10.200.0.1 -ready +serving +terminating zone:a",
                "10.200.0.2 -ready +serving +terminating zone:b",
            ])
            .chooses(BOTH),
        case("a zone in two slices")
            .slice(&["10.200.0.1 +ready zone:a"])
            .slice(&["10.200.0.2 +ready"])
            .chooses(BOTH),
    ]
}

/// Hints for nodes count in kube-proxy since its gate PreferSameTrafficDistribution is on unless it is
/// turned off: Kubernetes 1.34.
fn nodes() -> Vec<Case> {
    vec![
        case("nodes")
            .slice(&["10.200.0.1 +ready node:node-one", "10.200.0.2 +ready node:node-two"])
            .chooses(&[ONE]),
        case("node before zone")
            .slice(&[
                "10.200.0.1 +ready zone:a node:node-one",
                "10.200.0.2 +ready zone:a node:node-two",
            ])
            .chooses(&[ONE]),
        case("no node fits")
            .slice(&["10.200.0.1 +ready node:node-two", "10.200.0.2 +ready node:node-two"])
            .chooses(BOTH),
        case("the zone, where no node fits")
            .slice(&[
                "10.200.0.1 +ready zone:a node:node-two",
                "10.200.0.2 +ready zone:b node:node-two",
            ])
            .chooses(&[ONE])
            .without_zone(BOTH),
        case("the zone, where one has no node")
            .slice(&["10.200.0.1 +ready zone:b node:node-one", "10.200.0.2 +ready zone:a"])
            .chooses(&[TWO])
            .without_zone(BOTH),
        case("nodes of those that end")
            .slice(&[
                "10.200.0.1 -ready +serving +terminating node:node-one",
                "10.200.0.2 -ready +serving +terminating node:node-two",
            ])
            .chooses(BOTH),
        case("hints, not where they run")
            .slice(&[
                "10.200.0.1 +ready on:node-two node:node-one",
                "10.200.0.2 +ready on:node-one node:node-two",
            ])
            .chooses(&[ONE]),
    ]
}

/// The field `ports` of TCP.
fn tcp(ports: &[(&str, u16)]) -> Value {
    of(ports, "TCP")
}

fn of(ports: &[(&str, u16)], protocol: &str) -> Value {
    let port =
        |(name, port): &(&str, u16)| json!({"name": name, "port": port, "protocol": protocol});
    json!({"ports": ports.iter().map(port).collect::<Vec<_>>()})
}

fn ports() -> Vec<Case> {
    let ready = &["10.200.0.1 +ready"];
    let number = json!({"ports": [{"name": "http", "port": 80, "targetPort": 1}]});
    let name = json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}]});
    let nameless = |port: u16| json!({"ports": [{"port": port}]});
    vec![
        case("slices of two ports")
            .spec(tcp(&[("http", 80), ("admin", 90)]))
            .slice_with(tcp(&[("http", 8080), ("admin", 9090)]), ready)
            .slice_with(tcp(&[("http", 8081)]), &["10.200.0.2 +ready"])
            .leads(Front::V4, 80, Choice::of(&[ONE, "10.200.0.2:8081"]))
            .leads(Front::V4, 90, Choice::of(&["10.200.0.1:9090"]))
            .leads(Front::V4, 8080, Choice::Undeclared),
        case("the number of the pods' port").spec(number).slice(ready).chooses(&[ONE]),
        case("the name of the pods' port")
            .spec(name)
            .slice_with(tcp(&[("web", 1), ("http", 8080)]), ready)
            .chooses(&[ONE]),
        rejected(case("a slice of another port").slice_with(tcp(&[("web", 8080)]), ready)),
        rejected(case("a slice without a name").slice_with(nameless(8080), ready)),
        case("a port without a name")
            .spec(nameless(80))
            .slice_with(tcp(&[("", 8080), ("http", 1)]), ready)
            .chooses(&[ONE]),
        rejected(
            case("a port without a number").slice_with(json!({"ports": [{"name": "http"}]}), ready),
        ),
        case("a port of zero beside another")
            .slice_with(tcp(&[("none", 0), ("http", 8080)]), ready)
            .chooses(&[ONE]),
        rejected(case("a slice of UDP").slice_with(of(&[("http", 8080)], "UDP"), ready)),
        case("a Service of UDP")
            .spec(of(&[("http", 80)], "UDP"))
            .slice_with(of(&[("http", 8080)], "UDP"), ready)
            .leads(Front::V4, 80, Choice::Undeclared),
        case("affinity")
            .spec(json!({"sessionAffinity": "ClientIP"}))
            .slice(&["10.200.0.1 +ready", "10.200.0.2 +ready"])
            .chooses(BOTH),
    ]
}

fn slices() -> Vec<Case> {
    let v6 = || json!({"addressType": "IPv6"});
    vec![
        case("slices of both families")
            .slice(&["10.200.0.1 +ready"])
            .slice_with(v6(), &["fd10:200::1 +ready", "fd10:200::2 -ready"])
            .chooses(&[ONE])
            .leads(Front::V6, 80, Choice::of(&["[fd10:200::1]:8080"])),
        rejected(case("a slice of the other family").slice_with(v6(), &["fd10:200::1 +ready"]))
            .leads(Front::V6, 80, Choice::of(&["[fd10:200::1]:8080"])),
        case("zones of one family")
            .slice(&["10.200.0.1 +ready", "10.200.0.2 +ready"])
            .slice_with(v6(), &["fd10:200::1 +ready zone:b", "fd10:200::2 +ready zone:a"])
            .chooses(BOTH)
            .leads(Front::V6, 80, Choice::of(&["[fd10:200::2]:8080"]))
            .without_zone(&["[fd10:200::1]:8080", "[fd10:200::2]:8080"]),
        rejected(
            case("a slice of names")
                .slice_with(json!({"addressType": "FQDN"}), &["db.example.com +ready"]),
        ),
        case("the same endpoints in two slices")
            .slice(&["10.200.0.1 +ready", "10.200.0.2 +ready", "10.200.0.3 -ready"])
            .slice(&["10.200.0.2 +ready", "10.200.0.3 -ready"])
            .chooses(BOTH),
        case("the same endpoint twice in a slice")
            .slice(&["10.200.0.1 +ready", "10.200.0.1 +ready"])
            .chooses(&[ONE]),
        case("the same address at two ports")
            .slice(&["10.200.0.1 +ready"])
            .slice_with(json!({"ports": [{"name": "http", "port": 8081}]}), &["10.200.0.1 +ready"])
            .chooses(&[ONE, "10.200.0.1:8081"]),
    ]
}
