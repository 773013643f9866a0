//! Manifests as people name them: folders, files, standard input, pipes, and addresses, which are
//! answered with the command that reads them.

use anyhow::{Context, bail};
use policy_engine::ControllerConfig;
use policy_engine::source::directory::Manifests;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of standard input.
const STDIN: &str = "-";

/// Returns the inputs of these names. `reader` is the command, with the words by which it reads
/// standard input: `check -`.
///
/// # Errors
/// Standard input or a pipe that cannot be read, and addresses.
pub(crate) fn inputs(paths: &[PathBuf], reader: &str) -> anyhow::Result<Vec<Manifests>> {
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        bail!("`{STDIN}` is named twice: standard input can be read only once");
    }
    paths.iter().map(|path| input(path, reader)).collect()
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

fn input(path: &Path, reader: &str) -> anyhow::Result<Manifests> {
    let name = path.display();
    let text = path.to_string_lossy();
    if ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme)) {
        bail!("`{name}` is an address: curl -fsSL {name} | portcullis {reader}");
    }
    if is_stdin(path) {
        let bytes = bounded(stdin().lock()).context("cannot read standard input")?;
        return Ok(Manifests::Text { name: path.to_owned(), bytes });
    }
    // A file that is not there is reported by who reads it.
    let can_be_read_once = std::fs::metadata(path).is_ok_and(|it| !it.is_dir() && !it.is_file());
    if can_be_read_once {
        let read = File::open(path).map_err(anyhow::Error::from).and_then(bounded);
        let bytes = read.with_context(|| format!("cannot read `{name}`"))?;
        return Ok(Manifests::Text { name: path.to_owned(), bytes });
    }
    Ok(Manifests::Path(path.to_owned()))
}

/// Reads a pipe, up to the size that a file may have.
fn bounded(pipe: impl Read) -> anyhow::Result<Arc<[u8]>> {
    let limit = ControllerConfig::default().limits.file_bytes;
    let mut bytes = Vec::new();
    pipe.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        bail!("larger than the limit of {limit} bytes");
    }
    Ok(bytes.into())
}
