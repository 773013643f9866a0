//! A published document of thirteen megabytes, there and back: the API of GitHub in the npm package
//! `@octokit/openapi`, which is never kept here.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

use policy_import::{Fidelity, GroupChoice, ImportFile, difference, open_api};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "@octokit/openapi@23.0.2";
const INTEGRITY: &str = "sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==";
const DOCUMENT: &str = "package/generated/api.github.com.json";

/// The document, from the package of this hash. npm keeps what it has downloaded.
fn document() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut npm = Command::new("npm");
    npm.args(["pack", "--json", "--prefer-offline", "--loglevel=error", PACKAGE]);
    let output = npm.current_dir(folder.path()).output();
    let output = output.unwrap_or_else(|error| panic!("npm is needed: {error}"));
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(found[0]["integrity"], INTEGRITY, "{found}");
    let mut tar = Command::new("tar");
    let archive = folder.path().join(found[0]["filename"].as_str().unwrap());
    let output = tar.arg("-xzOf").arg(archive).arg(DOCUMENT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The time that this thread has had a processor, whatever else the machine does.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The object at the end of references.
fn resolved<'a>(document: &'a Value, mut node: &'a Value) -> &'a Value {
    while let Some(address) = node["$ref"].as_str() {
        node = document.pointer(address.strip_prefix('#').unwrap()).unwrap();
    }
    node
}

/// An operation: its method, its path, and the values of path parameters that are listed.
struct Operation {
    method: String,
    path: String,
    listed: BTreeMap<String, BTreeSet<String>>,
}

impl Operation {
    /// True if a route describes requests of this operation and no others: a parameter is any segment, or one
    /// of its values.
    fn contains(&self, method: &str, path: &str) -> bool {
        let (own, other): (Vec<&str>, Vec<&str>) =
            (self.path.split('/').collect(), path.split('/').collect());
        let segment = |(own, other): (&&str, &&str)| match own
            .strip_prefix('{')
            .and_then(|it| it.strip_suffix('}'))
        {
            Some(name) => {
                other.starts_with(':')
                    || self.listed.get(name).is_some_and(|values| values.contains(*other))
            }
            None => own == other,
        };
        method == self.method && own.len() == other.len() && own.iter().zip(&other).all(segment)
    }
}

fn operations(document: &Value) -> BTreeMap<String, Operation> {
    let mut operations = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "delete", "options", "head", "patch", "trace"] {
            let Some(operation) = item.get(method) else { continue };
            let own = operation["parameters"].as_array().into_iter().flatten();
            let of_path = item["parameters"].as_array().into_iter().flatten();
            let mut listed = BTreeMap::new();
            for parameter in of_path.chain(own).map(|it| resolved(document, it)) {
                let values = resolved(document, &parameter["schema"])["enum"].as_array();
                if let (Some(values), true) = (values, parameter["in"] == "path") {
                    let values = values.iter().map(|it| it.as_str().unwrap().to_owned());
                    let name = parameter["name"].as_str().unwrap().to_owned();
                    listed.insert(name, values.collect());
                }
            }
            let id = operation["operationId"].as_str().unwrap().to_owned();
            let own = Operation { method: method.to_uppercase(), path: path.clone(), listed };
            assert!(operations.insert(id, own).is_none());
        }
    }
    operations
}

#[test]
fn the_api_of_github_is_imported_and_nothing_is_widened() {
    let bytes = document();
    let api: Value = serde_json::from_slice(&bytes).unwrap();
    let operations = operations(&api);
    assert!(operations.len() > 1000, "{}", operations.len());
    let began = processor_time();
    let file = ImportFile::read("api.github.com.json", &bytes).unwrap();
    let imported = open_api(&file, &GroupChoice::default()).unwrap();
    let took = processor_time() - began;
    // Three megabytes a second, of code that is not optimised.
    let most = Duration::from_secs_f64(bytes.len() as f64 / 3e6);
    assert!(took < most, "{took:?} for {} bytes, at most {most:?}", bytes.len());

    let mut described = BTreeSet::new();
    for route in imported.values().flat_map(|group| group["spec"]["routes"].as_array().unwrap()) {
        let id = route["labels"]["operation"].as_str().unwrap();
        let (method, path) =
            (route["methods"][0].as_str().unwrap(), route["path"].as_str().unwrap());
        assert!(operations[id].contains(method, path), "{id}: {method} {path}");
        described.insert(id.to_owned());
    }
    // What is not described is listed, with its line and the reason.
    let missing: BTreeSet<String> = operations
        .iter()
        .filter(|(id, _)| !described.contains(*id))
        .map(|(_, own)| format!("{} {}", own.method, own.path))
        .collect();
    let omitted = imported.rows.iter().filter(|row| row.fidelity == Fidelity::Omitted);
    let omitted: BTreeSet<String> = omitted
        .filter(|row| {
            operations.values().any(|own| row.subject == format!("{} {}", own.method, own.path))
        })
        .map(|row| {
            let place = row.place.as_ref().unwrap();
            assert!(place.line > 1 && !row.note.is_empty(), "{row:?}");
            row.subject.clone()
        })
        .collect();
    assert_eq!(missing, omitted);
    assert_eq!(
        missing,
        BTreeSet::from(["GET /repos/{owner}/{repo}/compare/{base}...{head}".to_owned()])
    );

    // The same document adds and removes nothing; one without an operation is told by that alone.
    let former = ImportFile::read("former.yaml", imported.yaml().as_bytes()).unwrap();
    assert_eq!(difference(std::slice::from_ref(&former), &imported), Vec::<String>::new());
    let mut fewer = api.clone();
    fewer["paths"].as_object_mut().unwrap().remove("/meta").unwrap();
    let fewer = ImportFile::read("fewer.json", fewer.to_string().as_bytes()).unwrap();
    let fewer = open_api(&fewer, &GroupChoice::default()).unwrap();
    let lines = difference(&[former], &fewer);
    assert!(lines.iter().any(|line| line.starts_with("- ") && line.contains("/meta")), "{lines:?}");
}
