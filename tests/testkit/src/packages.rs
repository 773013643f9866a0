//! The packages of Python and Node.js that tests need, as `make clients` installs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns a Python that can import grpcio and its tools.
///
/// # Panics
/// There is none.
pub fn python() -> PathBuf {
    let candidates = [
        std::env::var_os("PORTCULLIS_PYTHON").map(PathBuf::from),
        cache().map(|cache| cache.join("python/bin/python")),
        Some(PathBuf::from("python3")),
    ];
    let able = |python: &PathBuf| {
        let mut import = Command::new(python);
        import.args(["-c", "import grpc, grpc_tools"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    candidates.into_iter().flatten().find(able).expect(
        "no Python with grpcio and grpcio-tools was found: run `make clients` (or `make test`), \
         or set PORTCULLIS_PYTHON",
    )
}

/// Returns the folder of the packages of Node.js, grpc-js among them: what `NODE_PATH` is to be.
///
/// # Panics
/// There is none.
pub fn node_modules() -> PathBuf {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/node/node_modules");
    let candidates = [
        std::env::var_os("PORTCULLIS_NODE_MODULES").map(PathBuf::from),
        cache().map(|cache| cache.join("node/node_modules")),
        Some(PathBuf::from(example)),
    ];
    let able = |modules: &PathBuf| modules.join("@grpc/grpc-js").is_dir();
    candidates.into_iter().flatten().find(able).expect(
        "no Node.js packages were found: run `make clients` (or `make test`), or set \
         PORTCULLIS_NODE_MODULES",
    )
}

/// The folder of what tests have installed.
fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.map(|cache| cache.join("portcullis"))
}
