//! What manifests are read from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// An input of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifests {
    /// A directory with everything below it, or a file. It is read again with each scan.
    Path(PathBuf),
    /// Text that can be read only once: standard input or a pipe.
    Text {
        /// Its name in messages.
        name: PathBuf,
        /// Its bytes.
        bytes: Arc<[u8]>,
    },
}

impl Manifests {
    /// Returns its name in messages.
    pub fn name(&self) -> &std::path::Path {
        match self {
            Self::Path(path) => path,
            Self::Text { name, .. } => name,
        }
    }
}

impl fmt::Display for Manifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name().display())
    }
}

/// Returns the names of inputs, separated by commas.
pub fn names(inputs: &[Manifests]) -> String {
    inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
