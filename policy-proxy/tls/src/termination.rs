//! The termination log, in which a process tells Kubernetes why it does not start.
//!
//! `kubectl describe pod` shows what a container wrote to its `terminationMessagePath` before it
//! ended, and shows at most 4096 bytes of it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Default path of the file in Kubernetes.
pub const DEFAULT_PATH: &str = "/dev/termination-log";

/// The flag that sets another path.
const FLAG: &[u8] = b"--termination-log";
/// The environment variable that sets the path if the flag does not.
pub const VARIABLE: &str = "PORTCULLIS_TERMINATION_LOG";

/// A container's termination log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationLog {
    path: PathBuf,
}

impl Default for TerminationLog {
    fn default() -> Self {
        Self::at(DEFAULT_PATH)
    }
}

impl TerminationLog {
    /// Creates the log at `path`. An empty path is the default one.
    pub fn at(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let path = if path.as_os_str().is_empty() { Path::new(DEFAULT_PATH) } else { path };
        Self { path: path.to_owned() }
    }

    /// Creates the log that the command line or the environment names. Scans for the flag alone,
    /// because an invalid command line is not parsed to its end, and the error belongs in the log.
    pub fn of_command_line(
        arguments: impl IntoIterator<Item = OsString>,
        variable: Option<OsString>,
    ) -> Self {
        let mut arguments = arguments.into_iter();
        let mut named = None;
        while let Some(argument) = arguments.next() {
            match argument.as_bytes().strip_prefix(FLAG) {
                Some([]) => named = arguments.next(),
                Some([b'=', path @ ..]) => named = Some(OsString::from_vec(path.to_vec())),
                Some(_) | None => {}
            }
        }
        Self::at(named.or(variable).unwrap_or_default())
    }

    /// Replaces the content of the log if the file exists: outside a container nothing is created.
    /// Texts are truncated to 4096 bytes, at a character boundary. Write errors are ignored,
    /// because the same text is on standard error.
    pub fn write(&self, reason: &str) {
        if let Ok(mut file) = OpenOptions::new().write(true).truncate(true).open(&self.path) {
            let kept = reason.get(..reason.floor_char_boundary(LIMIT)).unwrap_or_default();
            // As documented.
            let _ = file.write_all(kept.as_bytes());
        }
    }
}

/// Maximum size that the kubelet reads (Kubernetes, "Customizing the termination message").
const LIMIT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_replaces_what_was_there_and_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = TerminationLog::at(&path);
        log.write("nobody asked for a file");
        assert!(!path.exists());
        std::fs::write(&path, "an older and longer reason").unwrap();
        log.write("a reason");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a reason");
        log.write(&"é".repeat(4000));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "é".repeat(2048));
        log.write(&format!("a{}", "é".repeat(4000)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("a{}", "é".repeat(2047)));
    }

    #[test]
    fn a_command_line_with_mistakes_names_the_log_nonetheless() {
        let of = |line: &str, variable: Option<&str>| {
            let words = line.split_whitespace().map(OsString::from);
            TerminationLog::of_command_line(words, variable.map(Into::into))
        };
        for line in [
            "x run --termination-log /a --wrong=1",
            "x --wrong --termination-log=/a",
            "x --termination-log=/b run --termination-log /a",
        ] {
            assert_eq!(of(line, Some("/v")), TerminationLog::at("/a"), "{line}");
        }
        for line in ["x run --wrong", "x --termination-logs=/a", "x run --termination-log"] {
            assert_eq!(of(line, Some("/v")), TerminationLog::at("/v"), "{line}");
            assert_eq!(of(line, None), TerminationLog::default(), "{line}");
        }
    }

    #[test]
    fn an_empty_path_is_the_default_one() {
        assert_eq!(TerminationLog::at(""), TerminationLog::default());
    }
}
