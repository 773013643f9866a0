//! Looks at manifests that may be written meanwhile.

use super::input::{Manifests, names};
use super::scan::{Scan, scan};
use crate::source::SourceError;
use std::time::Duration;

/// Time for which a file must stay unchanged to be read: writing truncates first, and half of a
/// manifest may be valid and mean something else.
const STEADY: Duration = Duration::from_millis(25);

/// The same time for an empty file: most likely it was truncated and not filled yet. Without its
/// objects ports would open.
const STEADY_EMPTY: Duration = Duration::from_millis(500);

/// Number of times that a directory without rest is read before it is used nonetheless.
const LOOKS: usize = 20;

/// Reads the same inputs again and again.
#[derive(Debug)]
pub struct Looker {
    inputs: Vec<Manifests>,
    file_bytes: u64,
}

/// A state of the inputs.
#[derive(Debug)]
pub struct Look {
    /// The files.
    pub scan: Scan,
    /// True if two looks in a row agreed, or it is the known state.
    pub rests: bool,
}

impl Looker {
    /// Reads files of up to `file_bytes` bytes.
    pub fn new(inputs: Vec<Manifests>, file_bytes: u64) -> Self {
        Self { inputs, file_bytes }
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Manifests] {
        &self.inputs
    }

    /// Looks until two looks in a row agree, or until the inputs are as they were at the fingerprint
    /// `known`.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] if an input cannot be read.
    pub async fn steady(&self, known: Option<u64>) -> Result<Look, SourceError> {
        let mut scan = self.scan().await?;
        for _ in 0..LOOKS {
            let fingerprint = scan.fingerprint();
            if known == Some(fingerprint) {
                return Ok(Look { scan, rests: true });
            }
            tokio::time::sleep(if scan.has_empty_file() { STEADY_EMPTY } else { STEADY }).await;
            scan = self.scan().await?;
            if scan.fingerprint() == fingerprint {
                return Ok(Look { scan, rests: true });
            }
        }
        Ok(Look { scan, rests: false })
    }

    /// Looks without holding up other tasks.
    async fn scan(&self) -> Result<Scan, SourceError> {
        let (inputs, bytes) = (self.inputs.clone(), self.file_bytes);
        let looked = tokio::task::spawn_blocking(move || scan(&inputs, bytes)).await;
        looked.unwrap_or_else(|error| {
            let path = names(&self.inputs);
            Err(SourceError::Unreadable { path, error: std::io::Error::other(error) })
        })
    }
}
