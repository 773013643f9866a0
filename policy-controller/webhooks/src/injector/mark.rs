//! The mark of an injected pod, by which others know whether and how it is meshed: the annotation
//! [`SIDECAR_MARK`]. It says what the two containers were made with, and is written from them alone. So no
//! annotation, the author's own mark included, says anything else.

use super::container::put;
use super::element::{containers, edit_map, items, list, text};
use super::opt_in::NamespaceContext;
use super::outbound::{MODE_VARIABLE, PORT_ARGUMENT};
use super::setting::MESH_ONLY;
use super::sidecar::{INBOUND_PORT, INIT, OUTBOUND_PORT, PROXY, VERSION_ANNOTATION};
use policy_crds::annotation::{SIDECAR_MARK, SKIP_ARGUMENT, numbered_ports};
use policy_crds::{Capture, FieldError, OutboundMode, SidecarMark};
use serde_json::Value;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Writes the mark of a pod that has the injected containers, and returns the outbound mode in it.
pub(super) fn write(pod: &mut Value, context: &NamespaceContext) -> OutboundMode {
    let mark = of(pod, context);
    edit_map(pod, "metadata", |metadata| {
        put(metadata, "annotations", SIDECAR_MARK, &mark.to_json());
    });
    mark.outbound
}

/// Returns the mark that a pod has, whoever wrote it.
pub(super) fn given(pod: &Value) -> Option<&Value> {
    pod.get("metadata")?.get("annotations")?.get(SIDECAR_MARK)
}

/// Returns the pod without its mark.
pub(super) fn without(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let annotations = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(SIDECAR_MARK);
    }
    pod
}

/// Warning for a mark that is not the injector's.
pub(super) const REPLACED: &str = "only the injector writes it, by what it injects, so that the value is \
     replaced";
/// Warning for a mark of a pod without a sidecar.
pub(super) const TAKEN_OUT: &str = "only the injector writes it, on pods that have a sidecar, so that it is \
     taken out";

/// Returns the mark for the containers of a pod.
fn of(pod: &Value, context: &NamespaceContext) -> SidecarMark {
    let empty = Value::Null;
    let find = |name: &str| {
        let found = containers(pod).find(|(_, container)| text(container, "name") == Some(name));
        found.map_or(&empty, |(_, container)| container)
    };
    let (init, proxy) = (find(INIT), find(PROXY));
    let skipped = argument(init, SKIP_ARGUMENT).unwrap_or_default();
    SidecarMark {
        version: version(pod, proxy),
        inbound_port: INBOUND_PORT_NUMBER,
        skipped: numbered_ports(skipped),
        identity: identity(pod, proxy, context),
        server_name: None,
        outbound: mode(pod, init, proxy),
        capture: Capture::InitContainer,
    }
}

const INBOUND_PORT_NUMBER: NonZeroU16 =
    NonZeroU16::MIN.saturating_add(INBOUND_PORT.saturating_sub(1));

/// Prefix of every argument of the init container by which it leaves out some of what the pod sends.
const SKIPS_OUTBOUND: &str = "--skip-outbound-";

/// The longest text that a mark may have as its version.
const MAX_VERSION: usize = 128;

/// Returns the reason why the containers that a pod brings itself do not keep `mesh-only`, if so.
pub(super) fn loosens(pod: &Value, mode: OutboundMode) -> Option<FieldError> {
    let init = containers(pod).find(|(_, container)| text(container, "name") == Some(INIT));
    let (place, skipped) = match init {
        Some((place, init)) => (place, argument(init, SKIPS_OUTBOUND)),
        None => ("spec.initContainers".to_owned(), None),
    };
    let message = match (mode, skipped) {
        (OutboundMode::MeshOnly, None) => return None,
        (OutboundMode::MeshOnly, Some(_)) => "do not redirect everything",
        (OutboundMode::None | OutboundMode::On, _) => "have another outbound mode",
    };
    let message = format!(
        "the pod brings containers of the sidecar that {message}, and `{MESH_ONLY}` is asked for; leave \
         them out and they are added"
    );
    Some(FieldError { field: format!("{place}.args"), message })
}

/// Returns the outbound mode: that of the sidecar, if the init container redirects to it and it is there
/// before any other init container could need it.
fn mode(pod: &Value, init: &Value, proxy: &Value) -> OutboundMode {
    let redirects = argument(init, PORT_ARGUMENT) == Some(&OUTBOUND_PORT.to_string());
    let native = list(pod, "initContainers").iter().any(|container| {
        text(container, "name") == Some(PROXY) && text(container, "restartPolicy") == Some("Always")
    });
    match variable(proxy, MODE_VARIABLE).filter(|_| redirects && native) {
        Some("on") => OutboundMode::On,
        Some(MESH_ONLY) => OutboundMode::MeshOnly,
        Some(_) | None => OutboundMode::None,
    }
}

/// Returns the name that the sidecar asks the issuer for; absent if it is not known yet.
fn identity(pod: &Value, proxy: &Value, context: &NamespaceContext) -> Option<Arc<str>> {
    let issued = variable(proxy, "PORTCULLIS_IDENTITY") == Some("certify");
    let name = variable(proxy, "PORTCULLIS_IDENTITY_NAME").filter(|_| issued)?;
    let spec = pod.get("spec")?;
    let account = ["serviceAccountName", "serviceAccount"].into_iter();
    let mut account = account.filter_map(|field| text(spec, field)).filter(|name| !name.is_empty());
    let name = name.replace("$(_pod_sa)", account.next().unwrap_or("default"));
    if context.is_assumed && name.contains("$(_pod_ns)") {
        return None;
    }
    let name = name.replace("$(_pod_ns)", &context.namespace);
    (!name.is_empty() && !name.contains("$(")).then(|| Arc::from(name))
}

/// Returns the version of the sidecar: the tag of its image, else what the annotation says.
fn version(pod: &Value, proxy: &Value) -> Arc<str> {
    let image = text(proxy, "image").and_then(|image| image.rsplit('/').next()?.split('@').next());
    let tag = image.and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    let annotations = pod.pointer("/metadata/annotations");
    let stated = || annotations.and_then(|annotations| text(annotations, VERSION_ANNOTATION));
    let known = |text: &&str| !text.is_empty() && text.len() <= MAX_VERSION;
    tag.or_else(stated).filter(known).unwrap_or("unknown").into()
}

fn argument<'a>(container: &'a Value, prefix: &str) -> Option<&'a str> {
    let mut arguments = items(container, "args").iter().filter_map(Value::as_str);
    arguments.find_map(|argument| argument.strip_prefix(prefix))
}

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a str> {
    // Of several the kubelet takes the last.
    let mut variables = items(container, "env").iter().rev();
    text(variables.find(|variable| text(variable, "name") == Some(name))?, "value")
}
