//! The images: what is in them, who they run as, that they run, and that they are always the same.

use policy_tests::cluster::node::binaries_of_images;
use policy_tests::cluster::skip;
use policy_tests::sources::root;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

const IMAGES: [&str; 4] = ["proxy", "controller", "init", "cli"];
/// Of proxy and controller, as they are pulled and as they lie on a node's disk: of those that ship, and of
/// those of the tests, which are not optimised.
const LIMIT: u64 = 25_000_000;
const LIMIT_OF_TESTS: u64 = 150_000_000;

fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// One after the other: cargo would wait for itself anyway.
static BUILDING: Mutex<()> = Mutex::new(());

/// `images/build`, from binaries of these sources as the tests in pods run them, or from those in the
/// folder that `PORTCULLIS_BINARIES` names.
fn build(arguments: &[&str]) -> String {
    let _one = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(root().join("images/build"));
    if let Some(binaries) = std::env::var_os("PORTCULLIS_BINARIES") {
        command.arg("--bin-dir").arg(binaries);
    } else {
        command.args(binaries_of_images().unwrap());
    }
    succeeded(
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap(),
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// All four, made once and kept until this process ends.
static MADE: LazyLock<(TempDir, BTreeMap<String, Value>)> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let said = build(&["--out", text(folder.path())]);
    let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named = |line: Value| {
        let name = line["image"].as_str().unwrap();
        let name = name.strip_prefix("ghcr.io/portcullis/").unwrap();
        (name.split_once(':').unwrap().0.to_owned(), line.clone())
    };
    (folder, lines.map(named).collect())
});

/// True if the needed programs are here; if not, the test returns and has been counted as skipped.
fn needs(programs: &[&str]) -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    let root = *ROOT
        .get_or_init(|| succeeded(Command::new("id").arg("-u").output().unwrap()).trim() == "0");
    let there = |program: &str| {
        ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(program).exists())
    };
    let mut missing: Vec<&str> = programs.iter().copied().filter(|name| !there(name)).collect();
    missing.extend((!root).then_some("root"));
    if !missing.is_empty() {
        skip(&format!("missing: {}", missing.join(", ")));
    }
    missing.is_empty()
}

const TOOLS: [&str; 7] = ["strip", "nft", "iptables", "tar", "chroot", "unshare", "dpkg-query"];

/// An image, unpacked.
struct Image {
    folder: TempDir,
    config: Value,
    layers: Vec<PathBuf>,
}

impl Image {
    fn of(archive: &Path) -> Self {
        // Its files' owners and modes are looked at, and other users run them.
        let folder = tempfile::Builder::new().prefix("image").tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        untar(archive, folder.path());
        let blob = |entry: &Value| {
            let digest = entry["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let path = folder.path().join("blobs/sha256").join(digest);
            let sum = succeeded(Command::new("sha256sum").arg(&path).output().unwrap());
            assert!(sum.starts_with(digest), "{sum}");
            assert_eq!(entry["size"], fs::metadata(&path).unwrap().len());
            path
        };
        let json =
            |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
        let index = json(folder.path().join("index.json"));
        let manifest = json(blob(&index["manifests"][0]));
        let config = json(blob(&manifest["config"]));
        let layers: Vec<PathBuf> =
            manifest["layers"].as_array().unwrap().iter().map(blob).collect();
        let image = Self { config, layers, folder };
        fs::create_dir(image.root()).unwrap();
        for layer in &image.layers {
            untar(layer, &image.root());
        }
        image
    }

    fn made(name: &str) -> Self {
        Self::of(&MADE.0.path().join(format!("{name}.tar")))
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn settings(&self) -> &Value {
        &self.config["config"]
    }

    /// Every path but folders, with its mode, owner and group.
    fn files(&self) -> BTreeMap<String, String> {
        let mut find = Command::new("find");
        find.arg(self.root()).args(["!", "-type", "d", "-printf", "%P\t%y %m %U:%G\\n"]);
        let listed = succeeded(find.output().unwrap());
        let pair = |line: &str| {
            let (path, facts) = line.split_once('\t').unwrap();
            (path.to_owned(), facts.to_owned())
        };
        listed.lines().map(pair).collect()
    }

    /// The image's program, in its file system, as its user, with its environment, and in a network
    /// of its own.
    fn run(&self, arguments: &[&str]) -> Output {
        let settings = self.settings();
        let root = self.root();
        for folder in ["proc", "dev/shm"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let entry = settings["Entrypoint"][0].as_str().unwrap();
        let user = settings["User"].as_str().unwrap();
        let script = "mount -t proc proc \"$1/proc\" && shift && exec \"$@\"";
        let userspec = format!("--userspec={user}");
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--net", "--mount", "/bin/sh", "-c", script, "sh", text(&root)]);
        command.args(["/usr/sbin/chroot", &userspec, text(&root), entry]).args(arguments);
        command.env_clear();
        for variable in settings["Env"].as_array().unwrap() {
            let (name, value) = variable.as_str().unwrap().split_once('=').unwrap();
            command.env(name, value);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }
}

fn untar(archive: &Path, folder: &Path) {
    let mut tar = Command::new("tar");
    let tar = tar.args(["--extract", "--same-owner", "--same-permissions", "--file"]).arg(archive);
    succeeded(tar.arg("--directory").arg(folder).output().unwrap());
}

#[test]
fn proxy_and_controller_are_small_and_what_is_said_of_their_sizes_is_so() {
    if !needs(&TOOLS) {
        return;
    }
    let ships = binaries_of_images().unwrap().is_empty();
    let limit = if ships { LIMIT } else { LIMIT_OF_TESTS };
    for (name, said) in &MADE.1 {
        let image = Image::made(name);
        let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let pulled: u64 = image.layers.iter().map(size).sum();
        assert_eq!(said["compressed"], pulled);
        let unpacked = said["uncompressed"].as_u64().unwrap();
        println!("{name}: {pulled} bytes pulled, {unpacked} unpacked");
        if ["proxy", "controller"].contains(&name.as_str()) {
            assert!(pulled < unpacked && unpacked < limit, "{name}: {said}");
        }
    }
    assert_eq!(MADE.1.len(), IMAGES.len());
}

#[test]
fn images_run_one_program_as_a_user_without_rights_save_init() {
    if !needs(&TOOLS) {
        return;
    }
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    for (name, user, program, arguments) in [
        ("proxy", "2102:2102", "/usr/bin/policy-proxy", Some("run")),
        ("controller", "65532:65532", "/usr/bin/policy-controller", Some("run")),
        ("init", "0:0", "/usr/bin/policy-proxy", Some("redirect")),
        ("cli", "65532:65532", "/usr/bin/portcullis", None),
    ] {
        let image = Image::made(name);
        let settings = image.settings();
        assert_eq!(settings["User"], user, "{name}");
        assert_eq!(settings["Entrypoint"], serde_json::json!([program]), "{name}");
        let arguments = arguments.map_or(Value::Null, |argument| serde_json::json!([argument]));
        assert_eq!(settings["Cmd"], arguments, "{name}");
        assert_eq!(image.config["os"], "linux");
        assert_eq!(image.config["architecture"], architecture);
        let label = |label: &str| &settings["Labels"][format!("org.opencontainers.image.{label}")];
        assert_eq!(label("title"), &format!("portcullis-{name}"));
        assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
        assert_eq!(label("licenses"), "Apache-2.0");
        let output = succeeded(image.run(&["--version"]));
        let binary = program.rsplit('/').next().unwrap();
        assert_eq!(output.trim(), format!("{binary} {}", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn there_is_no_shell_and_nothing_but_what_the_program_needs() {
    if !needs(&TOOLS) {
        return;
    }
    for (name, programs) in [
        ("proxy", vec!["usr/bin/policy-proxy"]),
        ("controller", vec!["usr/bin/policy-controller"]),
        (
            "init",
            vec![
                "usr/bin/policy-proxy",
                "usr/sbin/nft",
                "usr/sbin/xtables-legacy-multi",
                "usr/sbin/xtables-nft-multi",
            ],
        ),
        ("cli", vec!["usr/bin/portcullis"]),
    ] {
        let files = Image::made(name).files();
        let library = |path: &str| path.starts_with("usr/lib");
        let data = |path: &str| {
            ["etc/", "usr/share/doc/", "var/lib/dpkg/status.d/"]
                .iter()
                .any(|at| path.starts_with(at))
        };
        let found: Vec<&str> = files
            .iter()
            .filter(|(path, facts)| facts.starts_with('f') && !library(path) && !data(path))
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(found, programs, "{name}");
        for (path, facts) in &files {
            // No more rights than everybody's, nobody's but root's, and nothing but files and links.
            let usual = match facts.as_str() {
                "f 755 0:0" => !data(path),
                "f 644 0:0" => data(path) || library(path),
                "l 777 0:0" => true,
                _ => false,
            };
            assert!(usual, "{name}: {path}: {facts}");
        }
        let licences = files.keys().filter(|path| path.ends_with("/copyright")).count();
        assert!(licences > 0 && files.contains_key("usr/share/doc/portcullis/LICENSE"), "{name}");
    }
}

#[test]
fn init_redirects_with_each_of_the_tools_it_holds() {
    if !needs(&TOOLS) {
        return;
    }
    let image = Image::made("init");
    let said = succeeded(image.run(&["redirect", "--skip-inbound-ports", "25,8000-8010"]));
    assert!(said.ends_with("25,4143,4191,8000-8010, written with nft\n"), "{said}");
    let said = succeeded(image.run(&["redirect", "--mode", "iptables"]));
    assert!(said.ends_with("written with iptables\n"), "{said}");
    // As on a kernel without nf_tables.
    for program in ["nft", "xtables-nft-multi"] {
        fs::remove_file(image.root().join("usr/sbin").join(program)).unwrap();
    }
    let said = succeeded(image.run(&["redirect"]));
    assert!(said.ends_with("written with iptables-legacy\n"), "{said}");
}

#[test]
fn the_same_binaries_give_the_same_bytes() {
    if !needs(&TOOLS) {
        return;
    }
    let again = TempDir::new().unwrap();
    let two = ["proxy", "init"];
    build(&["--out", text(again.path()), two[0], two[1]]);
    for name in two {
        let read = |folder: &TempDir| fs::read(folder.path().join(format!("{name}.tar"))).unwrap();
        assert!(read(&MADE.0) == read(&again), "{name}");
    }
    let named = TempDir::new().unwrap();
    let said =
        build(&["--out", text(named.path()), "--tag", "x", "--registry", "reg.example", "proxy"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["image"], "reg.example/proxy:x");
    assert_ne!(said["digest"], MADE.1["proxy"]["digest"], "the version is a label");
}

#[test]
fn what_cannot_be_built_is_refused_with_what_is_allowed() {
    if !needs(&TOOLS) {
        return;
    }
    let refused = |arguments: &[&str]| {
        let output = Command::new(root().join("images/build")).args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = TempDir::new().unwrap();
    let out = text(folder.path());
    assert!(
        refused(&["--out", out, "sidecar"])
            .contains("`sidecar`: expected proxy, controller, init, cli")
    );
    assert!(refused(&["proxy"]).contains("--out or --stage must be given"));
    assert!(refused(&["--out", out, "--tag", "a b", "proxy"]).contains("--tag: `a b`: expected"));
    let said = refused(&["--out", out, "--bin-dir", out, "proxy"]);
    assert!(said.contains("policy-proxy: not built"), "{said}");
    fs::write(folder.path().join("policy-proxy"), "#!/bin/sh\n").unwrap();
    assert!(!refused(&["--out", out, "--bin-dir", out, "proxy"]).is_empty());
    assert!(!folder.path().join("proxy.tar").exists());
}

/// The Containerfile and the script say the same.
#[test]
fn buildah_makes_the_same_images_of_the_containerfile() {
    if !needs(&TOOLS) || !needs(&["buildah"]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let stage = folder.path().join("stage");
    build(&["--stage", text(&stage)]);
    let storage = |name: &str| folder.path().join(name);
    let buildah = |arguments: &[&str]| {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(storage("root")).arg("--runroot").arg(storage("run"));
        command.args(["--storage-driver", "vfs"]).args(arguments);
        succeeded(command.stdin(Stdio::null()).output().unwrap())
    };
    let file = root().join("images/Containerfile");
    let version = concat!("VERSION=", env!("CARGO_PKG_VERSION"));
    for name in IMAGES {
        let tag = format!("localhost/{name}:built");
        let options = ["build", "--quiet", "--isolation", "chroot", "--format", "oci"];
        let build = ["--file", text(&file), "--build-arg", version, "--target", name];
        buildah(&[&options[..], &build[..], &["--tag", &tag, text(&stage)]].concat());
        let archive = storage(&format!("{name}.tar"));
        buildah(&["push", "--quiet", &tag, &format!("oci-archive:{}", text(&archive))]);
        let (built, made) = (Image::of(&archive), Image::made(name));
        assert_eq!(built.files(), made.files(), "{name}");
        for field in ["User", "Entrypoint", "Cmd", "Env"] {
            assert_eq!(built.settings()[field], made.settings()[field], "{name}: {field}");
        }
        let mut labels = built.settings()["Labels"].clone();
        labels.as_object_mut().unwrap().remove("io.buildah.version");
        assert_eq!(labels, made.settings()["Labels"], "{name}");
        let same =
            Command::new("diff").arg("-r").args([built.root(), made.root()]).output().unwrap();
        succeeded(same);
    }
}
