//! Says why a process does not start where Kubernetes looks: in the termination log.
//!
//! `kubectl describe pod` shows what a container wrote to its `terminationMessagePath` before it
//! ended, and shows at most 4096 bytes of it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where Kubernetes puts the file unless a container says otherwise.
pub const DEFAULT_PATH: &str = "/dev/termination-log";

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
    /// The log at `path`. An empty path is the default one.
    pub fn at(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let path = if path.as_os_str().is_empty() { Path::new(DEFAULT_PATH) } else { path };
        Self { path: path.to_owned() }
    }

    /// Replaces what the log says, if the file exists: outside a container nothing is created. Of a
    /// longer text the first 4096 bytes are kept, whole characters. A file that cannot be written is
    /// no further trouble: the same text is on standard error.
    pub fn write(&self, reason: &str) {
        if let Ok(mut file) = OpenOptions::new().write(true).truncate(true).open(&self.path) {
            let kept = reason.get(..reason.floor_char_boundary(LIMIT)).unwrap_or_default();
            // As above.
            let _ = file.write_all(kept.as_bytes());
        }
    }
}

/// What the kubelet keeps (Kubernetes, "Customizing the termination message").
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
    fn an_empty_path_is_the_default_one() {
        assert_eq!(TerminationLog::at(""), TerminationLog::default());
    }
}
