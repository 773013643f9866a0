//! Output of versions: a table for people, fields for programs.

use super::pod_version::{of_control_plane, of_sidecar};
use super::skew::Skew;
use crate::cluster::QuerySource;
use crate::output::{self, Paint};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The version of this program.
pub(crate) const CLIENT: &str = env!("CARGO_PKG_VERSION");

/// Result of `portcullis version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionReport {
    /// The cluster; `None` if none was read.
    #[serde(rename = "asked")]
    pub(crate) source: Option<QuerySource>,
    /// The version of this program.
    pub(crate) client: String,
    /// Running versions, by component.
    pub(crate) running: Vec<ComponentVersion>,
    /// Reasons for what could not be read.
    pub(crate) not_known: Vec<String>,
}

/// Pods of one component and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComponentVersion {
    /// `controller`, `issuer` or `sidecar`.
    pub(crate) component: &'static str,
    /// The version; `None` if unknown.
    pub(crate) version: Option<String>,
    /// Number of pods.
    pub(crate) pods: usize,
    /// Skew against the controller's version.
    pub(crate) skew: Skew,
    /// Some of these pods, `NAMESPACE/NAME`.
    pub(crate) some: Vec<String>,
}

/// Maximum number of pods named per version.
const MAX_NAMES: usize = 3;

impl VersionReport {
    /// Report without a cluster.
    pub(crate) fn of_client() -> Self {
        Self { source: None, client: CLIENT.to_owned(), running: Vec::new(), not_known: Vec::new() }
    }

    /// The table.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = match &self.source {
            Some(source) => format!("{}\n\n", paint.dim(&source.to_string())),
            None => String::new(),
        };
        let client = ["client".to_owned(), CLIENT.to_owned(), String::new(), String::new()];
        let rows = self.running.iter().map(row);
        let header = ["COMPONENT", "VERSION", "PODS", "NOTE"];
        let rows = std::iter::once(client).chain(rows);
        text.push_str(&output::table_within(output::width(), header, rows));
        for unknown in &self.not_known {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", paint.notice(&format!("not known: {unknown}")));
        }
        text
    }
}

fn row(running: &ComponentVersion) -> [String; 4] {
    let ComponentVersion { component, version, pods, skew, some } = running;
    let note = match skew.words() {
        "" => String::new(),
        words => format!("{words}: {}", shown(some, *pods)),
    };
    let version = version.clone().unwrap_or_else(|| "not known".to_owned());
    [(*component).to_owned(), version, pods.to_string(), note]
}

/// The first names of a list, and the number of the others.
pub(crate) fn shown(some: &[String], all: usize) -> String {
    let more = all.saturating_sub(some.len());
    let names = some.join(", ");
    if more == 0 { names } else { format!("{names} and {more} more") }
}

/// Reference version: that of the controller, if all its pods have the same.
pub(crate) fn controller_version(pods: &[Value]) -> Option<String> {
    let mut versions = pods.iter().map(of_control_plane);
    let first = versions.next()??;
    versions.all(|version| version.as_ref() == Some(&first)).then_some(first)
}

/// Versions of a component of the control plane.
pub(crate) fn of_component(
    component: &'static str,
    pods: &[Value],
    controller: Option<&str>,
) -> Vec<ComponentVersion> {
    let versions = pods.iter().map(|pod| (of_control_plane(pod), name(pod)));
    grouped(component, versions, controller)
}

/// Versions of sidecars.
pub(crate) fn of_sidecars(pods: &[Value], controller: Option<&str>) -> Vec<ComponentVersion> {
    let running = pods.iter().filter(|pod| !has_ended(pod));
    let versions = running.filter_map(|pod| Some((of_sidecar(pod)?, name(pod))));
    grouped("sidecar", versions, controller)
}

/// True if a pod has ended, as that of a Job does: its containers no longer run.
fn has_ended(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn grouped(
    component: &'static str,
    versions: impl Iterator<Item = (Option<String>, String)>,
    controller: Option<&str>,
) -> Vec<ComponentVersion> {
    let mut all: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for (version, name) in versions {
        all.entry(version).or_default().push(name);
    }
    let running = |(version, mut names): (Option<String>, Vec<String>)| {
        let (pods, skew) = (names.len(), Skew::of(version.as_deref(), controller));
        names.sort();
        names.truncate(MAX_NAMES);
        ComponentVersion { component, version, pods, skew, some: names }
    };
    all.into_iter().map(running).collect()
}

/// `NAMESPACE/NAME`.
pub(crate) fn name(pod: &Value) -> String {
    let text = |field: &str| pod.get("metadata")?.get(field)?.as_str();
    format!("{}/{}", text("namespace").unwrap_or_default(), text("name").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::pod_version::tests::injected;
    use serde_json::json;

    fn controller(image: &str) -> Value {
        json!({"metadata": {"namespace": "portcullis", "name": "c"},
               "spec": {"containers": [{"image": image}]}})
    }

    #[test]
    fn sidecars_are_counted_by_version_and_held_to_the_controllers() {
        let old = (0..5).map(|n| injected("shop", &format!("old-{n}"), "proxy:0.1.0"));
        let pods: Vec<Value> = old.chain([injected("shop", "new", "proxy:0.2.0")]).collect();
        let running = of_sidecars(&pods, Some("0.2.0"));
        let versions: Vec<_> =
            running.iter().map(|r| (r.version.as_deref(), r.pods, r.skew)).collect();
        assert_eq!(versions, [(Some("0.1.0"), 5, Skew::Older), (Some("0.2.0"), 1, Skew::Same)]);
        let report = VersionReport { running, ..VersionReport::of_client() };
        let text = report.text(Paint::plain());
        let line = "older than the controller: shop/old-0, shop/old-1, shop/old-2 and 2 more";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn pods_that_have_ended_run_no_sidecar() {
        let mut ended = injected("shop", "job", "proxy:0.1.0");
        ended["status"]["phase"] = json!("Succeeded");
        assert_eq!(of_sidecars(&[ended], Some("0.2.0")), []);
    }

    #[test]
    fn controllers_that_differ_are_no_measure() {
        let (one, two) = (controller("c:0.1.0"), controller("c:0.2.0"));
        assert_eq!(controller_version(&[one.clone(), one.clone()]).as_deref(), Some("0.1.0"));
        assert_eq!(controller_version(&[one, two]), None);
        assert_eq!(controller_version(&[]), None);
    }
}
