//! The programs of Kubernetes: named by the user, built before, or built now.

use super::cache::locked;
use super::go::Module;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Everything of Kubernetes itself, in one binary.
const KUBERNETES: Module = Module {
    what: "Kubernetes for tests (etcd, the control plane, a node's programs, kubectl)",
    folder: "tests/cluster",
    package: ".",
    binary: "cluster",
    called: &[
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "kubelet",
        "kubectl",
    ],
    version_of: Some("k8s.io/kubernetes"),
    minutes: 9,
};

const HELM: Module = Module {
    what: "helm for tests",
    folder: "tests/cluster/helm",
    package: "helm.sh/helm/v3/cmd/helm",
    binary: "helm",
    called: &[],
    version_of: None,
    minutes: 4,
};

const COREDNS: Module = Module {
    what: "CoreDNS for tests",
    folder: "tests/cluster/coredns",
    package: ".",
    binary: "coredns",
    called: &[],
    version_of: None,
    minutes: 3,
};

/// Argo CD's comparison of what is rendered with what an API server has.
const DRIFT: Module = Module {
    what: "Argo CD's comparison for tests",
    folder: "tests/cluster/drift",
    package: ".",
    binary: "drift",
    called: &[],
    version_of: None,
    minutes: 4,
};

/// Paths of the programs.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) folder: PathBuf,
}

impl Programs {
    pub(super) fn etcd(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub(super) fn api_server(&self) -> PathBuf {
        self.folder.join("kube-apiserver")
    }

    fn absent(&self) -> Option<PathBuf> {
        [self.etcd(), self.api_server()].into_iter().find(|path| !path.is_file())
    }
}

/// Builds the programs of the cluster and of a node if they are not there yet, and says where those
/// of the control plane are.
///
/// # Errors
/// [`Missing`](super::Missing) where neither the programs nor what builds them can be had; else why it failed.
pub fn prepare() -> Result<PathBuf> {
    let folder = find()?.folder;
    gateway_api_crds()?;
    for build in [kubectl, helm, coredns, drift] {
        build()?;
    }
    Ok(folder)
}

/// The control plane's programs; builds them if need be, which takes minutes the first time.
pub(super) fn find() -> Result<Programs> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let programs = Programs { folder: folder.into() };
        return match programs.absent() {
            Some(path) => bail!("KUBEBUILDER_ASSETS: there is no {}", path.display()),
            None => Ok(programs),
        };
    }
    kubernetes()
}

/// The programs of the control plane and of a node, all of one version; built if need be.
pub(super) fn kubernetes() -> Result<Programs> {
    Ok(Programs { folder: KUBERNETES.built()? })
}

/// `kubectl`, built if need be.
///
/// # Errors
/// [`Missing`](super::Missing) where it cannot be had; else why it cannot be built.
pub fn kubectl() -> Result<PathBuf> {
    Ok(KUBERNETES.built()?.join("kubectl"))
}

/// `helm`, built if need be.
///
/// # Errors
/// [`Missing`](super::Missing) where it cannot be had; else why it cannot be built.
pub fn helm() -> Result<PathBuf> {
    Ok(HELM.built()?.join("helm"))
}

/// CoreDNS, built if need be.
///
/// # Errors
/// [`Missing`](super::Missing) where it cannot be had; else why it cannot be built.
pub fn coredns() -> Result<PathBuf> {
    Ok(COREDNS.built()?.join("coredns"))
}

/// Argo CD's comparison, built if need be.
///
/// # Errors
/// [`Missing`](super::Missing) where it cannot be had; else why it cannot be built.
pub fn drift() -> Result<PathBuf> {
    Ok(DRIFT.built()?.join("drift"))
}

/// One at a time on a cluster that is not ours, over all test processes: held until dropped.
pub(super) fn turn() -> Result<File> {
    locked("cluster-under-test.lock")
}

/// Gateway API's definitions of the kinds we read, a file each, in a folder of their own.
///
/// # Errors
/// [`Missing`](super::Missing) where they cannot be had; else why they cannot be fetched.
pub fn gateway_api_crds() -> Result<Vec<PathBuf>> {
    let names = ["grpcroutes", "httproutes", "referencegrants"];
    let folder = KUBERNETES.output()?.join("gateway-api");
    let files = names.map(|name| folder.join(format!("{name}.yaml")));
    if !files.iter().all(|file| file.is_file()) {
        let _lock = locked("cluster.lock")?;
        let module = "sigs.k8s.io/gateway-api";
        KUBERNETES.go(&["mod", "download", module])?;
        let found = KUBERNETES.go(&["list", "-m", "-f", "{{.Dir}}", module])?;
        fs::create_dir_all(&folder)?;
        for (name, file) in names.iter().zip(&files) {
            let source = Path::new(found.trim())
                .join(format!("config/crd/standard/gateway.networking.k8s.io_{name}.yaml"));
            // The module cache is read-only, which a copied file would be as well.
            let text = fs::read(&source).with_context(|| source.display().to_string())?;
            fs::write(file, text)?;
        }
    }
    Ok(files.to_vec())
}

/// The module with SMI's definitions as clusters have them, those of Open Service Mesh, and the hash of its
/// content as Go's checksum database has it.
const SMI: (&str, &str) =
    ("github.com/openservicemesh/osm@v1.2.4", "h1:WBSoLWehnxedIxXHysKOR49DQVbGLW5qBdh6UD8NAUA=");

/// The definitions of SMI's kinds, a file each. No release of a mesh had one of IdentityBinding, a draft: its
/// definition is one without a schema.
///
/// # Errors
/// [`Missing`](super::Missing) where they cannot be had; else why they cannot be fetched.
pub fn smi_crds() -> Result<Vec<PathBuf>> {
    let names = ["traffic_access", "http_route_group", "tcp_route"];
    let folder = KUBERNETES.output()?.join("smi");
    let files = names.map(|name| folder.join(format!("{name}.yaml")));
    if !files.iter().all(|file| file.is_file()) {
        let _lock = locked("cluster.lock")?;
        let (module, sum) = SMI;
        let found = KUBERNETES.go_outside(&["mod", "download", "-json", module])?;
        let found: serde_json::Value = serde_json::from_str(&found)?;
        anyhow::ensure!(found["Sum"] == sum, "{module} is another one: {found}");
        let source = Path::new(found["Dir"].as_str().unwrap_or_default());
        fs::create_dir_all(&folder)?;
        for (name, file) in names.iter().zip(&files) {
            let source = source.join(format!("cmd/osm-bootstrap/crds/smi_{name}.yaml"));
            let text = fs::read(&source).with_context(|| source.display().to_string())?;
            fs::write(file, text)?;
        }
    }
    let draft = crate::sources::root().join("tests/tests/cluster/smi/identitybindings.yaml");
    Ok(files.into_iter().chain([draft]).collect())
}

/// The controller's binary, built by cargo beside the test that runs.
pub(super) fn controller() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PORTCULLIS_CONTROLLER") {
        return Ok(named.into());
    }
    built_with_tests("policy-controller-under-test")
}

/// A binary that cargo built with the tests: in the folder of the running program, which is a binary itself, or
/// in the one above, because programs of tests are in `deps`.
pub(super) fn built_with_tests(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let mut found = program.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    found.find(|path| path.is_file()).with_context(|| {
        let program = program.display();
        format!("there is no {name} beside {program}: `cargo test --workspace --no-run` builds it")
    })
}

#[cfg(test)]
mod tests {
    use super::super::cache::cache;
    use super::super::process::Home;
    use super::*;

    #[test]
    fn a_folder_without_the_programs_is_told_by_the_one_that_is_missing() {
        let home = Home::new().unwrap();
        let programs = Programs { folder: home.path().to_owned() };
        assert_eq!(programs.absent(), Some(home.path().join("etcd")));
        fs::write(programs.etcd(), "").unwrap();
        assert_eq!(programs.absent(), Some(home.path().join("kube-apiserver")));
    }

    #[test]
    fn what_is_built_is_kept_by_its_sources() {
        let [kubernetes, helm, coredns] =
            [KUBERNETES, HELM, COREDNS].map(|module| module.output().unwrap());
        assert_eq!(KUBERNETES.output().unwrap(), kubernetes);
        assert!(kubernetes.starts_with(cache().unwrap()));
        assert!(kubernetes != helm && helm != coredns && coredns != kubernetes);
    }
}
