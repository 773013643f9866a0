//! Figures and loops of the crates, and how they are printed.

use super::graph::{Edges, loops};
use super::modules::Modules;
use super::resolve;
use super::workspace::{Member, members};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Dependencies among the sources of one crate.
#[derive(Debug)]
pub struct CrateStructure {
    /// The crate's name.
    pub name: String,
    /// The files that are compiled outside of tests, from the workspace's root, generated ones left
    /// out.
    pub files: BTreeSet<String>,
    /// The lines of these files, comments included, unit tests at their end left out.
    pub lines: usize,
    /// Those of them that are neither blank nor comments.
    pub code: usize,
    /// The texts in quotes, from log messages to names on the wire.
    pub texts: BTreeSet<String>,
    /// The loops among the files.
    pub loops: Vec<Loop>,
    /// The loops among the modules directly below a root.
    pub top_loops: Vec<Vec<String>>,
}

/// Files that all lead to each other.
#[derive(Debug)]
pub struct Loop {
    /// The files, from the workspace's root.
    pub files: Vec<String>,
    /// Each edge among them: from, to, and the paths that make it.
    pub edges: Vec<(String, String, BTreeSet<String>)>,
}

/// Reads every crate of the workspace in `root`.
///
/// # Errors
/// Cargo cannot be run, or a source file cannot be read or parsed.
pub fn workspace_structure(root: &Path) -> Result<Vec<CrateStructure>> {
    let root = root.canonicalize().context("the workspace's root")?;
    members(&root)?.iter().map(|member| CrateStructure::read(&root, member)).collect()
}

/// Crates that nobody installs: they test, measure or generate.
const TOOLS: [&str; 8] = [
    "policy-tests",
    "policy-checks",
    "policy-testkit",
    "policy-properties",
    "policy-bench",
    "policy-floor",
    "policy-measure",
    "xtask",
];

impl CrateStructure {
    /// True if the crate is a part of what is installed.
    pub fn is_installed(&self) -> bool {
        !TOOLS.contains(&self.name.as_str())
    }

    /// Its figures, in the order of the table.
    fn figures(&self) -> [usize; 6] {
        let looped = self.loops.iter().map(|of| of.files.len()).sum();
        let (loops, tops) = (self.loops.len(), self.top_loops.len());
        [self.files.len(), self.lines, self.code, loops, looped, tops]
    }

    /// Reads one crate of the workspace in `root`.
    ///
    /// # Errors
    /// A source file cannot be read or parsed.
    pub fn read(root: &Path, member: &Member) -> Result<Self> {
        let mut edges = resolve::Named::new();
        let mut texts = BTreeSet::new();
        // The root of a target is no module of its own.
        let mut tops: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
        for target in &member.targets {
            let modules = Modules::read(&target.first)?;
            texts.extend(modules.texts.iter().cloned());
            for (edge, paths) in resolve::edges(&modules) {
                edges.entry(edge).or_default().extend(paths);
            }
            for module in modules.all {
                let top = module.top.map(|top| format!("{}: {top}", target.name));
                tops.entry(module.file).or_insert(top);
            }
        }
        let (mut lines, mut code) = (0_usize, 0_usize);
        for file in tops.keys() {
            let text = fs::read_to_string(file)?;
            lines = lines.saturating_add(lines_before_tests(&text));
            code = code.saturating_add(code_lines(&text));
        }
        let shown = |path: &Path| relative(root, path);
        Ok(CrateStructure {
            name: member.name.clone(),
            files: tops.keys().map(|file| shown(file)).collect(),
            lines,
            code,
            texts,
            loops: file_loops(&edges, shown),
            top_loops: top_loops(&edges, &tops),
        })
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn file_loops(edges: &resolve::Named, shown: impl Fn(&Path) -> String) -> Vec<Loop> {
    let mut graph = Edges::new();
    for (from, to) in edges.keys() {
        graph.entry(from).or_insert_with(BTreeSet::new).insert(to);
    }
    let found = loops(&graph).into_iter().map(|files| Loop {
        edges: edges
            .iter()
            .filter(|((from, to), _)| files.contains(&from) && files.contains(&to))
            .map(|((from, to), paths)| (shown(from), shown(to), paths.clone()))
            .collect(),
        files: files.into_iter().map(|file| shown(file)).collect(),
    });
    found.collect()
}

fn top_loops(edges: &resolve::Named, tops: &BTreeMap<PathBuf, Option<String>>) -> Vec<Vec<String>> {
    let mut graph = Edges::new();
    for (from, to) in edges.keys() {
        if let (Some(Some(from)), Some(Some(to))) = (tops.get(from), tops.get(to))
            && from != to
        {
            graph.entry(from.clone()).or_insert_with(BTreeSet::new).insert(to.clone());
        }
    }
    loops(&graph)
}

/// The lines of a file that are neither blank nor comments nor tests at its end.
pub(crate) fn code_lines(text: &str) -> usize {
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    production(text).filter(code).count()
}

/// The lines in front of unit tests that are written in the file.
pub(crate) fn production(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take(lines_before_tests(text))
}

fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |rest: &[&str]| {
        let [first, rest @ ..] = rest else { return false };
        let further = |line: &&&str| !line.starts_with(['#', ' ', ')']);
        let item = rest.iter().find(further).copied().unwrap_or_default();
        first.trim_end() == "#[cfg(test)]" && item.starts_with("mod ") && item.ends_with('{')
    };
    let starts = (0..lines.len()).find(|start| lines.get(*start..).is_some_and(begins));
    starts.unwrap_or(lines.len())
}

/// The crates of the controller, which is what is below this folder.
const CONTROLLER: &str = "policy-controller/";

/// The figures of every crate as a table, and the loops with the edges that make them.
pub fn table(crates: &[CrateStructure]) -> String {
    let mut text = format!(
        "{:<20} {:>6} {:>7} {:>7} {:>6} {:>15} {:>10}\n",
        "crate", "files", "lines", "code", "loops", "files in loops", "top loops"
    );
    let mut row = |name: &str, figures: [usize; 6]| {
        let [files, lines, code, loops, looped, tops] = figures;
        let _ = writeln!(
            text,
            "{name:<20} {files:>6} {lines:>7} {code:>7} {loops:>6} {looped:>15} {tops:>10}"
        );
    };
    for it in crates {
        row(&it.name, it.figures());
    }
    let sum = |crates: &mut dyn Iterator<Item = &CrateStructure>| {
        let mut sum = [0_usize; 6];
        for it in crates {
            let all = sum.iter_mut().zip(it.figures());
            all.for_each(|(sum, of)| *sum = sum.saturating_add(of));
        }
        sum
    };
    row(&format!("{} crates", crates.len()), sum(&mut crates.iter()));
    let controller =
        |of: &&CrateStructure| of.files.iter().all(|file| file.starts_with(CONTROLLER));
    row("the controller", sum(&mut crates.iter().filter(controller)));
    for it in crates {
        for of in &it.loops {
            let _ = writeln!(text, "\n{}: a loop of {} files", it.name, of.files.len());
            for (from, to, paths) in &of.edges {
                let paths: Vec<_> = paths.iter().map(String::as_str).collect();
                let _ = writeln!(text, "  {from} -> {to}: {}", paths.join(", "));
            }
        }
        for of in &it.top_loops {
            let _ = writeln!(text, "\n{}: a loop of modules: {}", it.name, of.join(", "));
        }
    }
    text
}
