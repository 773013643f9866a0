//! Dependencies among crates: the arrows of ARCHITECTURE.md, compared with Cargo's own tree.

use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use xtask::structure::members;

/// Crates that a crate may and must not link outside of its tests, directly or through others.
struct Row {
    /// The workspace's crates that it stands on. It may link these and all that they may link.
    on: &'static [&'static str],
    /// Crates of others that it must never link, and those whose names continue with a dash.
    never: &'static [&'static str],
}

/// Crates that the model never links: anything that does I/O, runs tasks or knows a format.
const NOT_IN_THE_MODEL: &[&str] =
    &["tokio", "tower", "tracing", "hyper", "tonic", "prost", "rustls", "kube", "serde-saphyr"];

/// Crates that the engine never links: networks (`mio` is tokio's `net`), the API server, flags.
const NOT_IN_THE_ENGINE: &[&str] =
    &["mio", "hyper", "tonic", "prost", "rustls", "aws-lc-rs", "kube", "k8s-openapi", "clap"];

/// Every crate of the workspace.
fn rows() -> BTreeMap<&'static str, Row> {
    let row = |name, on, never| (name, Row { on, never });
    BTreeMap::from([
        row("policy-core", &[], NOT_IN_THE_MODEL),
        row(
            "policy-crds",
            &["policy-core"],
            &["tokio", "hyper", "tonic", "prost", "rustls", "kube"],
        ),
        row("policy-proto", &["policy-core"], &["rustls", "kube", "k8s-openapi", "serde-saphyr"]),
        row("policy-engine", &["policy-crds"], NOT_IN_THE_ENGINE),
        row("policy-tls", &["policy-proto"], &["kube", "k8s-openapi", "serde-saphyr", "clap"]),
        row("policy-server", &["policy-tls"], &["kube", "k8s-openapi", "serde-saphyr", "clap"]),
        row("policy-enforce", &["policy-server"], &["kube", "k8s-openapi", "serde-saphyr", "clap"]),
        row(
            "policy-http",
            &[],
            &["tonic", "prost", "rustls", "aws-lc-rs", "kube", "k8s-openapi", "clap"],
        ),
        // By default its policies come from a directory.
        row(
            "policy-embed",
            &["policy-engine", "policy-enforce"],
            &["tonic", "prost", "clap", "kube", "k8s-openapi"],
        ),
        row("policy-kube", &["policy-engine", "policy-server"], &["clap"]),
        row("policy-discovery", &["policy-engine", "policy-enforce"], &["kube", "clap"]),
        row("policy-webhooks", &["policy-kube", "policy-server"], &["clap"]),
        row("policy-issuer", &["policy-kube", "policy-enforce"], &["clap"]),
        row("policy-controller", &["policy-discovery", "policy-webhooks", "policy-issuer"], &[]),
        row(
            "policy-proxy",
            &["policy-http", "policy-enforce"],
            &["kube", "k8s-openapi", "gateway-api", "serde-saphyr"],
        ),
        row(
            "policy-import",
            &["policy-crds"],
            &["tokio", "hyper", "tonic", "rustls", "kube", "k8s-openapi", "clap"],
        ),
        row("policy-cli", &["policy-controller", "policy-proxy", "policy-import"], &[]),
        row(
            "policy-tests",
            &["policy-cli", "policy-embed", "policy-properties", "policy-testkit", "xtask"],
            &[],
        ),
        row(
            "policy-checks",
            &["policy-engine", "policy-proxy", "policy-properties", "policy-import"],
            &["kube", "k8s-openapi"],
        ),
        row("policy-properties", &[], &["tokio", "hyper", "tonic", "rustls", "kube", "clap"]),
        row("policy-testkit", &[], &["tonic", "kube", "k8s-openapi", "serde-saphyr", "clap"]),
        row("policy-bench", &["policy-controller", "policy-proxy", "policy-floor"], &[]),
        row("policy-floor", &[], &["tonic", "prost", "rustls", "kube", "tracing"]),
        row("policy-measure", &[], &["tokio", "tonic", "rustls", "kube"]),
        row("xtask", &["policy-engine", "policy-proto"], &["rustls", "kube"]),
    ])
}

/// A crate, and the workspace's crates that it may link.
fn may_link(name: &str, rows: &BTreeMap<&'static str, Row>) -> BTreeSet<String> {
    let mut may = BTreeSet::from([name.to_owned()]);
    for below in rows[name].on {
        may.extend(may_link(below, rows));
    }
    may
}

/// The names of the crates that a crate links, its own too.
fn linked(package: &str) -> BTreeSet<String> {
    let edges = ["-e", "normal,no-proc-macro", "--prefix", "none"];
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", package])
        .args(edges)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let linked: BTreeSet<_> =
        tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(linked.contains(package), "the tree of {package} does not begin with it");
    linked
}

#[test]
fn every_crate_has_its_arrows() {
    let rows = rows();
    let members = members(&root()).unwrap();
    let members: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let without: Vec<_> = members.iter().filter(|name| !rows.contains_key(**name)).collect();
    assert!(without.is_empty(), "no row says what {without:?} may link");
    let gone: Vec<_> = rows.keys().filter(|name| !members.contains(**name)).collect();
    assert!(gone.is_empty(), "rows of crates that are not there: {gone:?}");
}

#[test]
fn crates_link_only_what_the_arrows_allow() {
    let rows = rows();
    let members = members(&root()).unwrap();
    let ours: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut wrong = Vec::new();
    for (name, row) in rows.iter().filter(|(name, _)| ours.contains(**name)) {
        let linked = linked(name);
        let may = may_link(name, &rows);
        let strangers =
            linked.iter().filter(|other| ours.contains(other.as_str()) && !may.contains(*other));
        wrong.extend(strangers.map(|other| format!("{name} links {other}")));
        let banned = linked.iter().filter(|other| {
            row.never.iter().any(|never| {
                other
                    .strip_prefix(never)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            })
        });
        wrong.extend(banned.map(|other| format!("{name} must never link {other}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
