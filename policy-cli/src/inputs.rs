//! Manifests as people name them: folders, files, standard input, pipes, and addresses, which are
//! answered with the command that reads them.

use crate::usage::wrong_use;
use anyhow::{Context, bail};
use clap::Args;
use policy_engine::ControllerConfig;
use policy_engine::source::directory::Manifests;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of standard input.
const STDIN: &str = "-";

/// Flags of `kubectl` about inputs that people give from habit.
#[derive(Clone, Debug, Args)]
#[allow(dead_code, reason = "folders are read whole")]
pub(crate) struct KubectlInputFlags {
    /// Folders are read whole in any case
    #[arg(short = 'R', long, hide = true)]
    recursive: bool,

    /// A kustomization is rendered first
    #[arg(short = 'k', long, hide = true, value_name = "FOLDER")]
    kustomize: Option<String>,
}

impl KubectlInputFlags {
    /// Answers a kustomization with the command that renders it. `reader`: as for [`inputs`].
    ///
    /// # Errors
    /// Wrong use, if there is one.
    pub(crate) fn refuse_kustomization(&self, reader: &str) -> anyhow::Result<()> {
        let Some(folder) = &self.kustomize else { return Ok(()) };
        Err(wrong_use(&format!(
            "a kustomization is rendered first: kubectl kustomize {folder} | portcullis {reader}"
        )))
    }
}

/// Returns the inputs of these names. `reader` is the command, with the words by which it reads
/// standard input: `check -`.
///
/// # Errors
/// Standard input or a pipe that cannot be read, addresses, and no name beside a comma.
pub(crate) fn inputs(paths: &[PathBuf], reader: &str) -> anyhow::Result<Vec<Manifests>> {
    let paths: Vec<Vec<PathBuf>> =
        paths.iter().map(|path| each(path)).collect::<anyhow::Result<_>>()?;
    let paths = paths.concat();
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        bail!("`{STDIN}` is named twice: standard input can be read only once");
    }
    paths.iter().map(|path| input(path, reader)).collect()
}

/// The names between commas, as `kubectl` reads them, unless there is a file with the commas in its name.
fn each(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Some(text) = path.to_str().filter(|text| is_list(text) && !path.exists()) else {
        return Ok(vec![path.to_owned()]);
    };
    if text.split(',').any(str::is_empty) {
        bail!("`{text}` has a comma without a name beside it");
    }
    Ok(text.split(',').map(PathBuf::from).collect())
}

/// True for names with commas between them. An address may have commas of its own.
fn is_list(text: &str) -> bool {
    text.contains(',') && !text.contains("://")
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
