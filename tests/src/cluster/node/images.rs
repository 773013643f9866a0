//! Images made here: archives as `docker save` writes them, which containerd imports by name.

use super::sandbox::run;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The image that holds a pod's namespaces.
pub(super) const PAUSE: &str = "portcullis.test/pause:1";

/// A shell with busybox' tools, `curl` and `wrk`.
pub const TOOLS: &str = "portcullis.test/tools:1";

/// Programs of TOOLS beside busybox, whose statically linked `wget` resolves no names.
const PROGRAMS: [&str; 2] = ["/usr/bin/curl", "/usr/bin/wrk"];

/// Sleeps until it is asked to end, and collects the pod's orphans.
const PAUSE_SOURCE: &str = "
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int signal) { (void)signal; _exit(0); }
static void collect(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) {
    signal(SIGINT, end);
    signal(SIGTERM, end);
    signal(SIGCHLD, collect);
    for (;;) pause();
}
";

/// The archive of the image `name`, whose files are those of `tree` and whose process is `command`.
fn archive(folder: &Path, name: &str, tree: &Path, command: &[&str]) -> Result<PathBuf> {
    let layer = folder.join("layer.tar");
    let owner = ["--owner=0", "--group=0", "--numeric-owner"];
    run(Command::new("tar").arg("-C").arg(tree).args(owner).arg("-cf").arg(&layer).arg("."))?;
    let sum = run(Command::new("sha256sum").arg(&layer))?;
    let digest = sum.split_whitespace().next().context("sha256sum says nothing")?;
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    fs::write(folder.join("config.json"), serde_json::to_vec(&config)?)?;
    fs::write(folder.join("manifest.json"), serde_json::to_vec(&manifest)?)?;
    let archive = folder.join("image.tar");
    run(Command::new("tar").arg("-C").arg(folder).arg("-cf").arg(&archive).args([
        "manifest.json",
        "config.json",
        "layer.tar",
    ]))?;
    Ok(archive)
}

/// The image of the process that holds a pod's namespaces.
pub(super) fn pause(folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    fs::create_dir_all(&tree)?;
    let source = folder.join("pause.c");
    fs::write(&source, PAUSE_SOURCE)?;
    run(Command::new("cc")
        .args(["-O", "-static", "-s", "-o"])
        .arg(tree.join("pause"))
        .arg(source))?;
    archive(folder, PAUSE, &tree, &["/pause"])
}

/// The image with a shell and clients.
pub(super) fn tools(folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    for name in ["bin", "etc", "tmp", "root", "www"] {
        fs::create_dir_all(tree.join(name))?;
    }
    fs::write(tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    copy(Path::new("/bin/busybox"), &tree.join("bin/busybox"))?;
    for applet in run(Command::new("/bin/busybox").arg("--list"))?.lines() {
        if applet != "busybox" && applet != "wget" {
            symlink("busybox", tree.join("bin").join(applet))?;
        }
    }
    for program in PROGRAMS.map(Path::new) {
        copy(program, &tree.join("bin").join(program.file_name().context("a file")?))?;
        for line in run(Command::new("ldd").arg(program))?.lines() {
            // `name => path (address)`, or the path alone; what the kernel provides has none.
            if let Some(path) = line.split_whitespace().find(|word| word.starts_with('/')) {
                copy(Path::new(path), &tree.join(path.trim_start_matches('/')))?;
            }
        }
    }
    archive(folder, TOOLS, &tree, &["/bin/sh"])
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}
