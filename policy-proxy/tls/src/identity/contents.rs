//! Files of bounded length.

use super::error::SourceError;
use std::io;
use std::path::Path;
use tokio::io::AsyncReadExt as _;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// [`SourceError::Read`] names the file.
pub(super) async fn contents(path: &Path, most: u64) -> Result<Vec<u8>, SourceError> {
    let read = async {
        let mut contents = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        let read = file.take(most.saturating_add(1)).read_to_end(&mut contents).await?;
        if u64::try_from(read).is_ok_and(|read| read > most) {
            return Err(io::Error::other(format!("longer than {most} bytes")));
        }
        Ok(contents)
    };
    read.await.map_err(|error| SourceError::Read { path: path.to_owned(), error })
}
