//! The images of this repository, made once from optimised binaries of the sources as they are.

use super::super::cache::{cache, locked};
use super::definition::Node;
use crate::sources::root;
use anyhow::{Context as _, Result, bail};
use policy_testkit::say;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The images that `images/build` makes.
const IMAGES: [&str; 4] = ["proxy", "controller", "init", "cli"];

/// The cargo profile of the binaries: that of the tests, unless `PORTCULLIS_IMAGES_PROFILE` names
/// another one. Empty: those that ship, which take minutes more to build.
pub fn images_profile() -> Vec<String> {
    match std::env::var("PORTCULLIS_IMAGES_PROFILE") {
        Ok(profile) if profile.is_empty() => Vec::new(),
        Ok(profile) => vec!["--profile".to_owned(), profile],
        Err(_) => vec!["--profile".to_owned(), "release".to_owned()],
    }
}

/// Registry and folder of our images, before the image's name.
pub const REGISTRY: &str = "ghcr.io/portcullis";

/// Makes the archives of our images; seconds where nothing changed, minutes after a change.
///
/// # Errors
/// What the build says.
pub fn build_images() -> Result<Vec<PathBuf>> {
    if let Some(folder) = std::env::var_os("PORTCULLIS_IMAGES") {
        return Ok(IMAGES.map(|name| PathBuf::from(&folder).join(format!("{name}.tar"))).to_vec());
    }
    let _lock = locked("images.lock")?;
    say("images for tests: building the binaries, minutes after a change");
    let folder = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target).join("images"),
        None => cache()?.join("images"),
    };
    let status = Command::new(root().join("images/build"))
        .arg("--out")
        .arg(&folder)
        .args(images_profile())
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
