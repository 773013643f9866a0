//! The path of a Server: how many files and types its content passes between its YAML and a decision by it.
//!
//! `xtask/path.txt` names the files by stage. The types are those that these files declare: counted
//! are all of them, and those that another file of the path names, in which data is handed on.

use super::kinds::words;
use super::report::{CrateStructure, code_lines};
use super::types::types;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The list of files, from the workspace's root.
const LIST: &str = "xtask/path.txt";

/// One stage of the path.
#[derive(Debug)]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// Its files, from the workspace's root.
    pub files: Vec<String>,
    /// Lines of code of these files, without comments, blank lines and tests.
    pub code: usize,
    /// Number of types that these files declare.
    pub types: usize,
    /// Those that another file of the path names.
    pub handed_on: BTreeSet<String>,
}

/// A list of files as it is written down.
#[derive(Debug, Default)]
struct List {
    stages: Vec<(String, Vec<String>)>,
    folders: BTreeSet<String>,
    /// Files beside the path, and folders, which end with a slash.
    off: BTreeSet<String>,
}

impl List {
    fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
        let mut list = List::default();
        let mut folder = String::new();
        for line in text.lines().map(str::trim) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let within = |name: &str| match name.ends_with('/') {
                true => format!("{folder}/{name}"),
                false => format!("{folder}/{name}.rs"),
            };
            match (word, list.stages.last_mut()) {
                ("" | "#", _) => {}
                ("stage", _) => list.stages.push((rest.to_owned(), Vec::new())),
                ("in", Some(_)) => {
                    folder = rest.to_owned();
                    list.folders.insert(folder.clone());
                }
                ("on", Some((_, files))) => files.extend(rest.split_whitespace().map(within)),
                ("off", Some(_)) => {
                    let Some((names, _)) = rest.split_once(": ") else {
                        bail!("{LIST}: `{line}` does not say why")
                    };
                    list.off.extend(names.split_whitespace().map(within));
                }
                _ => bail!("{LIST}: `{line}` is neither stage, in, on nor off"),
            }
        }
        Ok(list)
    }
}

/// The stages of the path, with what is counted of each; nothing where the workspace in `root` has no
/// list of them.
///
/// # Errors
/// The list or a file that it names cannot be read or parsed.
pub fn server_path(root: &Path) -> Result<Vec<Stage>> {
    if !root.join(LIST).is_file() {
        return Ok(Vec::new());
    }
    let list = List::read(root)?;
    let mut texts = BTreeMap::new();
    for file in list.stages.iter().flat_map(|(_, files)| files) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {file}"))?;
        texts.insert(file, text);
    }
    let mut declared = BTreeMap::new();
    for (file, text) in &texts {
        declared.insert(*file, types(text).with_context(|| format!("parse {file}"))?);
    }
    let named: BTreeMap<_, _> = texts.iter().map(|(file, text)| (*file, words(text))).collect();
    // A name that a file declares itself is not the other file's.
    let elsewhere = |file: &String, name: &String| {
        named.iter().any(|(other, words)| {
            *other != file
                && words.contains(name.as_str())
                && !declared.get(other).is_some_and(|own| own.contains(name))
        })
    };
    let stage = |(name, files): &(String, Vec<String>)| {
        let all = files.iter().flat_map(|file| declared.get(file).map(|types| (file, types)));
        let all = all.flat_map(|(file, types)| types.iter().map(move |name| (file, name)));
        let handed_on = all.clone().filter(|(file, name)| elsewhere(file, name));
        let code = files.iter().filter_map(|file| texts.get(file)).map(|text| code_lines(text));
        Stage {
            name: name.clone(),
            files: files.clone(),
            code: code.sum(),
            types: all.clone().count(),
            handed_on: handed_on.map(|(_, name)| name.clone()).collect(),
        }
    };
    Ok(list.stages.iter().map(stage).collect())
}

/// Faults of the list of files: names without a file, files that are named twice, and files of its
/// folders that it does not name.
///
/// # Errors
/// The list cannot be read.
pub fn server_path_faults(root: &Path, crates: &[CrateStructure]) -> Result<Vec<String>> {
    let list = List::read(root)?;
    let there: BTreeSet<&String> = crates.iter().flat_map(|of| &of.files).collect();
    let below = |folder: &str| there.iter().any(|file| file.starts_with(folder));
    let mut faults = Vec::new();
    let mut on = BTreeSet::new();
    for file in list.stages.iter().flat_map(|(_, files)| files) {
        if !there.contains(file) {
            faults.push(format!("{file}: there is no such file"));
        }
        if !on.insert(file) {
            faults.push(format!("{file}: on the path twice"));
        }
    }
    for name in &list.off {
        if on.contains(name) {
            faults.push(format!("{name}: both on and off the path"));
        }
        let is_there = there.contains(name) || name.ends_with('/') && below(name);
        if !is_there {
            faults.push(format!("{name}: there is no such file"));
        }
    }
    for file in there {
        let Some((folder, name)) = file.rsplit_once('/') else { continue };
        let own_folder = file.trim_end_matches(".rs");
        let declares = matches!(name, "lib.rs" | "main.rs")
            || list.folders.contains(own_folder)
            || list.off.contains(&format!("{own_folder}/"));
        let known = on.contains(file) || list.off.contains(file);
        if list.folders.contains(folder) && !declares && !known {
            faults.push(format!("{file}: neither on nor off the path"));
        }
    }
    Ok(faults)
}

/// The stages as a table, with the names of the types that data is handed on in.
pub fn server_path_table(stages: &[Stage]) -> String {
    let mut text = format!(
        "\n{:<20} {:>6} {:>7} {:>6} {:>10}\n",
        "path of a Server", "files", "code", "types", "handed on"
    );
    let mut sum = [0_usize; 4];
    let mut row = |name: &str, [files, code, types, handed]: [usize; 4]| {
        let _ = writeln!(text, "{name:<20} {files:>6} {code:>7} {types:>6} {handed:>10}");
    };
    for of in stages {
        let figures = [of.files.len(), of.code, of.types, of.handed_on.len()];
        row(&of.name, figures);
        sum.iter_mut().zip(figures).for_each(|(sum, of)| *sum = sum.saturating_add(of));
    }
    row(&format!("{} stages", stages.len()), sum);
    for of in stages {
        let names: Vec<&str> = of.handed_on.iter().map(String::as_str).collect();
        let _ = writeln!(text, "{}: {}", of.name, names.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_tests_are_no_types_of_the_path() {
        let text = "pub struct A; enum B { X }\npub(crate) type C = A;\nmod inner { trait D {} }\n\
                    #[cfg(test)]\nmod tests {\n    struct E;\n}\n";
        assert_eq!(types(text).unwrap().into_iter().collect::<String>(), "ABCD");
        assert_eq!(code_lines(&format!("// a\n\n    /// b\n{text}")), 3);
    }
}
