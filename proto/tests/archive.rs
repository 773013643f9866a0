//! The archive of the published files.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn archive(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let made = Command::new(here().join("archive")).arg(&file).status().unwrap();
    assert!(made.success());
    file
}

/// The `.proto` files below a folder, by their names from there.
fn files(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|end| end == "proto") {
            let name = path.strip_prefix(here()).unwrap();
            into.insert(format!("policy-api/{}", name.display()));
        }
    }
}

#[test]
fn the_archive_has_every_published_file_and_the_same_bytes_each_time() {
    let (one, other) = (archive("one.tar.gz"), archive("other.tar.gz"));
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap());
    let listed = Command::new("tar").arg("tzf").arg(&one).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed: BTreeSet<_> =
        listed.lines().filter(|name| !name.ends_with('/')).map(str::to_owned).collect();
    let mut expected =
        BTreeSet::from(["LICENSE", "buf.yaml"].map(|name| format!("policy-api/{name}")));
    files(here(), &mut expected);
    // gRPC publishes its services itself; here they are for reflection.
    expected.retain(|name| !name.starts_with("policy-api/grpc/"));
    assert_eq!(listed, expected);
}
