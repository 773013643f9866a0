//! Ways around the sidecar that a pod has: who may change the rules of redirection in the pod's
//! network, and whose image sets them.
//!
//! What is listed is what a pod says when it is created. Ephemeral containers come later, by a right
//! of their own (`pods/ephemeralcontainers`).

use super::ask::{Surroundings, Texts};
use super::chosen::Chosen;
use super::container;
use super::element::{containers, items, text};
use super::setting::Setting;
use super::settings::{Bypass, Settings};
use super::sidecar::{INIT, PROXY, VERSION_ANNOTATION};
use policy_crds::{FieldError, annotation};
use serde_json::{Value, json};

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

/// The same of a pod that has a sidecar already. Where such ways are refused, its two containers have
/// to be what would be injected: their images, what they are told, and no rights beyond.
pub(super) fn around_own(
    pod: &Value,
    annotations: &Texts,
    around: &Surroundings,
    settings: &Settings,
) -> Vec<FieldError> {
    let mut said = annotations.clone();
    // The injector writes it.
    said.remove(VERSION_ANNOTATION);
    let mut found = ways(pod, &said);
    if settings.bypass == Bypass::Warn {
        return found;
    }
    for name in IMAGES.into_iter().flat_map(Setting::annotations) {
        said.remove(&name);
    }
    let chosen = match Chosen::of(pod, &said, around, &settings.defaults) {
        Ok(chosen) => chosen,
        Err(errors) => {
            found.extend(errors);
            return found;
        }
    };
    for wanted in container::both(&chosen, settings) {
        let name = text(&wanted, "name");
        for (place, own) in containers(pod).filter(|(_, one)| text(one, "name") == name) {
            let differing =
                FIELDS.into_iter().filter(|field| part(own, field) != part(&wanted, field));
            found.extend(differing.map(|field| {
                FieldError {
                    field: format!("{place}.{field}"),
                    message:
                        "differs from what is injected; leave the container out and it is added"
                            .to_owned(),
                }
            }));
        }
    }
    found
}

/// What of a container decides on which program runs, and by whose word.
const FIELDS: [&str; 6] = ["image", "command", "args", "env", "envFrom", "securityContext"];

/// What a field says that is compared. Webhooks of others may add variables of their own, and the API
/// server completes what was left out.
fn part(container: &Value, field: &str) -> Value {
    match field {
        "env" => items(container, "env").iter().filter_map(variable).collect(),
        "securityContext" => {
            let of = |name: &str| container.pointer(&format!("/securityContext/{name}")).cloned();
            ["runAsUser", "runAsGroup", "privileged", "capabilities"].map(of).into_iter().collect()
        }
        _ => container.get(field).cloned().unwrap_or_default(),
    }
}

/// A variable that the sidecar reads, unless it follows from the pod's other containers.
fn variable(variable: &Value) -> Option<Value> {
    let name = text(variable, "name")?;
    let read = name.starts_with("PORTCULLIS_") || name.starts_with("_pod_");
    let value = variable.get("value");
    let value = value.or_else(|| variable.pointer("/valueFrom/fieldRef/fieldPath"));
    (read && !container::FOLLOWING.contains(&name)).then(|| json!([name, value]))
}

fn around(what: &str) -> String {
    format!("{what} can change the rules that lead connections to the sidecar")
}

/// As Kubernetes reads it: with `CAP_` or without, in any case.
fn plain(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map(str::to_owned).unwrap_or(upper)
}
