//! Errors of the command line. One about a missing argument ends with an example of the command, from
//! its help.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use std::io::Write;
use std::process::ExitCode;

/// Returns the error of a command that finds its arguments wrong after they were read: it ends with the
/// exit code of wrong use.
pub(crate) fn wrong_use(message: &str) -> anyhow::Error {
    Error::raw(ErrorKind::ValueValidation, format!("{message}\n")).into()
}

/// Prints an error of the command line, and returns the exit code.
pub(crate) fn report(command: &Command, words: &[String], error: &Error) -> ExitCode {
    // Nothing more can be reported if the stream is closed.
    let _ = error.print();
    if let Some(example) = example(command, words, error) {
        let _ = writeln!(std::io::stderr(), "\nexample: {example}");
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Returns the example for an error about missing arguments: the first one of the command's help that
/// the command accepts, and that has one of the missing flags if flags are missing. `words` are those
/// after the name of the program.
fn example(command: &Command, words: &[String], error: &Error) -> Option<String> {
    // Where a subcommand is missing, the error is the help, which has examples.
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let missing = missing_flags(error);
    let (path, of) = subcommand(command, words);
    let help = of.get_after_help()?.to_string();
    let has_missing = |example: &String| {
        let given: Vec<&str> = example.split_whitespace().collect();
        missing.is_empty() || missing.iter().any(|flag| given.contains(&&**flag))
    };
    let accepts =
        |example: &String| command.clone().try_get_matches_from(example.split_whitespace()).is_ok();
    let examples = examples(&help).into_iter().filter(|example| example.starts_with(&path));
    examples.filter(has_missing).find(accepts)
}

/// Returns the subcommand that the words name, and its path. Flags before it are passed over.
fn subcommand<'a>(command: &'a Command, words: &[String]) -> (String, &'a Command) {
    let mut found = command;
    let mut path = command.get_name().to_owned();
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        match found.find_subcommand(word) {
            Some(inner) => found = inner,
            None => break,
        }
        path = format!("{path} {}", found.get_name());
    }
    (path, found)
}

/// Returns the flags among the missing arguments of an error. A missing group lists its alternatives:
/// `<--identity <DIR>|--roots <FILE>>`.
fn missing_flags(error: &Error) -> Vec<String> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return Vec::new();
    };
    let words = missing.iter().flat_map(|argument| argument.split([' ', '<', '>', '|', '[', ']']));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

/// Returns the commands of this program among the examples of a help text, each on one line, without
/// comments and what follows in a pipe. Those with quotes are left out, because they are words for a
/// shell.
fn examples(help: &str) -> Vec<String> {
    let Some((_, examples)) = help.split_once("Examples:") else { return Vec::new() };
    let joined = examples.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| line.starts_with("portcullis "));
    let commands = lines.map(|line| {
        let is_own = |word: &&str| !matches!(*word, "|" | ">") && !word.starts_with('#');
        line.split_whitespace().take_while(is_own).collect::<Vec<_>>().join(" ")
    });
    commands.filter(|command| !command.contains(['\'', '"'])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The example after an error about these words of a command line.
    fn told(words: &[&str]) -> Option<String> {
        let command = crate::cli::command();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let line = std::iter::once("portcullis".to_owned()).chain(words.clone());
        let error = command.clone().try_get_matches_from(line).unwrap_err();
        example(&command, &words, &error)
    }

    /// Every command, by the words of its path.
    fn commands() -> Vec<(Vec<String>, Command)> {
        let mut waiting = vec![(Vec::new(), crate::cli::command())];
        let mut found = Vec::new();
        while let Some((path, command)) = waiting.pop() {
            for inner in command.get_subcommands() {
                let path = [&path[..], &[inner.get_name().to_owned()]].concat();
                waiting.push((path, inner.clone()));
            }
            found.push((path, command));
        }
        found
    }

    #[test]
    fn a_missing_argument_is_answered_with_an_example_of_every_command() {
        let mut lacking = Vec::new();
        for (path, _) in commands().into_iter().filter(|(path, _)| !path.is_empty()) {
            let line = std::iter::once("portcullis").chain(path.iter().map(String::as_str));
            let Err(error) = crate::cli::command().try_get_matches_from(line) else { continue };
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                assert!(error.to_string().contains("Examples:"), "{path:?}: {error}");
                continue;
            }
            assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "{path:?}: {error}");
            let words: Vec<&str> = path.iter().map(String::as_str).collect();
            let example = told(&words).unwrap_or_else(|| panic!("{path:?} has no example"));
            let line = example.split_whitespace();
            let parsed = crate::cli::command().try_get_matches_from(line);
            assert!(parsed.is_ok(), "{example}: {parsed:?}");
            let prefix = format!("portcullis {}", path.join(" "));
            assert!(example.starts_with(&prefix), "{example}");
            lacking.push(path.join(" "));
        }
        lacking.sort();
        // Another command with a required argument belongs here, and has an example already.
        let known = [
            "export smi",
            "identity",
            "import cilium",
            "import consul",
            "import grpc",
            "import istio",
            "import networkpolicy",
            "import openapi",
            "import serviceprofile",
            "import smi",
            "inject",
            "request",
            "up",
            "watch",
            "why",
        ];
        assert_eq!(lacking, known);
    }

    #[test]
    fn the_examples_after_errors_name_files_and_objects_that_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for command in ["up", "inject"] {
            let example = told(&[command]).unwrap();
            let path = example.split_whitespace().last().unwrap();
            assert!(path.starts_with("examples/") && root.join(path).exists(), "{example}");
        }
        let pods = std::fs::read_to_string(root.join("examples/emojivoto/workloads.yaml")).unwrap();
        assert_eq!(told(&["watch"]).unwrap(), "portcullis watch -n emojivoto web-0:8080");
        assert!(pods.contains("{name: web, namespace: emojivoto}"), "{pods}");
        assert_eq!(told(&["identity"]).unwrap(), "portcullis identity -n shop web --out web");
        let shop = std::fs::read_to_string(root.join("examples/shop/workloads.yaml")).unwrap();
        assert!(shop.contains("kind: ServiceAccount\nmetadata: {name: web, namespace: shop}"));
    }

    #[test]
    fn a_missing_flag_is_in_the_example_or_there_is_none() {
        let with_roots = told(&["request", "--server-name", "a", "http://a/"]).unwrap();
        assert!(with_roots.contains(" --identity ") || with_roots.contains(" --roots "));
        assert_eq!(told(&["echo", "--plaintext-too"]), None);
        assert_eq!(told(&["up", "--no-such-flag"]), None);
    }

    #[test]
    fn an_example_is_one_line_without_its_comment() {
        let help = "Before:\n  portcullis up x\nExamples:\n  portcullis a \\\n    --b c | jq\n  \
                    kubectl get x\n  portcullis d e   # f's\n  portcullis g 'h i'\n";
        assert_eq!(examples(help), ["portcullis a --b c", "portcullis d e"]);
    }
}
