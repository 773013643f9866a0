//! Files and folders of the repository that pages name.

use crate::allowed;
use crate::pages::{Fault, Line, Page, none, pages};
use policy_tests::sources::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The ends of names that are files of the repository. Others, such as `tls.crt`, are a user's.
const ENDS: [&str; 7] = [".rs", ".md", ".yaml", ".proto", ".py", ".toml", ".tpl"];

/// Every file and folder of the repository.
fn paths() -> &'static BTreeSet<String> {
    static PATHS: OnceLock<BTreeSet<String>> = OnceLock::new();
    PATHS.get_or_init(|| {
        let mut paths = BTreeSet::new();
        collect(&root(), &mut paths);
        paths
    })
}

fn collect(folder: &Path, paths: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        if relative == ".git" || relative.rsplit('/').next() == Some("target") {
            continue;
        }
        if path.is_dir() {
            collect(&path, paths);
        }
        paths.insert(relative);
    }
}

/// The names at the root of the repository.
fn tops() -> impl Iterator<Item = &'static str> {
    paths().iter().map(String::as_str).filter(|path| !path.contains('/'))
}

/// True if a word is about a file or a folder of the repository.
fn is_path(word: &str) -> bool {
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "._-/*{},".contains(c));
    if word.starts_with('/') || word.contains(strange) || word.contains("//") {
        return false;
    }
    let first = word.split('/').next().unwrap_or_default();
    let within = word.contains('/') && tops().any(|top| top == first);
    let file = ENDS.iter().any(|end| word.ends_with(end)) && !word.starts_with('.');
    within || file || word.contains("/src/") || word.starts_with("src/")
}

/// The words that `{a,b}` stands for.
fn expanded(word: &str) -> Vec<String> {
    let Some((before, rest)) = word.split_once('{') else { return vec![word.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![word.to_owned()] };
    choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
}

/// True if a file or a folder ends so, whole components compared.
fn exists(word: &str) -> bool {
    let word = word.trim_end_matches('/');
    let parts: Vec<&str> = word.split('/').collect();
    paths().iter().any(|path| {
        let path: Vec<&str> = path.split('/').collect();
        (0..path.len()).any(|from| matches(&parts, &path[from..]))
    })
}

/// True if a pattern of components is this path. The last one may leave out `.rs`.
fn matches(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], rest) => rest.is_empty(),
        (["**", pattern @ ..], path) => {
            (0..=path.len()).any(|from| matches(pattern, &path[from..]))
        }
        ([one], [name]) => fits(one, name) || fits(&format!("{one}.rs"), name),
        ([one, pattern @ ..], [name, path @ ..]) => fits(one, name) && matches(pattern, path),
        (_, []) => false,
    }
}

/// True if a name is this one, or what a word in capitals or a `*` stands for.
fn fits(pattern: &str, name: &str) -> bool {
    if pattern.chars().all(|c| c.is_ascii_uppercase()) {
        return true;
    }
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            let rest = name.strip_prefix(before).filter(|rest| rest.len() >= after.len());
            rest.is_some_and(|rest| rest.ends_with(after))
        }
    }
}

/// The words of a line that may be paths.
fn words(line: &Line) -> Vec<String> {
    let text: Vec<String> = match line.is_shell() {
        true => vec![line.text.clone()],
        false => line.spans().into_iter().map(|span| span.code).collect(),
    };
    let trimmed = |word: &str| word.trim_matches(|c| "\"';()".contains(c)).to_owned();
    let words = text.iter().flat_map(|text| text.split([' ', '=', ':']));
    words.map(trimmed).filter(|word| is_path(word)).collect()
}

pub(crate) fn faults(page: &Page) -> (usize, Vec<Fault>) {
    let (mut count, mut faults) = (0, Vec::new());
    for line in &page.lines {
        for word in words(line) {
            count += 1;
            let there = expanded(&word).iter().all(|word| exists(word));
            if !there && !allowed::has(&allowed::FILES, &page.path, &word) {
                faults.push(page.fault(line, "file", word, "no file or folder ends so"));
            }
        }
    }
    (count, faults)
}

#[test]
fn every_file_that_a_page_names_is_here() {
    let (mut count, mut lost) = (0, Vec::new());
    for page in pages() {
        let (words, faults) = faults(&page);
        count += words;
        lost.extend(faults);
    }
    assert!(count > 250, "{count}");
    none(lost);
}
