//! Namespaces whose pods are not sent to the injector.

use super::configuration::{OPT_OUT, SYSTEM};
use super::opt_in::NamespaceContext;

/// Returns the reason why no pod of a namespace is sent to the injector, if so. `control_plane`: the
/// namespace of the injector itself.
pub fn left_alone(context: &NamespaceContext, control_plane: &str) -> Option<String> {
    let namespace = context.namespace.as_str();
    if [SYSTEM, control_plane].contains(&namespace) {
        return Some(format!("the injector leaves namespace {namespace} alone"));
    }
    let opts_out = context.labels.get(OPT_OUT).is_some_and(|value| value == "disabled");
    opts_out.then(|| format!("the label `{OPT_OUT}` takes namespace {namespace} out"))
}
