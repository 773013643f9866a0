//! Runs nft and iptables.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Error of running a tool.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolError {
    /// The program is not installed.
    #[error("{0} is not installed")]
    Missing(String),
    /// The program could not be started.
    #[error("{0} cannot be run: {1}")]
    Run(String, io::Error),
    /// The program exited with an error.
    #[error("{0}: {1}")]
    Refused(String, String),
    /// The program's output cannot be parsed.
    #[error("{0}: its output cannot be read: {1}")]
    Unreadable(String, String),
}

/// Runs `program` on `input` and returns its output.
pub(super) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, ToolError> {
    let failed = |error: io::Error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let program = program.to_owned();
        if missing { ToolError::Missing(program) } else { ToolError::Run(program, error) }
    };
    let mut command = Command::new(program);
    // Messages of the tools are matched in English.
    command.args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // The tool may exit without reading all input; its exit code tells the reason.
        scope.spawn(move || stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    });
    let output = output.map_err(failed)?;
    if output.status.success() {
        let unreadable = |_| ToolError::Unreadable(program.to_owned(), "not UTF-8".to_owned());
        return String::from_utf8(output.stdout).map_err(unreadable);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(ToolError::Refused(program.to_owned(), summary(&said, output.status.to_string())))
}

/// Joins the lines with a message; the exit status if there are none.
fn summary(said: &str, status: String) -> String {
    let lines = said.lines().map(str::trim);
    let telling = lines.filter(|line| {
        line.contains(|c: char| c.is_ascii_alphanumeric()) && !line.starts_with("Try `")
    });
    let text = telling.take(LINES).collect::<Vec<_>>().join(", ");
    if text.is_empty() { status } else { text }
}

const LINES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_which_program_and_what_it_said() {
        let said = |outcome: Result<String, ToolError>| outcome.unwrap_err().to_string();
        assert_eq!(said(run("no-such-tool", &[], "")), "no-such-tool is not installed");
        let refused = run(
            "sh",
            &["-c", "printf 'bad rule\\n ^^^^ \\nyou must be root\\nTry \\140-h' >&2; exit 3"],
            "",
        );
        assert_eq!(said(refused), "sh: bad rule, you must be root");
        assert_eq!(said(run("sh", &["-c", "exit 3"], "")), "sh: exit status: 3");
    }

    #[test]
    fn input_is_written_whole_and_may_stay_unread() {
        let long = "a".repeat(1 << 20);
        assert_eq!(run("cat", &[], &long).unwrap(), long);
        assert_eq!(run("true", &[], &long).unwrap(), "");
    }
}
