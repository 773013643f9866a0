//! Help texts and messages of programs name flags, variables and pages that exist.

use crate::code;
use crate::commands::{known, programs};
use crate::flags::{flag, has};
use crate::links;
use crate::pages::pages;
use policy_tests::sources::root;
use std::collections::BTreeSet;

/// Flags of other programs that ours call or tell about, with the program.
const OTHERS: [(&str, &str); 16] = [
    ("--cacert", "curl"),
    ("--connect-to", "curl"),
    ("--noflush", "iptables-restore"),
    ("--profile", "cargo"),
    ("--dport", "iptables"),
    ("--to-ports", "iptables"),
    ("--uid-owner", "iptables"),
    ("--dst-type", "iptables"),
    ("--take-ownership", "helm"),
    ("--reset-then-reuse-values", "helm"),
    ("--overwrite", "kubectl"),
    ("--server-side", "kubectl"),
    ("--force-conflicts", "kubectl"),
    ("--keep-labels", "kubectl debug"),
    ("--exclude-imports", "buf"),
    ("--http2-prior-knowledge", "curl"),
];

/// The flags that a text names.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_=".contains(c)));
    // `--pending-` before a place that is filled in is the beginning of several.
    words.filter(|word| !word.ends_with('-')).filter_map(flag)
}

#[test]
fn every_flag_in_help_and_messages_is_one_of_ours() {
    let mut texts = code::TEXTS.clone();
    for program in programs().keys() {
        let path = format!("tests/tests/interface/help/{program}.txt");
        texts.insert(std::fs::read_to_string(root().join(path)).unwrap());
    }
    let named: BTreeSet<&str> = texts.iter().flat_map(|text| flags(text)).collect();
    assert!(named.len() > 150, "{named:?}");
    let ours = |name: &&&str| programs().keys().any(|program| has(program, name));
    let theirs = |name: &&&str| OTHERS.iter().any(|(other, _)| other == *name);
    let lost: Vec<_> = named.iter().filter(|name| !ours(name) && !theirs(name)).collect();
    assert!(lost.is_empty(), "no command has {lost:?}");
    for (other, program) in OTHERS {
        assert!(named.contains(other), "nothing names {other} of {program} any more");
        assert!(!known().values().any(|command| command.flags.contains(other)), "{other} is ours");
    }
}

/// The pages that messages lead to, with their anchors.
#[test]
fn every_page_in_a_message_is_here() {
    let pages = pages();
    let mut named = 0;
    for text in code::TEXTS.iter() {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-#".contains(c)));
        for word in words.filter(|word| word.starts_with("docs/") && word.contains(".md")) {
            named += 1;
            let (path, anchor) = word.trim_end_matches('.').split_once('#').unwrap_or((word, ""));
            let path = path.trim_end_matches('.');
            let page = pages.iter().find(|page| page.path == path);
            let page = page.unwrap_or_else(|| panic!("`{text}`: there is no {path}"));
            let there = anchor.is_empty() || links::anchors(page).iter().any(|one| one == anchor);
            assert!(there, "`{text}`: {path} has no heading `{anchor}`");
        }
    }
    assert!(named > 2, "{named}");
}
