//! Figures of the words in the sources: how doc comments begin, words that engineers do not search
//! for, and names that a crate gives to several types.

use super::report::{CrateStructure, production, workspace_structure};
use super::types::types;
use super::workspace::members;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Words that make a first line a question instead of a noun phrase or a verb.
const QUESTIONS: [&str; 15] = [
    "what",
    "who",
    "whose",
    "whom",
    "whether",
    "how",
    "why",
    "when",
    "where",
    "which",
    "whatever",
    "whenever",
    "wherever",
    "whichever",
    "whoever",
];

/// Words of this project's past for which Kubernetes, HTTP and TLS have terms.
const PRIVATE: [&str; 3] = ["told", "asked", "whoever"];

/// Folders of Rust files that belong to no member of the workspace.
const BESIDE: [&str; 1] = ["tests/fuzz"];

/// The words of one crate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrateWords {
    /// The crate's folder, from the workspace's root.
    pub folder: String,
    /// Number of doc comments, those of tests included.
    pub docs: usize,
    /// First lines of doc comments that begin with a question word.
    pub questions: Vec<String>,
    /// Number of private words in production code.
    pub private: usize,
    /// The names of several types of the crate, with the files that declare them.
    pub several: BTreeMap<String, Vec<String>>,
}

/// The words of every crate of the workspace in `root`.
///
/// # Errors
/// Cargo cannot be run, or a source file cannot be read or parsed.
pub fn workspace_words(root: &Path) -> Result<Vec<CrateWords>> {
    let members = members(root)?;
    let mut folders: Vec<&str> = members.iter().map(|of| of.folder.as_str()).collect();
    folders.extend(BESIDE);
    let mut words = Vec::new();
    for folder in &folders {
        let mut of = CrateWords { folder: (*folder).to_owned(), ..CrateWords::default() };
        of.read_docs(root, &root.join(folder), &folders)?;
        words.push(of);
    }
    // Both lists are in the order of `members`.
    for (of, structure) in words.iter_mut().zip(workspace_structure(root)?) {
        if structure.is_installed() {
            of.read_production(root, &structure)?;
        }
    }
    Ok(words)
}

impl CrateWords {
    fn figures(&self) -> [usize; 4] {
        [self.docs, self.questions.len(), self.private, self.several.len()]
    }

    /// Counts the doc comments of all Rust files below `folder`, except in other `crates` and
    /// in generated and built files.
    fn read_docs(&mut self, root: &Path, folder: &Path, crates: &[&str]) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if path.is_dir() {
                let built = ["gen", "target"].iter().any(|folder| path.ends_with(folder));
                if !built && !crates.contains(&name.as_str()) {
                    self.read_docs(root, &path, crates)?;
                }
            } else if name.ends_with(".rs") {
                self.add_docs(&name, &fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    fn add_docs(&mut self, file: &str, text: &str) {
        for (number, line) in first_lines(text) {
            self.docs = self.docs.saturating_add(1);
            let first = line.split(|it: char| !it.is_alphabetic()).next().unwrap_or_default();
            if QUESTIONS.contains(&first.to_lowercase().as_str()) {
                self.questions.push(format!("{file}:{number}: {line}"));
            }
        }
    }

    /// Counts private words and type names in the files that are compiled outside of tests.
    fn read_production(&mut self, root: &Path, of: &CrateStructure) -> Result<()> {
        for file in &of.files {
            let text = fs::read_to_string(root.join(file)).with_context(|| file.clone())?;
            let private: usize = production(&text).map(private_words).sum();
            self.private = self.private.saturating_add(private);
            for name in types(&text).with_context(|| file.clone())? {
                self.several.entry(name).or_default().push(file.clone());
            }
        }
        self.several.retain(|_, files| files.len() > 1);
        Ok(())
    }
}

/// The first lines of the doc comments in `text`, each with its number.
fn first_lines(text: &str) -> Vec<(usize, &str)> {
    let mut first = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line = line.trim_start();
        let doc = ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark));
        let doc = doc.filter(|rest| !rest.starts_with('/'));
        if let (false, Some(doc)) = (goes_on, doc)
            && !doc.trim().is_empty()
        {
            first.push((number, doc.trim()));
        }
        goes_on = doc.is_some();
    }
    first
}

/// Number of private words in `text`: whole words, also as parts of names.
fn private_words(text: &str) -> usize {
    text.split(|it: char| !it.is_ascii_alphabetic())
        .flat_map(camel_case)
        .filter(|word| PRIVATE.contains(&word.to_lowercase().as_str()))
        .count()
}

/// The words of a name such as `StatusWriter`.
fn camel_case(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = name;
    while let Some(end) = rest.char_indices().skip(1).find(|(_, it)| it.is_ascii_uppercase()) {
        let (word, next) = rest.split_at(end.0);
        words.push(word);
        rest = next;
    }
    words.push(rest);
    words
}

/// Figures as they are printed: a line a crate, the sums, and what is to be reached.
pub fn words_table(words: &[CrateWords]) -> String {
    let mut text = format!(
        "{:<28} {:>6} {:>10} {:>9} {:>14}\n",
        "folder", "docs", "questions", "private", "several types"
    );
    for of in words {
        let _ = writeln!(text, "{}", row(&of.folder, of.figures()));
    }
    let sums = sums(words);
    let [docs, ..] = sums;
    let _ = writeln!(text, "{}", row("all", sums));
    let _ = writeln!(
        text,
        "to reach: at most {} of the doc comments begin with a question word, {} private words \
         ({}) in production code, {} names of several types of a crate",
        questions_limit(docs),
        PRIVATE_LIMIT,
        PRIVATE.join(", "),
        SEVERAL_LIMIT,
    );
    for of in words {
        for (name, files) in &of.several {
            let _ = writeln!(text, "{name}: {}", files.join(" "));
        }
    }
    text
}

fn row(name: &str, [docs, questions, private, several]: [usize; 4]) -> String {
    format!("{name:<28} {docs:>6} {questions:>10} {private:>9} {several:>14}")
}

/// The sums of doc comments, of those that begin with a question word, of private words, and of
/// names of several types.
fn sums(words: &[CrateWords]) -> [usize; 4] {
    let mut sums = [0_usize; 4];
    for of in words {
        for (sum, figure) in sums.iter_mut().zip(of.figures()) {
            *sum = sum.saturating_add(figure);
        }
    }
    sums
}

/// The limits that the words of all crates exceed, each with what exceeds it.
pub fn words_faults(words: &[CrateWords]) -> Vec<String> {
    let [docs, questions, private, several] = sums(words);
    let mut faults = Vec::new();
    if questions > questions_limit(docs) {
        let all: Vec<&str> =
            words.iter().flat_map(|of| &of.questions).map(String::as_str).collect();
        faults.push(format!("doc comments begin with a question word:\n{}", all.join("\n")));
    }
    if private > PRIVATE_LIMIT {
        faults.push(format!("{private} private words in production code"));
    }
    if several > SEVERAL_LIMIT {
        faults.push(format!("{several} names of several types of a crate"));
    }
    faults
}

/// Most doc comments, out of `docs`, that may begin with a question word.
const fn questions_limit(docs: usize) -> usize {
    docs / 20
}

/// Most private words in production code.
const PRIVATE_LIMIT: usize = 200;
/// Most names that crates give to several types each.
const SEVERAL_LIMIT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_is_counted_once_by_its_first_line() {
        let text =
            "//! What it is.\n//! Who it is.\n\n/// A name.\nfn f() {}\n//// no doc\n/// How.\n";
        let mut words = CrateWords::default();
        words.add_docs("a.rs", text);
        assert_eq!(
            (words.docs, words.questions),
            (3, vec!["a.rs:1: What it is.".to_owned(), "a.rs:7: How.".to_owned()])
        );
    }

    #[test]
    fn private_words_are_found_inside_names() {
        assert_eq!(private_words("told_at, ToldOften, untold, asked. Whoever tasked"), 4);
    }
}
