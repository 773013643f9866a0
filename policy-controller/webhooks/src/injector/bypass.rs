//! Ways around the sidecar that a pod has: who may change the rules of redirection in the pod's
//! network, and whose image sets them.
//!
//! What is listed is what a pod says when it is created. Ephemeral containers come later, by a right
//! of their own (`pods/ephemeralcontainers`).

use super::ask::Texts;
use super::element::{containers, items, text};
use super::setting::Setting;
use super::sidecar::{INIT, PROXY};
use policy_crds::{FieldError, annotation};
use serde_json::Value;

/// Capabilities that are enough to change rules, or to come by those that are (capabilities(7)).
const POWERFUL: [&str; 4] = ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", "ALL"];

/// Settings that say which images run.
const IMAGES: [Setting; 3] = [Setting::ProxyImage, Setting::ProxyVersion, Setting::InitImage];

/// Each way, with the field that opens it.
pub(super) fn ways(pod: &Value, annotations: &Texts) -> Vec<FieldError> {
    let mut found = Vec::new();
    for (place, container) in containers(pod) {
        if text(container, "name").is_some_and(|name| [PROXY, INIT].contains(&name)) {
            continue;
        }
        let Some(context) = container.get("securityContext") else { continue };
        let field = format!("{place}.securityContext");
        if context.get("privileged").and_then(Value::as_bool) == Some(true) {
            let field = format!("{field}.privileged");
            found.push(FieldError { field, message: around("a privileged container") });
        }
        let added = context.get("capabilities").map(|all| items(all, "add")).unwrap_or_default();
        let names = added.iter().filter_map(Value::as_str);
        for name in names.filter(|name| POWERFUL.contains(&plain(name).as_str())) {
            let field = format!("{field}.capabilities.add");
            found.push(FieldError { field, message: around(&format!("`{name}`")) });
        }
    }
    for name in IMAGES.into_iter().flat_map(Setting::annotations) {
        if annotations.contains_key(&name) {
            let message = "says which image guards the pod, and runs with NET_ADMIN where it is the \
                           init container's: whoever creates the pod decides that";
            let field = annotation::field(&name);
            found.push(FieldError { field, message: message.to_owned() });
        }
    }
    found
}

fn around(what: &str) -> String {
    format!("{what} can change the rules that lead connections to the sidecar")
}

/// As Kubernetes reads it: with `CAP_` or without, in any case.
fn plain(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map(str::to_owned).unwrap_or(upper)
}
