//! Names in pages that are other products', or that stand for nothing on purpose, with the reason.
//!
//! An entry that no page has is a fault, so that the list does not outlive its reasons.

use crate::pages::own_pages;

/// A name, the page that it may stand in (empty: any), and the reason.
type Entry = (&'static str, &'static str, &'static str);

/// Flags of other programs that stand without their program.
pub(crate) const FLAGS: [Entry; 6] = [
    ("--take-ownership", "", "helm install"),
    ("--set", "", "helm install and upgrade"),
    ("--tag", "docs/images.md", "images/build"),
    ("--against", "bench/README.md", "a Python script"),
    ("--keep-labels", "docs/injection.md", "kubectl debug"),
    ("--updates", "docs/watch-api.md", "the example clients"),
];

/// Words in capitals and small letters of other products, and what is gone.
pub(crate) const WORDS: [Entry; 5] = [
    ("Date", "docs/testing.md", "a response header"),
    ("NoProxies", "CHANGELOG.md", "the reason that is gone, as the line says"),
    ("FailedCreate", "docs/health.md", "Kubernetes' Event of a ReplicaSet"),
    ("RssAnon", "bench/README.md", "Linux' /proc/PID/status"),
    ("VmHWM", "bench/README.md", "Linux' /proc/PID/status"),
];

/// Names with underscores of other products, and what is gone.
pub(crate) const SNAKES: [Entry; 4] = [
    ("too_many_pings", "", "what a server of gRPC says in its GOAWAY"),
    ("route_localnet", "docs/operations.md", "a setting of Linux' network"),
    ("rustls_info", "docs/metrics.md", "a metric of Linkerd's that is not here, as the line says"),
    ("x_role", "docs/proxy.md", "a client's header"),
];

/// Annotations, labels, variables and the like of other products, and what is gone.
pub(crate) const KEYS: [Entry; 1] = [(
    "PORTCULLIS_ISSUER_SERVICE_HOST",
    "docs/environment.md",
    "Kubernetes' variable of a Service",
)];

/// Files that are not here.
pub(crate) const FILES: [Entry; 10] = [
    ("name.rs", "CONTRIBUTING.md", "any file that has children"),
    ("books.proto", "", "a file of the reader's own"),
    ("books.yaml", "docs/import.md", "a file of the reader's own"),
    ("new.yaml", "docs/import.md", "a file of the reader's own"),
    ("profile.yaml", "docs/import.md", "a file of the reader's own"),
    ("portcullis.yaml", "", "a file of the reader's own"),
    ("kustomization.yaml", "docs/cli.md", "a file of kustomize"),
    ("mod.rs", "CONTRIBUTING.md", "the name that no file has"),
    ("crds/src/kinds/ingress_network.rs", "ARCHITECTURE.md", "a draft"),
    ("crds/src/kinds/default_inbound_policy.rs", "ARCHITECTURE.md", "a draft"),
];

/// True if an entry has this name for this page.
pub(crate) fn has(entries: &[Entry], page: &str, name: &str) -> bool {
    entries.iter().any(|(known, of, _)| *known == name && (of.is_empty() || *of == page))
}

#[test]
fn every_name_that_is_let_pass_stands_in_a_page() {
    let pages: Vec<_> = own_pages().collect();
    let lists: [&[Entry]; 5] = [&FLAGS, &WORDS, &SNAKES, &KEYS, &FILES];
    for (name, of, reason) in lists.into_iter().flatten() {
        assert!(!reason.is_empty(), "{name}");
        let mut pages = pages.iter().filter(|page| of.is_empty() || page.path == *of);
        let there = pages.any(|page| page.lines.iter().any(|line| line.text.contains(name)));
        assert!(there, "no page has {name} any more: take it off the list");
    }
}
