//! Annotations, labels, versions of kinds and variables of the environment that pages name.

use crate::allowed;
use crate::code;
use crate::commands;
use crate::pages::{Fault, Line, Page, none, own_pages};
use policy_proxy::config::environment;
use policy_tests::sources::root;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The ends of the domains whose names are looked up.
const DOMAINS: [&str; 2] = ["portcullis.dev", "linkerd.io"];

fn in_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-/".contains(c)
}

/// The names below a domain of ours or of Linkerd's: `portcullis.dev/inject`.
fn keys(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !in_key(c));
    let key = |word: &str| {
        let (domain, name) = word.trim_end_matches(['.', '-', '/']).split_once('/')?;
        let ours = DOMAINS.iter().any(|end| {
            domain.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        let plain = !name.is_empty() && !name.contains('/') && !name.starts_with("SETTING");
        (ours && plain).then(|| format!("{domain}/{name}"))
    };
    words.filter_map(key).collect()
}

/// True if the code has this name. What follows a version is a kind, and the name of a parameter is its
/// author's.
fn is_key(name: &str) -> bool {
    let (domain, rest) = name.split_once('/').unwrap_or_default();
    let prefix = format!("{name}=");
    code::KEYS.contains(name)
        || code::KEYS.iter().any(|text| text.starts_with(&prefix))
        || policy_crds::Kind::ALL.iter().any(|kind| kind.group() == domain && kind.as_str() == rest)
        || name.starts_with(policy_crds::route_selector::PARAMETER)
        || is_resource(domain)
}

/// True of what `kubectl` takes before the name of an object: `server.policy.linkerd.io`.
fn is_resource(domain: &str) -> bool {
    policy_crds::Kind::ALL.iter().any(|kind| {
        let names = [kind.as_str().to_lowercase(), kind.plural().to_owned()];
        names.iter().any(|name| domain == format!("{name}.{}", kind.group()))
    })
}

/// The beginnings of variables that are looked up.
const OURS: &str = "PORTCULLIS_";
const LINKERDS: &str = "LINKERD2_PROXY_";

fn variables(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    words.filter(|word| {
        let rest = word.strip_prefix(OURS).or_else(|| word.strip_prefix(LINKERDS));
        rest.is_some_and(|rest| !rest.is_empty())
    })
}

/// The variables that programs, tests and scripts read.
static VARIABLES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut names = BTreeSet::new();
    for (path, known) in commands::known() {
        if path.starts_with("policy-proxy ") {
            let flags = known.flags.iter().filter_map(|flag| flag.strip_prefix("--"));
            names.extend(
                flags.map(|flag| format!("{OURS}{}", flag.replace('-', "_").to_ascii_uppercase())),
            );
        }
    }
    let linkerds = environment::LINKERD.iter().map(|(name, _)| name.trim_end_matches('*'));
    names.extend(linkerds.map(|name| format!("{LINKERDS}{}", name.trim_end_matches('_'))));
    // Of the environment of tests and of what they start, and of netfilter's chains.
    names.extend(code::IDENTIFIERS.iter().filter(|word| word.starts_with(OURS)).cloned());
    for script in [".ci/long", ".ci/run", "Makefile", "images/build", "bench/common.sh"] {
        let text = std::fs::read_to_string(root().join(script)).unwrap();
        names.extend(variables(&text).map(str::to_owned));
    }
    names
});

pub(crate) fn faults(page: &Page) -> (usize, Vec<Fault>) {
    let (mut count, mut faults) = (0, Vec::new());
    for line in &page.lines {
        faults.extend(line_faults(page, line, &mut count));
    }
    (count, faults)
}

fn line_faults(page: &Page, line: &Line, count: &mut usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for key in keys(&line.text) {
        *count += 1;
        if !is_key(&key) && !allowed::has(&allowed::KEYS, &page.path, &key) {
            faults.push(page.fault(line, "annotation or label", key, "no code reads or writes it"));
        }
    }
    for name in variables(&line.text) {
        *count += 1;
        let other = allowed::has(&allowed::KEYS, &page.path, name);
        if !other && !VARIABLES.contains(name.trim_end_matches('_')) {
            faults.push(page.fault(line, "variable", name, "nothing reads it"));
        }
    }
    faults
}

#[test]
fn every_annotation_label_and_variable_is_one_that_the_code_knows() {
    let (mut count, mut lost) = (0, Vec::new());
    for page in own_pages() {
        let (names, faults) = faults(&page);
        count += names;
        lost.extend(faults);
    }
    assert!(count > 250, "{count}");
    none(lost);
}
