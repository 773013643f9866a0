//! Pods that are not injected, and pods that conflict with a sidecar.

use super::element::{CONTAINERS, containers, items, list, text};
use super::ports::of_container;
use super::sidecar::{
    ADMIN_PORT, INBOUND_PORT, INIT, PROXY, PROXY_UID, VERSION_ANNOTATION, VOLUMES,
};
use policy_crds::FieldError;
use serde_json::Value;
use std::fmt;

/// The reason why a pod is not injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Neither it nor its namespace opts in.
    NotRequested,
    /// It asks Linkerd's injector, and nothing asks this one.
    AsksLinkerd,
    /// It opts out.
    DisabledByPod,
    /// The namespace with this name opts out.
    DisabledByNamespace(String),
    /// It already has our sidecar and its init container, of this version if known.
    AlreadyInjected {
        /// The version in its annotation.
        version: Option<String>,
        /// True if it has labels, by which Servers select it.
        is_labelled: bool,
    },
    /// It has the sidecar of another mesh, in this container.
    OtherMesh(&'static str),
    /// It uses the network of its node.
    HostNetwork,
    /// Its containers are for Windows.
    Windows,
    /// It is a static pod: a file on a node, of which the API server has a mirror pod.
    Static,
    /// It has no readable containers.
    Unreadable,
}

/// The containers of other meshes' sidecars.
pub(super) const OTHER_MESHES: [&str; 2] = ["linkerd-proxy", ISTIO_PROXY];

/// The container of Istio's sidecar.
pub(super) const ISTIO_PROXY: &str = "istio-proxy";

/// The annotation of a mirror pod of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

impl SkipReason {
    /// Returns a warning for the pod's author, unless the author chose the reason.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::NotRequested
            | Self::AsksLinkerd
            | Self::DisabledByPod
            | Self::DisabledByNamespace(_) => None,
            // The API server calls the webhook again if another webhook changed the pod.
            Self::AlreadyInjected { version: Some(_), .. } => None,
            Self::AlreadyInjected { .. }
            | Self::OtherMesh(_)
            | Self::HostNetwork
            | Self::Windows
            | Self::Static
            | Self::Unreadable => Some(format!("no sidecar was injected: {self}")),
        }
    }

    /// Returns the reason as a metric label.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::NotRequested | Self::AsksLinkerd => "not_asked",
            Self::DisabledByPod | Self::DisabledByNamespace(_) => "disabled",
            Self::AlreadyInjected { .. } => "already_injected",
            Self::OtherMesh(_) => "other_mesh",
            Self::HostNetwork => "host_network",
            Self::Windows => "windows",
            Self::Static => "static",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRequested => f.write_str("neither the pod nor its namespace asks for one"),
            Self::AsksLinkerd => f.write_str(
                "`linkerd.io/inject` asks Linkerd's injector; `portcullis.dev/inject: enabled` asks for \
                 this sidecar",
            ),
            Self::DisabledByPod => f.write_str("the pod's annotation says `disabled`"),
            Self::DisabledByNamespace(name) => write!(f, "namespace {name} says `disabled`"),
            Self::AlreadyInjected { version: Some(version), .. } => {
                write!(f, "the pod has a sidecar already, of version {version}")
            }
            Self::AlreadyInjected { version: None, is_labelled: true } => {
                f.write_str("the pod has a sidecar already")
            }
            Self::AlreadyInjected { version: None, is_labelled: false } => f.write_str(
                "the pod has a sidecar already, and no labels, as a copy that `kubectl debug` makes: \
                 no Server selects it, so that the default policy decides about its ports, which may \
                 be open; `--keep-labels` keeps the labels",
            ),
            Self::OtherMesh(container) => {
                write!(f, "the pod has the sidecar of another mesh, container `{container}`")
            }
            Self::HostNetwork => f.write_str(
                "the pod has hostNetwork: true; its connections cannot be distinguished from its node's",
            ),
            Self::Windows => f.write_str("the pod's os is windows, the sidecar runs on Linux"),
            Self::Static => f.write_str(
                "the pod is static: its node runs it from a file, which a webhook cannot change",
            ),
            Self::Unreadable => f.write_str("spec.containers is not a list of containers"),
        }
    }
}

/// Returns the reason why a pod that opts in is not injected, if any.
pub(super) fn reason(pod: &Value) -> Option<SkipReason> {
    let spec = pod.get("spec").filter(|spec| spec.is_object());
    let readable = |field: &str| match spec.and_then(|spec| spec.get(field)) {
        Some(Value::Array(list)) => list.iter().all(Value::is_object),
        Some(Value::Null) | None => field != "containers",
        Some(_) => false,
    };
    let metadata = pod.get("metadata").is_none_or(|metadata| metadata.is_object());
    if !metadata || !CONTAINERS.into_iter().all(readable) || list(pod, "containers").is_empty() {
        return Some(SkipReason::Unreadable);
    }
    let has = |name: &str| containers(pod).any(|(_, c)| text(c, "name") == Some(name));
    let annotation =
        |name: &str| pod.get("metadata")?.get("annotations")?.get(name).and_then(Value::as_str);
    // One of the two alone is another container, which `conflicts` reports, as it does two that are
    // not the injected ones.
    if has_injected_pair(pod) {
        let version = annotation(VERSION_ANNOTATION).map(str::to_owned);
        let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
        let is_labelled = labels.is_some_and(|labels| !labels.is_empty());
        return Some(SkipReason::AlreadyInjected { version, is_labelled });
    }
    if let Some(theirs) = OTHER_MESHES.into_iter().find(|name| has(name)) {
        return Some(SkipReason::OtherMesh(theirs));
    }
    if annotation(MIRROR).is_some() {
        return Some(SkipReason::Static);
    }
    let spec = spec?;
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        return Some(SkipReason::HostNetwork);
    }
    is_for_windows(spec).then_some(SkipReason::Windows)
}

/// True if a pod says that it runs on Windows: by its operating system, or by the nodes that it selects.
fn is_for_windows(spec: &Value) -> bool {
    let os = spec.get("os").and_then(|os| text(os, "name"));
    let nodes = OS_LABELS.into_iter().filter_map(|label| text(spec.get("nodeSelector")?, label));
    os.into_iter().chain(nodes).any(|os| os == "windows") || requires_windows(spec)
}

/// The labels with the operating system of a node.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];

/// True if the affinity of a pod leaves no other nodes than those of Windows: every term requires it.
fn requires_windows(spec: &Value) -> bool {
    const REQUIRED: &str =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = spec.pointer(REQUIRED).and_then(Value::as_array);
    let is_windows = |term: &Value| {
        items(term, "matchExpressions").iter().any(|expression| {
            let values = items(expression, "values");
            text(expression, "key").is_some_and(|key| OS_LABELS.contains(&key))
                && text(expression, "operator") == Some("In")
                && !values.is_empty()
                && values.iter().all(|value| value == "windows")
        })
    };
    terms.is_some_and(|terms| !terms.is_empty() && terms.iter().all(is_windows))
}

/// True if the containers with our names are the injected ones: one redirects, and the other
/// listens where the first redirects to, for this pod.
pub(super) fn has_injected_pair(pod: &Value) -> bool {
    let find = |wanted: &str| {
        let mut all = containers(pod).map(|(_, container)| container);
        all.find(|container| text(container, "name") == Some(wanted))
    };
    let (Some(proxy), Some(init)) = (find(PROXY), find(INIT)) else { return false };
    let argument = |container: &Value, wanted: &str| {
        let mut arguments = items(container, "args").iter().filter_map(Value::as_str);
        container.get("command").is_none() && arguments.any(|argument| argument == wanted)
    };
    let variable = |wanted: &str| {
        items(proxy, "env").iter().any(|variable| text(variable, "name") == Some(wanted))
    };
    let listens = of_container(proxy).iter().any(|(port, _)| *port == INBOUND_PORT);
    let redirects = argument(init, "redirect")
        && argument(init, &format!("--inbound-port={INBOUND_PORT}"))
        && argument(init, &format!("--proxy-uid={PROXY_UID}"));
    let runs = argument(proxy, "run")
        && ["WORKLOAD", "POLICY_ADDR"].iter().all(|name| variable(&format!("PORTCULLIS_{name}")));
    let user = proxy.pointer("/securityContext/runAsUser").and_then(Value::as_u64);
    redirects && runs && listens && user == Some(PROXY_UID)
}

/// Returns errors for everything that conflicts with a sidecar, which takes `more` ports besides its
/// usual ones.
pub(super) fn conflicts(pod: &Value, more: &[u16]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let uid = |value: &Value| {
        let uid = value.get("securityContext")?.get("runAsUser")?.as_u64();
        uid.filter(|uid| *uid == PROXY_UID)
    };
    let mut user = |place: String| {
        let message = format!(
            "`{PROXY_UID}` is the user of the sidecar, whose traffic is not redirected; give the \
             application another one"
        );
        errors.push(FieldError { field: format!("{place}.securityContext.runAsUser"), message });
    };
    if pod.get("spec").and_then(uid).is_some() {
        user("spec".to_owned());
    }
    for (place, container) in containers(pod) {
        if uid(container).is_some() {
            user(place);
        }
    }
    for (place, container) in containers(pod) {
        let taken = |port: u16| [INBOUND_PORT, ADMIN_PORT].contains(&port) || more.contains(&port);
        for (port, _) in of_container(container).into_iter().filter(|(port, _)| taken(*port)) {
            let own: String = more.iter().map(|port| format!("{port}, ")).collect();
            let message = format!(
                "port `{port}` is one of the sidecar's own ({own}{INBOUND_PORT} and {ADMIN_PORT}); \
                 give the application another one"
            );
            errors.push(FieldError { field: format!("{place}.ports"), message });
        }
        if let Some(name) = text(container, "name").filter(|name| [PROXY, INIT].contains(name)) {
            let message = format!("`{name}` is the name of a container that is injected");
            errors.push(FieldError { field: format!("{place}.name"), message });
        }
    }
    for (at, volume) in list(pod, "volumes").iter().enumerate() {
        if let Some(name) = text(volume, "name").filter(|name| VOLUMES.contains(name)) {
            let message = format!("`{name}` is the name of a volume that is injected");
            errors.push(FieldError { field: format!("spec.volumes[{at}].name"), message });
        }
    }
    errors
}

/// True if a pod belongs to a Job.
pub(super) fn belongs_to_job(pod: &Value) -> bool {
    let owners = pod.get("metadata").and_then(|metadata| metadata.get("ownerReferences"));
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    owners.into_iter().any(|owner| text(owner, "kind") == Some("Job"))
}
