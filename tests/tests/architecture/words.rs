//! The words of the sources: doc comments, private words, names, and what comments cite.

use super::rust_files;
use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use xtask::structure::{words_faults, words_table, workspace_words};

#[test]
fn sources_speak_plain_technical_english() {
    let words = workspace_words(&root()).unwrap();
    let docs: usize = words.iter().map(|of| of.docs).sum();
    let table = words_table(&words);
    assert!(docs > 1000, "few doc comments were found\n{table}");
    let faults = words_faults(&words);
    assert!(faults.is_empty(), "{table}\n{}", faults.join("\n"));
}

/// The names in quotes in the last column of the glossary.
fn glossary_names() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    last.flat_map::<Vec<String>, _>(quoted).collect()
}

#[test]
fn every_word_of_the_glossary_names_code() {
    let names = glossary_names();
    assert!(names.len() >= 40, "{} names", names.len());
    let mut declared = BTreeSet::new();
    for file in rust_files() {
        let words: Vec<&str> = file
            .text
            .split(|it: char| !(it.is_alphanumeric() || it == '_'))
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            if ["struct", "enum", "trait", "type", "fn", "mod"].contains(&pair[0]) {
                declared.insert(pair[1].to_owned());
            }
        }
    }
    let missing: Vec<_> = names.iter().filter(|name| !declared.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/glossary.md names what nothing declares: {missing:?}");
}

/// The text of a file without line breaks and marks of comments.
fn joined(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim());
    lines.collect::<Vec<_>>().join(" ")
}

/// The numbers or the titles of a page's sections.
fn sections(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let headings = text.lines().filter(|line| line.starts_with("##"));
    let titles = headings.map(|line| line.trim_start_matches('#').trim());
    titles
        .map(|title| match title.split_once(' ') {
            Some((number, _)) if number.starts_with(|it: char| it.is_ascii_digit()) => {
                number.trim_end_matches('.').to_owned()
            }
            _ => title.to_owned(),
        })
        .collect()
}

#[test]
fn comments_cite_sections_that_exist() {
    let pages = ["docs/spec/controller.md", "docs/spec/proxy.md", "docs/spec/decisions.md"];
    let sections: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (*page, sections(page))).collect();
    let mut cited = 0;
    for file in rust_files() {
        if file.path == "tests/tests/architecture/words.rs" {
            continue;
        }
        let text = joined(&file.text);
        for page in pages {
            for cite in text.split(page).skip(1) {
                for section in cited_sections(cite) {
                    cited += 1;
                    let exists = sections[page].contains(&section);
                    assert!(exists, "{}: {page} has no section {section}", file.path);
                }
            }
        }
        for gone in ["-semantics ", "product, *"] {
            assert!(!text.contains(gone), "{}: cites a page that is not here", file.path);
        }
    }
    assert!(cited > 50, "{cited} citations");
}

/// The sections behind the name of a page: ` 1.3, 2.5 and 4` or `, *Title*`.
fn cited_sections(cite: &str) -> Vec<String> {
    if let Some(title) = cite.strip_prefix(", *") {
        return title.split('*').next().map(str::to_owned).into_iter().collect();
    }
    let is_number = |it: &&str| {
        it.starts_with(|it: char| it.is_ascii_digit())
            && it.chars().all(|it| it.is_ascii_digit() || it == '.')
    };
    let cite = cite.split([')', ':', ';']).next().unwrap_or_default();
    let words = cite.split([' ', ',']).filter(|it| !it.is_empty() && *it != "and");
    words.take_while(is_number).map(|it| it.trim_end_matches('.').to_owned()).collect()
}
