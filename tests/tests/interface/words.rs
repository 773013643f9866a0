//! The words that stand for something outside of a program: reasons, conditions, kinds, annotations,
//! labels, metrics, fields, variables of the environment.
//!
//! They are found by their form among the texts of the sources, so that a word is here wherever the
//! code that writes it is moved to.

use crate::compare;
use policy_tests::sources::root;
use std::collections::BTreeSet;
use xtask::structure::{CrateStructure, workspace_structure};

/// True if a text is one word of a form that is written outside of programs.
fn is_word(text: &str) -> bool {
    let all = |text: &str, allowed: fn(char) -> bool| !text.is_empty() && text.chars().all(allowed);
    let snake = |text: &str| {
        text.split('_').count() > 1
            && text
                .split('_')
                .all(|part| all(part, |c| c.is_ascii_lowercase() || c.is_ascii_digit()))
    };
    let shout = |text: &str| {
        text.split('_').count() > 1
            && text
                .split('_')
                .all(|part| all(part, |c| c.is_ascii_uppercase() || c.is_ascii_digit()))
    };
    let camel = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_uppercase())
            && all(text, |c| c.is_ascii_alphanumeric())
            && text.contains(|c: char| c.is_ascii_lowercase())
    };
    let key = |text: &str| match text.split_once('/') {
        Some((domain, name)) => {
            domain.contains('.')
                && all(domain, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c))
                && all(name, |c| c.is_ascii_alphanumeric() || "._-".contains(c))
        }
        None => false,
    };
    snake(text) || shout(text) || camel(text) || key(text)
}

#[test]
fn the_words_that_others_read() {
    let crates = workspace_structure(&root()).unwrap();
    let installed = crates.into_iter().filter(CrateStructure::is_installed);
    let words: BTreeSet<String> =
        installed.flat_map(|of| of.texts).filter(|text| is_word(text)).collect();
    let mut text = String::new();
    for word in &words {
        text.push_str(word);
        text.push('\n');
    }
    for known in
        ["policy_pending", "NoMatchingTarget", "config.linkerd.io/proxy-enable-native-sidecar"]
    {
        assert!(is_word(known), "{known}");
    }
    assert!(words.contains("policy_pending") && words.contains("NoMatchingTarget"));
    compare("words.txt", &text);
}

#[test]
fn sentences_and_patterns_are_no_words() {
    for text in ["", "a word", "{name}", "plain", "a/b", "v1", "/metrics", "__", "5"] {
        assert!(!is_word(text), "{text}");
    }
}
