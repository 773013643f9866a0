//! Flags that pages name, by the command that the text says they are of.

use crate::allowed;
use crate::command_lines;
use crate::commands::{known, ours, path, programs};
use crate::pages::{Fault, Line, Page, cells, none, own_pages, spans};
use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

/// Programs of others that commands begin with: their flags are theirs.
const OTHERS: [&str; 17] = [
    "kubectl", "helm", "cargo", "git", "curl", "etcdutl", "linkerd", "istioctl", "skopeo",
    "buildah", "ctr", "python3", "valgrind", "openssl", "make", "jq", "grep",
];

/// The tools of the repository, by the words that name them, with the files that have their flags.
const TOOLS: [(&str, &[&str]); 13] = [
    ("images/build", &["images/build"]),
    ("bench/data-path", &["bench/src/data_path", "bench/data-path"]),
    ("bench/policy-change", &["bench/src/policy_change"]),
    ("bench/connections", &["bench/src/connections"]),
    ("bench/controller", &["bench/src/controller"]),
    ("bench/functions", &["bench/src/functions", "bench/functions"]),
    ("bench/long", &["bench/src/long"]),
    ("load-generator", &["bench/src/load"]),
    ("echo-application", &["bench/src/application"]),
    ("make test", &["tests/src/lanes.rs", "tests/src/bin", "tests/src/lanes"]),
    ("tests/fuzz/run", &["tests/fuzz/run"]),
    ("tests/servers", &["tests/servers"]),
    ("bench/report", &["bench/report", "bench/src"]),
];

fn is_flag(word: &str) -> bool {
    let name = word.strip_prefix("--");
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    })
}

/// The flag that a word is, with its value where that is a plain word: `--set` of `--set=A`.
pub(crate) fn flag(word: &str) -> Option<&str> {
    let word = word.trim_matches(|c| "[](),.;'\"".contains(c));
    let name = word.split(['=', '[']).next()?;
    let value = word.strip_prefix(name)?.strip_prefix('=').unwrap_or_default();
    let plain = value.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !value.is_empty();
    is_flag(name).then_some(if plain { word } else { name })
}

/// A flag without its value.
fn bare(flag: &str) -> &str {
    flag.split('=').next().unwrap_or_default()
}

/// True of `NAME=value` before a program.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name).unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// The flags of a tool: those that its script names, and the fields of its arguments.
fn of_files(files: &[&str]) -> BTreeSet<String> {
    let mut flags = BTreeSet::from(["--help".to_owned()]);
    for file in files {
        let mut paths = vec![root().join(file)];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&text);
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
            flags.extend(words.filter(|word| is_flag(word)).map(str::to_owned));
            flags.extend(fields(&text));
        }
    }
    flags
}

/// The fields below `#[arg(long …)]`, as clap makes flags of them.
fn fields(text: &str) -> Vec<String> {
    let after = text.split("#[arg(").skip(1).filter(|rest| rest.trim_start().starts_with("long"));
    let field = |rest: &str| {
        let lines = rest.lines().skip(1).map(str::trim);
        let line =
            lines.skip_while(|line| !line.contains(": ")).find(|line| !line.contains('='))?;
        let name = line.split(':').next()?.trim_start_matches("pub(crate) ");
        Some(format!("--{}", name.trim_start_matches("pub ").replace('_', "-")))
    };
    after.filter_map(field).collect()
}

static OF_TOOLS: LazyLock<BTreeMap<&'static str, BTreeSet<String>>> =
    LazyLock::new(|| TOOLS.into_iter().map(|(tool, files)| (tool, of_files(files))).collect());

/// True if any of our commands below this path takes the flag, with this value.
pub(crate) fn has(path: &str, flag: &str) -> bool {
    let value = flag.split_once('=').map(|(_, value)| value);
    let below = |known: &str| known == path || known.starts_with(&format!("{path} "));
    known().iter().any(|(name, known)| below(name) && known.takes(bare(flag), value))
}

/// The commands that a text names with their program: `portcullis identity`, `policy-proxy redirect`.
fn commands_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for span in spans(text) {
        for command in command_lines::commands(&span.code) {
            let Some((program, rest)) = ours(&command) else { continue };
            found.insert(path(&program, &rest));
        }
    }
    found
}

/// The words of a text that are subcommands of `portcullis` by themselves: "`check` takes `--x`".
fn bare_commands(text: &str) -> BTreeSet<String> {
    let words = spans(text).into_iter().map(|span| span.code);
    let first = words.filter_map(|code| code.split(' ').next().map(str::to_owned));
    let named = first.filter(|word| known()["portcullis"].subcommands.contains(word));
    named.map(|word| format!("portcullis {word}")).collect()
}

/// True of the head of a column with another product's names.
fn is_theirs(head: &str) -> bool {
    ["Linkerd", "Istio"].iter().any(|name| head == *name || head.ends_with(&format!("of {name}'s")))
}

/// The sentences of a line; a row of a table is one.
fn sentences(line: &Line) -> Vec<String> {
    if line.text.starts_with('|') {
        // What another product calls something is in a column of its own.
        let own = |head: Option<&String>| head.is_none_or(|head| !is_theirs(head));
        let cells = cells(&line.text).into_iter().enumerate();
        let ours = cells.filter(|(number, _)| own(line.columns.get(*number)));
        return vec![ours.map(|(_, cell)| cell).collect::<Vec<_>>().join(" | ")];
    }
    // A point within code ends nothing.
    let mut sentences = vec![String::new()];
    for (number, part) in line.text.split('`').enumerate() {
        let last = |sentences: &mut Vec<String>, text: &str| {
            let last = sentences.last_mut().unwrap();
            last.push_str(text);
        };
        if number > 0 {
            last(&mut sentences, "`");
        }
        if number % 2 == 1 {
            last(&mut sentences, part);
            continue;
        }
        for (place, piece) in part.split(". ").enumerate() {
            if place > 0 {
                sentences.push(String::new());
            }
            last(&mut sentences, piece);
        }
    }
    sentences
}

/// The error of a flag that stands alone in a sentence.
fn alone(page: &str, line: &Line, sentence: &str, flag: &str, tools: &[&str]) -> Option<String> {
    let in_tool = |tool: &&str| OF_TOOLS.get(*tool).is_some_and(|flags| flags.contains(bare(flag)));
    if tools.iter().any(in_tool) || allowed::has(&allowed::FLAGS, page, bare(flag)) {
        return None;
    }
    let said = commands_in(sentence);
    let tool_named = tools.iter().any(|tool| sentence.contains(tool));
    if !said.is_empty() && !tool_named {
        let any = said.iter().any(|command| has(command, flag));
        let list: Vec<&str> = said.iter().map(String::as_str).collect();
        return (!any).then(|| format!("said of {}, which has none", list.join(", ")));
    }
    let mut named = bare_commands(sentence);
    named.extend(bare_commands(&line.heading));
    if named.iter().any(|command| has(command, flag)) {
        return None;
    }
    let anywhere = programs().keys().any(|program| has(program, flag));
    (!anywhere).then(|| "no command of ours has it".to_owned())
}

/// The error of a flag of a command line.
fn in_line(words: &[String]) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let first = words.first().filter(|word| known()["portcullis"].subcommands.contains(*word));
    let found = match (ours(words), first) {
        (Some(found), _) => Some(found),
        (None, Some(_)) => Some(("portcullis".to_owned(), words.to_vec())),
        (None, None) => None,
    };
    let first = words.first().map(String::as_str).unwrap_or_default();
    if let Some((program, rest)) = found {
        let command = path(&program, &rest);
        let rest = rest.iter().take_while(|word| *word != "--");
        for name in rest.filter_map(|word| flag(word)) {
            if !has(&command, name) {
                faults.push((name.to_owned(), format!("{command} has none")));
            }
        }
    } else if let Some(flags) = OF_TOOLS.get(first) {
        for name in words.iter().filter_map(|word| flag(word)) {
            if !flags.contains(bare(name)) {
                faults.push((name.to_owned(), format!("{first} has none")));
            }
        }
    }
    faults
}

pub(crate) fn faults(page: &Page) -> (usize, Vec<Fault>) {
    let (mut count, mut faults) = (0, Vec::new());
    let whole: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
    let whole = whole.join("\n");
    let tools: Vec<&str> =
        TOOLS.into_iter().map(|(tool, _)| tool).filter(|tool| whole.contains(tool)).collect();
    for (line, words) in command_lines::all(page) {
        count += words.iter().filter(|word| flag(word).is_some()).count();
        let wrong = in_line(&words);
        faults.extend(wrong.into_iter().map(|(name, why)| page.fault(line, "flag", name, why)));
    }
    for line in page.lines.iter().filter(|line| line.is_prose()) {
        for sentence in sentences(line) {
            for span in spans(&sentence) {
                let words = command_lines::words(&span.code);
                // Variables of the environment stand before the program.
                let mut rest = words.iter().skip_while(|word| is_assignment(word));
                let first = rest.next().map(String::as_str).unwrap_or_default();
                let of_command = OTHERS.contains(&first)
                    || OF_TOOLS.contains_key(first)
                    || ours(&words).is_some()
                    || known()["portcullis"].subcommands.contains(first);
                if of_command {
                    continue;
                }
                for name in words.iter().filter_map(|word| flag(word)) {
                    if let Some(why) = alone(&page.path, line, &sentence, name, &tools) {
                        faults.push(page.fault(line, "flag", name, why));
                    }
                }
            }
        }
    }
    (count, faults)
}

#[test]
fn every_flag_is_one_of_the_command_that_it_is_said_of() {
    let (mut count, mut lost) = (0, Vec::new());
    for page in own_pages() {
        let (flags, faults) = faults(&page);
        count += flags;
        lost.extend(faults);
    }
    assert!(count > 200, "{count}");
    none(lost);
}
