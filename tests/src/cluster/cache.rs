//! The folder of what is built once, and who may write to it.

use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::PathBuf;

/// The folder in the user's cache.
pub(super) fn cache() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.map(PathBuf::from).or_else(home);
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("portcullis"))
}

/// A lock over all processes, until the file is dropped.
pub(super) fn locked(name: &str) -> Result<File> {
    let cache = cache()?;
    fs::create_dir_all(&cache)?;
    let file = File::create(cache.join(name))?;
    file.lock()?;
    Ok(file)
}
