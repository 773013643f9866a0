//! Ways around the sidecar that a pod has: who may change the rules of redirection in the pod's
//! network, and whose image sets them.
//!
//! What is listed is what a pod says when it is created. Ephemeral containers come later, by a right
//! of their own (`pods/ephemeralcontainers`).

use super::container;
use super::effective_config::EffectiveConfig;
use super::element::{containers, items, list, text};
use super::opt_in::{NamespaceContext, StringMap};
use super::setting::Setting;
use super::settings::{Bypass, Settings};
use super::sidecar::{INIT, PROXY, VERSION_ANNOTATION, VOLUMES};
use policy_crds::{FieldError, annotation};
use serde_json::{Value, json};

/// Capabilities that are enough to change rules, or to come by those that are (capabilities(7)).
const POWERFUL: [&str; 4] = ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", "ALL"];

/// Settings that say which images run.
const IMAGES: [Setting; 3] = [Setting::ProxyImage, Setting::ProxyVersion, Setting::InitImage];

/// Each way, with the field that opens it.
pub(super) fn bypasses(pod: &Value, annotations: &StringMap) -> Vec<FieldError> {
    let mut found = Vec::new();
    for (place, container) in containers(pod) {
        if text(container, "name").is_some_and(|name| [PROXY, INIT].contains(&name)) {
            continue;
        }
        let Some(context) = container.get("securityContext") else { continue };
        let field = format!("{place}.securityContext");
        if context.get("privileged").and_then(Value::as_bool) == Some(true) {
            let field = format!("{field}.privileged");
            found.push(FieldError { field, message: bypass_message("a privileged container") });
        }
        let added = context.get("capabilities").map(|all| items(all, "add")).unwrap_or_default();
        let names = added.iter().filter_map(Value::as_str);
        for name in names.filter(|name| POWERFUL.contains(&plain(name).as_str())) {
            let field = format!("{field}.capabilities.add");
            found.push(FieldError { field, message: bypass_message(&format!("`{name}`")) });
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

/// The same of a pod that has a sidecar already. Where such ways are refused, its two containers and
/// their volumes have to be what would be injected: their images, what they are told and what they
/// read, and no rights beyond.
pub(super) fn bypasses_of_injected(
    pod: &Value,
    annotations: &StringMap,
    context: &NamespaceContext,
    settings: &Settings,
) -> Vec<FieldError> {
    let mut said = annotations.clone();
    // The injector writes it.
    said.remove(VERSION_ANNOTATION);
    let mut found = bypasses(pod, &said);
    if settings.bypass == Bypass::Warn {
        return found;
    }
    for name in IMAGES.into_iter().flat_map(Setting::annotations) {
        said.remove(&name);
    }
    let config = match EffectiveConfig::of(pod, &said, context, &settings.defaults) {
        Ok(config) => config,
        Err(errors) => {
            found.extend(errors);
            return found;
        }
    };
    for wanted in container::injected_containers(&config, settings) {
        let name = text(&wanted, "name");
        for (place, own) in containers(pod).filter(|(_, one)| text(one, "name") == name) {
            let differing =
                FIELDS.into_iter().filter(|field| part(own, field) != part(&wanted, field));
            found.extend(differing.map(|field| differs(format!("{place}.{field}"), "container")));
        }
    }
    found.extend(volumes(pod, settings));
    found
}

fn differs(field: String, what: &str) -> FieldError {
    let message = format!("differs from what is injected; leave the {what} out and it is added");
    FieldError { field, message }
}

/// The volumes with names of ours that are not what is injected: with them the sidecar's token, roots
/// and files would be whoever wrote them wants.
fn volumes(pod: &Value, settings: &Settings) -> Vec<FieldError> {
    let wanted = container::volumes(settings);
    let numbered = list(pod, "volumes").iter().enumerate();
    let ours = numbered.filter(|(_, own)| {
        text(own, "name").is_some_and(|name| VOLUMES.contains(&name))
            && !wanted.iter().any(|wanted| *wanted == plain_volume(own))
    });
    ours.map(|(at, _)| differs(format!("spec.volumes[{at}]"), "volume")).collect()
}

/// A volume without the modes of its files, which the API server completes.
fn plain_volume(volume: &Value) -> Value {
    let mut volume = volume.clone();
    for source in ["projected", "configMap"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            source.remove("defaultMode");
        }
    }
    volume
}

/// What of a container decides on which program runs, and by whose word.
const FIELDS: [&str; 7] =
    ["image", "command", "args", "env", "envFrom", "securityContext", "volumeMounts"];

/// What a field says that is compared. Webhooks of others may add variables of their own, and the API
/// server completes what was left out.
fn part(container: &Value, field: &str) -> Value {
    match field {
        "env" => items(container, "env").iter().filter_map(variable).collect(),
        "volumeMounts" => mounts(container),
        "securityContext" => {
            let of = |name: &str| container.pointer(&format!("/securityContext/{name}")).cloned();
            ["runAsUser", "runAsGroup", "privileged", "capabilities"].map(of).into_iter().collect()
        }
        _ => container.get(field).cloned().unwrap_or_default(),
    }
}

/// What is mounted, in order of paths, save for credentials of others that take nothing away: the API
/// server mounts the service account's token into every container, and clouds theirs beside it.
fn mounts(container: &Value) -> Value {
    const SECRETS: &str = "/var/run/secrets/";
    let foreign = |mount: &&Value| {
        let path = text(mount, "mountPath").unwrap_or_default().trim_end_matches('/');
        let below = path.strip_prefix(SECRETS).unwrap_or_default();
        let plain = below.split('/').all(|part| !["", ".", ".."].contains(&part));
        plain && below.split('/').next() != Some("portcullis")
    };
    let kept = items(container, "volumeMounts").iter().filter(|mount| !foreign(mount));
    let parts = |mount: &Value| {
        let of = |field: &str| mount.get(field).cloned().unwrap_or_default();
        let read_only = mount.get("readOnly").and_then(Value::as_bool).unwrap_or(false);
        let [path, name, sub, expression] = ["mountPath", "name", "subPath", "subPathExpr"].map(of);
        json!([path, name, sub, expression, read_only])
    };
    let mut all: Vec<Value> = kept.map(parts).collect();
    all.sort_by_key(Value::to_string);
    all.into()
}

/// A variable that the sidecar reads, unless it follows from the pod's other containers.
fn variable(variable: &Value) -> Option<Value> {
    let name = text(variable, "name")?;
    let read = name.starts_with("PORTCULLIS_") || name.starts_with("_pod_");
    let value = variable.get("value");
    let value = value.or_else(|| variable.pointer("/valueFrom/fieldRef/fieldPath"));
    (read && !container::FOLLOWING.contains(&name)).then(|| json!([name, value]))
}

fn bypass_message(what: &str) -> String {
    format!("{what} can change the rules that lead connections to the sidecar")
}

/// As Kubernetes reads it: with `CAP_` or without, in any case.
fn plain(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map(str::to_owned).unwrap_or(upper)
}
