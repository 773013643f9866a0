//! Bypasses of a pod's sidecar: containers that can change the redirection rules in the pod's
//! network namespace, and images that are not the installation's.
//!
//! The check covers the pod as it is created. Ephemeral containers are added later, by a permission
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

/// Capabilities that suffice to change the rules or to gain one that does (capabilities(7)).
const PRIVILEGED_CAPABILITIES: [&str; 4] = ["NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", "ALL"];

/// Settings that select images.
const IMAGES: [Setting; 3] = [Setting::ProxyImage, Setting::ProxyVersion, Setting::InitImage];

/// Returns each bypass, with the field that allows it.
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
        for name in names.filter(|name| PRIVILEGED_CAPABILITIES.contains(&plain(name).as_str())) {
            let field = format!("{field}.capabilities.add");
            found.push(FieldError { field, message: bypass_message(&format!("`{name}`")) });
        }
    }
    for name in IMAGES.into_iter().flat_map(Setting::annotations) {
        if annotations.contains_key(&name) {
            let message = "selects the image that protects the pod (the init container's runs with \
                           NET_ADMIN), so the pod's author decides that";
            let field = annotation::field(&name);
            found.push(FieldError { field, message: message.to_owned() });
        }
    }
    found
}

/// Returns the bypasses of a pod that already has a sidecar. If bypasses are refused, its two
/// containers and their volumes must equal those that would be injected: images, arguments,
/// environment, mounts and privileges.
pub(super) fn bypasses_of_injected(
    pod: &Value,
    annotations: &StringMap,
    context: &NamespaceContext,
    settings: &Settings,
) -> Vec<FieldError> {
    let mut said = annotations.clone();
    // The injector writes this annotation.
    said.remove(VERSION_ANNOTATION);
    let mut found = bypasses(pod, &said);
    if settings.bypass == Bypass::Warn {
        return found;
    }
    for name in IMAGES.into_iter().flat_map(Setting::annotations) {
        said.remove(&name);
    }
    let (defaults, hindrance) = (&settings.defaults, settings.hindrance());
    let config = match EffectiveConfig::of(pod, &said, context, defaults, hindrance) {
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

/// Returns the volumes with injected names that differ from the injected ones: with them the pod's
/// author could replace the sidecar's token, roots and files.
fn volumes(pod: &Value, settings: &Settings) -> Vec<FieldError> {
    let wanted = container::volumes(settings);
    let numbered = list(pod, "volumes").iter().enumerate();
    let ours = numbered.filter(|(_, own)| {
        text(own, "name").is_some_and(|name| VOLUMES.contains(&name))
            && !wanted.iter().any(|wanted| *wanted == plain_volume(own))
    });
    ours.map(|(at, _)| differs(format!("spec.volumes[{at}]"), "volume")).collect()
}

/// Returns a volume without its file modes, which the API server defaults.
fn plain_volume(volume: &Value) -> Value {
    let mut volume = volume.clone();
    for source in ["projected", "configMap"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            source.remove("defaultMode");
        }
    }
    volume
}

/// Fields of a container that determine which program runs and what it trusts.
const FIELDS: [&str; 7] =
    ["image", "command", "args", "env", "envFrom", "securityContext", "volumeMounts"];

/// Returns the part of a field that is compared. Other webhooks may add variables of their own, and
/// the API server sets defaults.
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

/// Returns the mounts, sorted by path, without credentials of others that hide nothing: the API
/// server mounts the service account's token into every container, and cloud providers theirs
/// beside it.
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

/// Returns a variable that the sidecar reads, unless it is derived from the pod's other containers.
fn variable(variable: &Value) -> Option<Value> {
    let name = text(variable, "name")?;
    let read = name.starts_with("PORTCULLIS_") || name.starts_with("_pod_");
    let value = variable.get("value");
    let value = value.or_else(|| variable.pointer("/valueFrom/fieldRef/fieldPath"));
    (read && !container::DERIVED_VARIABLES.contains(&name)).then(|| json!([name, value]))
}

fn bypass_message(what: &str) -> String {
    format!("{what} can change the rules that lead connections to the sidecar")
}

/// Normalizes a capability as Kubernetes does: with or without `CAP_`, in any case.
fn plain(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map(str::to_owned).unwrap_or(upper)
}
