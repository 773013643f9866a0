//! Bypasses of a pod's sidecar: containers that can change the redirection rules in the pod's
//! network namespace, and images that are not the installation's.
//!
//! The check covers the pod as it is created. Ephemeral containers are added later, by a permission
//! of their own (`pods/ephemeralcontainers`).

use super::container;
use super::difference::differing_fields;
use super::effective_config::EffectiveConfig;
use super::element::{self, containers, items, list, text};
use super::opt_in::{NamespaceContext, StringMap};
use super::setting::Setting;
use super::settings::{Bypass, Settings};
use super::sidecar::{INIT, PROXY, VERSION_ANNOTATION, VOLUMES};
use policy_crds::{FieldError, annotation};
use serde_json::Value;

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
/// containers and their volumes must equal those that would be injected ([`differing_fields`]).
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
    let wanted = match wanted_containers(pod, said, context, settings) {
        Ok(wanted) => wanted,
        Err(errors) => {
            found.extend(errors);
            return found;
        }
    };
    for wanted in wanted {
        let name = text(&wanted, "name");
        for (place, own) in containers(pod).filter(|(_, one)| text(one, "name") == name) {
            let fields = differing_fields(own, &wanted);
            let fields = fields.into_iter().map(|field| format!("{place}.{field}"));
            found.extend(fields.map(|field| differs(field, "container")));
        }
    }
    found.extend(volumes(pod, settings));
    found
}

/// Returns the two containers that would be injected into a pod. Its own wishes of images do not count.
fn wanted_containers(
    pod: &Value,
    mut annotations: StringMap,
    context: &NamespaceContext,
    settings: &Settings,
) -> Result<[Value; 2], Vec<FieldError>> {
    for name in IMAGES.into_iter().flat_map(Setting::annotations) {
        annotations.remove(&name);
    }
    let (defaults, hindrance) = (&settings.defaults, settings.hindrance());
    let config = EffectiveConfig::of(pod, &annotations, context, defaults, hindrance)?;
    Ok(container::injected_containers(&config, settings))
}

/// Returns the images of the sidecar's containers that an update of a pod changes to other ones than would
/// be injected. Everything else of a container is immutable, or changed by the kubelet's own doing.
pub(super) fn changed_images(
    (old, pod): (&Value, &Value),
    context: &NamespaceContext,
    settings: &Settings,
) -> Vec<FieldError> {
    let annotations = element::texts(pod.pointer("/metadata/annotations"));
    let wanted = match wanted_containers(pod, annotations, context, settings) {
        Ok(wanted) => wanted,
        Err(errors) => return errors,
    };
    let mut found = Vec::new();
    for wanted in wanted {
        let named =
            |pod| containers(pod).filter(|(_, one)| text(one, "name") == text(&wanted, "name"));
        for (place, own) in named(pod) {
            let image = text(own, "image");
            let is_kept =
                named(old).any(|(before, one)| before == place && text(one, "image") == image);
            if !is_kept && image != text(&wanted, "image") {
                let message = match text(&wanted, "image") {
                    Some(wanted) => format!("differs from what is injected, `{wanted}`"),
                    None => "differs from what is injected".to_owned(),
                };
                found.push(FieldError { field: format!("{place}.image"), message });
            }
        }
    }
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

fn bypass_message(what: &str) -> String {
    format!("{what} can change the rules that lead connections to the sidecar")
}

/// Normalizes a capability as Kubernetes does: with or without `CAP_`, in any case.
fn plain(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    upper.strip_prefix("CAP_").map(str::to_owned).unwrap_or(upper)
}
