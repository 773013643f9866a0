//! Commands of ours that pages name: a program, its subcommand, and the line as a whole where it can be
//! pasted.

use crate::command_lines;
use crate::pages::{Fault, Line, Page, none, own_pages};
use clap::CommandFactory;
use clap::error::ErrorKind;
use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// A command with its flags.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The flags, with their dashes.
    pub(crate) flags: BTreeSet<String>,
    pub(crate) subcommands: BTreeSet<String>,
    /// The values of flags that have a list of them.
    values: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    /// True if the command has the flag, and the flag may have the value.
    pub(crate) fn takes(&self, flag: &str, value: Option<&str>) -> bool {
        let listed = self.values.get(flag);
        let fits = |value: &str| listed.is_none_or(|values| values.contains(value));
        self.flags.contains(flag) && value.is_none_or(fits)
    }
}

/// The three programs.
pub(crate) fn programs() -> &'static BTreeMap<String, clap::Command> {
    static PROGRAMS: OnceLock<BTreeMap<String, clap::Command>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let programs = [
            policy_cli::cli::command(),
            policy_controller::args::Cli::command(),
            policy_proxy::args::Cli::command(),
        ];
        let built = programs.map(|mut program| {
            program.build();
            (program.get_name().to_owned(), program)
        });
        built.into()
    })
}

/// Every command of the programs, by its path: `portcullis`, `portcullis status`.
pub(crate) fn known() -> &'static BTreeMap<String, Known> {
    static KNOWN: OnceLock<BTreeMap<String, Known>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known = BTreeMap::new();
        for (name, program) in programs() {
            collect(name, program, &mut known);
        }
        known
    })
}

fn collect(path: &str, command: &clap::Command, known: &mut BTreeMap<String, Known>) {
    let of = known.entry(path.to_owned()).or_default();
    for argument in command.get_arguments() {
        of.flags.extend(argument.get_long_and_visible_aliases().into_iter().flatten().map(long));
        let values = argument.get_possible_values();
        if let (Some(name), false) = (argument.get_long(), values.is_empty()) {
            let values = values.iter().map(|value| value.get_name().to_owned());
            of.values.insert(long(name), values.collect());
        }
        of.flags.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    let inner: Vec<&clap::Command> = command.get_subcommands().collect();
    of.subcommands.extend(inner.iter().map(|command| command.get_name().to_owned()));
    for command in inner {
        collect(&format!("{path} {}", command.get_name()), command, known);
    }
}

fn long(name: &str) -> String {
    format!("--{name}")
}

/// The words behind the program of a command line of ours, with the program: of `cargo run`, of
/// `kubectl exec`, or of the line itself.
pub(crate) fn ours(words: &[String]) -> Option<(String, Vec<String>)> {
    let assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !name.is_empty()
        })
    };
    let start = words.iter().take_while(assignment).count();
    let words = &words[start..];
    let first = words.first()?;
    if programs().contains_key(first) {
        return Some((first.clone(), words[1..].to_vec()));
    }
    let dashes = words.iter().position(|word| word == "--")?;
    let (before, after) = (&words[..dashes], &words[dashes + 1..]);
    match (first.as_str(), before.get(1).map(String::as_str)) {
        ("cargo", Some("run")) => {
            let package = before.windows(2).find(|pair| pair[0] == "-p").map(|pair| &pair[1]);
            let program = package.map_or("portcullis", String::as_str);
            programs().contains_key(program).then(|| (program.to_owned(), after.to_vec()))
        }
        ("kubectl", _) => ours(after),
        _ => None,
    }
}

/// The command that words behind a program name, as far as it is known.
pub(crate) fn path(program: &str, words: &[String]) -> String {
    let mut path = program.to_owned();
    for word in words {
        match known().get(&format!("{path} {word}")) {
            Some(_) => path = format!("{path} {word}"),
            None => break,
        }
    }
    path
}

/// Words that follow a program's name in a text and are no subcommand, with the reason.
const NO_COMMANDS: [(&str, &str); 1] =
    [("portcullis roots", "what the digest of a proof of roots begins with")];

fn subcommand(page: &Page, line: &Line, words: &[String]) -> Option<Fault> {
    let (program, rest) = ours(words)?;
    let first = rest.first()?;
    let is_word = first.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let path = format!("{program} {first}");
    let other = NO_COMMANDS.iter().any(|(other, _)| *other == path);
    if !is_word || first.starts_with('-') || other || known().contains_key(&path) {
        return None;
    }
    Some(page.fault(line, "command", path, format!("{program} has no such subcommand")))
}

/// The reason that a line cannot be pasted.
fn refused(program: &str, words: &[String]) -> Option<String> {
    if words.iter().any(|word| word.contains('…')) {
        return None;
    }
    let command = programs()[program].clone();
    let line = std::iter::once(program.to_owned()).chain(words.iter().cloned());
    let error = command.try_get_matches_from(line).err()?;
    let variable = words.iter().any(|word| word.contains('$'));
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        // The shell puts the value in.
        ErrorKind::ValueValidation | ErrorKind::InvalidValue if variable => None,
        _ => Some(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// The number of command lines of ours, and what is wrong with them.
pub(crate) fn faults(page: &Page) -> (usize, Vec<Fault>) {
    let (mut count, mut faults) = (0, Vec::new());
    for (line, words) in command_lines::all(page) {
        faults.extend(subcommand(page, line, &words));
        faults.extend(tools(page, line, &words));
    }
    for (line, words) in command_lines::fenced(page) {
        if let Some((program, words)) = ours(&words) {
            count += 1;
            let name = format!("{program} {}", words.join(" "));
            let refused = refused(&program, &words);
            faults.extend(refused.map(|why| page.fault(line, "command line", name, why)));
        }
    }
    (count, faults)
}

/// Arguments of make and cargo.
fn tools(page: &Page, line: &Line, words: &[String]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut look = |class, name: &str, there: bool| {
        if !there {
            faults.push(page.fault(line, class, name, "there is none"));
        }
    };
    let value = |flag: &str| words.windows(2).find(|pair| pair[0] == flag).map(|pair| &pair[1]);
    let start = words.iter().take_while(|word| word.contains('=')).count();
    match words[start..].iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", targets @ ..] => {
            let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
            let target = |name: &str| makefile.contains(&format!("\n{name}:"));
            let targets = targets.iter().filter(|word| !word.contains('='));
            targets.for_each(|name| look("target", name, target(name)));
        }
        ["cargo", ..] => {
            let members = xtask::structure::members(&root()).unwrap();
            let package = value("-p");
            let known = package.is_none_or(|name| members.iter().any(|one| one.name == *name));
            look("crate", package.map_or("", String::as_str), known);
            if let Some(test) = value("--test") {
                let place = |of: &str| root().join(format!("{of}/tests/{test}"));
                let there =
                    |of: &str| place(of).is_dir() || place(of).with_extension("rs").is_file();
                let folders = members.iter().map(|member| member.folder.as_str());
                look("test", test, folders.into_iter().any(there));
            }
        }
        _ => {}
    }
    faults
}

#[test]
fn every_command_can_be_given_as_it_is_written() {
    let (mut count, mut lost) = (0, Vec::new());
    for page in own_pages() {
        let (lines, faults) = faults(&page);
        count += lines;
        lost.extend(faults);
    }
    assert!(count > 25, "{count}");
    none(lost);
}

/// The commands in the first column of docs/cli.md's table.
#[test]
fn the_page_of_the_command_line_lists_every_command() {
    let page = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != "| command | what it does |").skip(2);
    let first = |row: &str| row.split(['`', ' ']).find(|it| it.len() > 1).map(str::to_owned);
    let listed: BTreeSet<String> =
        rows.take_while(|row| row.starts_with('|')).filter_map(first).collect();
    let mut commands = known()["portcullis"].subcommands.clone();
    commands.remove("help");
    assert_eq!(listed, commands);
    // README.md has them in one row.
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let row = readme.lines().find(|line| line.starts_with("| `portcullis` |")).unwrap();
    for command in &commands {
        assert!(row.contains(&format!("`{command}`")), "README.md does not name {command}");
    }
}
