//! Files that a kustomization names: parts (patches, values, data of ConfigMaps), which look like manifests
//! and are none, and resources, which are manifests.

use policy_crds::document;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Lists whose elements are files, or have them in a field.
const PARTS: [(&str, &[&str]); 12] = [
    ("patches", &["path"]),
    ("patchesStrategicMerge", &[]),
    ("patchesJson6902", &["path"]),
    ("replacements", &["path"]),
    ("configurations", &[]),
    ("crds", &[]),
    ("configMapGenerator", &["files", "envs", "env"]),
    ("secretGenerator", &["files", "envs", "env"]),
    ("helmCharts", &["valuesFile", "additionalValuesFiles"]),
    ("helmChartInflationGenerator", &["values"]),
    ("transformers", &[]),
    ("generators", &[]),
];

/// The files that a kustomization names, as canonical paths.
#[derive(Debug, Default)]
pub(super) struct NamedFiles {
    /// Parts, at or below its own folder: a kustomization has no say about manifests elsewhere.
    pub(super) parts: Vec<PathBuf>,
    /// Resources, wherever they are.
    pub(super) resources: Vec<PathBuf>,
}

/// Returns the files that the kustomization `file` with this content names, as far as they exist.
pub(super) fn named_files(file: &Path, bytes: &[u8]) -> NamedFiles {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(folder) = folder.unwrap_or(Path::new(".")).canonicalize() else {
        return NamedFiles::default();
    };
    let documents = document::read_bytes(bytes);
    let values = documents.iter().filter_map(|document| document.value.as_ref().ok());
    let (mut found, mut resources) = (Vec::new(), Vec::new());
    for value in values {
        for (list, fields) in PARTS {
            let elements = value.get(list).and_then(Value::as_array).into_iter().flatten();
            found.extend(elements.flat_map(|element| names(element, fields)));
        }
        found.extend(value.pointer("/openapi/path").and_then(Value::as_str).map(str::to_owned));
        let listed = value.get("resources").and_then(Value::as_array).into_iter().flatten();
        resources.extend(listed.filter_map(Value::as_str).map(str::to_owned));
    }
    let existing = |name: &str| folder.join(name).canonicalize().ok().filter(|path| path.is_file());
    let parts = found.iter().filter_map(|name| existing(without_key(name)));
    NamedFiles {
        parts: parts.filter(|path| path.starts_with(&folder)).collect(),
        resources: resources.iter().filter_map(|name| existing(name)).collect(),
    }
}

/// The names in an element of a list: itself, or those in its fields.
fn names(element: &Value, fields: &[&str]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if fields.is_empty() {
        return text(element).into_iter().collect();
    }
    let values = fields.iter().filter_map(|field| element.get(field));
    let flat = values.flat_map(|value| match value.as_array() {
        Some(all) => all.iter().filter_map(text).collect(),
        None => text(value).into_iter().collect::<Vec<_>>(),
    });
    flat.collect()
}

/// The path in `KEY=PATH`, by which generators name the key of a file.
fn without_key(name: &str) -> &str {
    name.split_once('=').map_or(name, |(_, path)| path)
}
