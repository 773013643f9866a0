//! The images of this repository, made once from binaries of the sources as they are.

use super::super::cache::{cache, locked};
use super::super::programs::built_with_tests;
use super::definition::Node;
use crate::sources::root;
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The images that `images/build` makes.
const IMAGES: [&str; 4] = ["proxy", "controller", "init", "cli"];

/// Arguments of `images/build` that name its binaries: those that cargo built with the tests, unless
/// `PORTCULLIS_IMAGES_PROFILE` names a cargo profile to build them with. Empty: the profiles that ship, which
/// take minutes to build.
///
/// # Errors
/// If cargo has not built them.
pub fn binaries_of_images() -> Result<Vec<String>> {
    match std::env::var("PORTCULLIS_IMAGES_PROFILE") {
        Ok(profile) if profile.is_empty() => Ok(Vec::new()),
        Ok(profile) => Ok(vec!["--profile".to_owned(), profile]),
        Err(_) => {
            let proxy = built_with_tests("policy-proxy")?;
            let folder = proxy.parent().context("a binary is in a folder")?;
            Ok(vec!["--bin-dir".to_owned(), folder.display().to_string()])
        }
    }
}

/// Registry and folder of our images, before the image's name.
pub const REGISTRY: &str = "ghcr.io/portcullis";

/// Makes the archives of our images; minutes where their binaries are to be built.
///
/// # Errors
/// What the build says.
pub fn build_images() -> Result<Vec<PathBuf>> {
    if let Some(folder) = std::env::var_os("PORTCULLIS_IMAGES") {
        return Ok(IMAGES.map(|name| PathBuf::from(&folder).join(format!("{name}.tar"))).to_vec());
    }
    let _lock = locked("images.lock")?;
    let folder = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target).join("images"),
        None => cache()?.join("images"),
    };
    let status = Command::new(root().join("images/build"))
        .arg("--out")
        .arg(&folder)
        .args(binaries_of_images()?)
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("images/build")?;
    if !status.success() {
        bail!("images/build: {status}");
    }
    Ok(IMAGES.map(|name| folder.join(format!("{name}.tar"))).to_vec())
}

impl Node {
    /// Makes containerd know our images, built from the sources as they are.
    ///
    /// # Errors
    /// If they cannot be built or loaded.
    pub async fn load_our_images(&self) -> Result<()> {
        for archive in tokio::task::spawn_blocking(build_images).await?? {
            self.load(&archive)?;
        }
        Ok(())
    }
}
