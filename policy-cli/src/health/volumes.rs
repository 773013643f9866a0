//! Volumes that files of a container come from.

use crate::diagnostics::metadata::{items, text};
use serde_json::Value;
use std::path::Path;

/// The ConfigMap from which a file of a pod's containers is mounted; `None` if it has another
/// source.
pub(super) fn config_map(pod: &Value, file: &Path) -> Option<String> {
    let mounts = items(pod, "/spec/containers")
        .flat_map(|container| items(container, "/volumeMounts"))
        .filter(|mount| file.starts_with(text(mount, "/mountPath")));
    // Of nested mounts, the innermost one is visible.
    let mount = mounts.max_by_key(|mount| text(mount, "/mountPath").len())?;
    let named = |volume: &&Value| text(volume, "/name") == text(mount, "/name");
    let volume = items(pod, "/spec/volumes").find(named)?;
    let sources = items(volume, "/projected/sources").map(|source| text(source, "/configMap/name"));
    let mut names = std::iter::once(text(volume, "/configMap/name")).chain(sources);
    names.find(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_comes_from_the_volume_that_is_mounted_there() {
        let pod = json!({"spec": {
            "containers": [{"volumeMounts": [
                {"name": "all", "mountPath": "/run"},
                {"name": "roots", "mountPath": "/run/roots"},
                {"name": "mixed", "mountPath": "/mixed"},
            ]}],
            "volumes": [
                {"name": "all", "emptyDir": {}},
                {"name": "roots", "configMap": {"name": "company-roots"}},
                {"name": "mixed", "projected": {"sources": [
                    {"serviceAccountToken": {}}, {"configMap": {"name": "other-roots"}}]}},
            ],
        }});
        let of = |file: &str| config_map(&pod, Path::new(file));
        assert_eq!(of("/run/roots/ca.crt").as_deref(), Some("company-roots"));
        assert_eq!(of("/mixed/ca.crt").as_deref(), Some("other-roots"));
        assert_eq!(
            (of("/run/ca.crt"), of("/run/rootsx/ca.crt"), of("/etc/ca.crt")),
            (None, None, None)
        );
        assert_eq!(config_map(&json!({}), Path::new("/run/roots/ca.crt")), None);
    }
}
