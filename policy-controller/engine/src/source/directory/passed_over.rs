//! Sources of Helm and of kustomize among manifests. They become manifests once these tools render
//! them, so that they are passed over with a note.

use policy_crds::document;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that makes its folder a chart.
const CHART: &str = "Chart.yaml";

/// Files that kustomize reads.
const KUSTOMIZATIONS: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// API group of kustomize's own kinds.
const KUSTOMIZE: &str = "kustomize.config.k8s.io/";

/// Folder of a chart's templates.
const TEMPLATES: &str = "templates";

/// A file that is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PassedOver<'a> {
    /// A part of the chart in this folder.
    Chart(&'a Path),
    /// A kustomization.
    Kustomization,
}

/// Returns why a file is passed over; `None` if it is to be read. `chart` is the folder of the chart
/// around it. Documents with `apiVersion` and `kind` are always read, except kustomize's own kinds and
/// templates.
pub(super) fn passed_over<'a>(
    path: &Path,
    bytes: &[u8],
    chart: Option<&'a Path>,
) -> Option<PassedOver<'a>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if KUSTOMIZATIONS.contains(&name) && !holds_objects(bytes) {
        return Some(PassedOver::Kustomization);
    }
    let chart = chart?;
    let is_template = is_below_templates(path, chart) && contains(bytes, b"{{");
    let is_part = is_template || (is_part_of_chart(name) && !holds_objects(bytes));
    is_part.then_some(PassedOver::Chart(chart))
}

/// True if a folder is a chart.
pub(super) fn is_chart(folder: &Path) -> bool {
    folder.join(CHART).is_file()
}

/// Returns the outermost chart that a file or folder is a part of: an input may be the templates or the
/// values alone.
pub(super) fn chart_around(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let is_part = |folder: &&Path| {
        let below = path.strip_prefix(folder).ok();
        let first = below.and_then(|below| below.components().next());
        let first = first.map(|first| first.as_os_str().to_owned()).unwrap_or_default();
        let is_direct = path.parent() == Some(*folder) && path.is_file();
        (is_direct || first == TEMPLATES || first == "charts") && is_chart(folder)
    };
    path.ancestors().skip(1).filter(is_part).last().map(Path::to_owned)
}

/// True if a file is below the templates of its chart, or of a chart in that, as it is named or as it
/// is linked to.
fn is_below_templates(path: &Path, chart: &Path) -> bool {
    let is_below = |path: &Path, chart: &Path| {
        let folders = path.strip_prefix(chart).ok().and_then(Path::parent);
        folders.is_some_and(|folders| folders.iter().any(|part| part == TEMPLATES))
    };
    let canonical = |path: &Path| fs::canonicalize(path).unwrap_or_default();
    is_below(path, chart) || is_below(&canonical(path), &canonical(chart))
}

/// True for the files beside the templates that Helm reads.
fn is_part_of_chart(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    [CHART, "requirements.yaml"].contains(&name)
        || stem.split(['-', '.', '_']).any(|word| word == "values")
}

/// True if there is an object that is not kustomize's.
fn holds_objects(bytes: &[u8]) -> bool {
    let documents = document::read_bytes(bytes);
    documents.iter().filter_map(|document| document.value.as_ref().ok()).any(|value| {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let api_version = text("apiVersion").filter(|version| !version.starts_with(KUSTOMIZE));
        api_version.is_some() && text("kind").is_some()
    })
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Returns the note about a chart.
pub(super) fn chart_note(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "a Helm chart: its values and templates are passed over; `helm template {folder}` renders them"
    )
}

/// The note about a file that a kustomization has as a part.
pub(super) const PART_NOTE: &str = "a part of a kustomization (a patch, values or data) is passed over; \
                                    list it under `resources` there if it is a manifest";

/// Returns the note about a kustomization.
pub(super) fn kustomization_note(file: &Path) -> String {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).display();
    format!(
        "a kustomization is passed over; `kustomize build {folder}` or `kubectl kustomize {folder}` \
         renders it"
    )
}
