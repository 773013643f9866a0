//! The parts that are added to a pod: the sidecar, the init container that redirects to it, and
//! their volumes.

use super::effective_config::EffectiveConfig;
use super::element::{containers, edit_list, edit_map, text};
use super::ports::{joined, of_container, resolve};
use super::probe;
use super::quantity::exceeds;
use super::setting::Setting;
use super::settings::{Settings, Trust};
use super::sidecar::{
    ADMIN_PORT, INBOUND_PORT, INIT, LOCK_VOLUME, PORT_NAMES, PROXY, PROXY_UID, ROOTS_VOLUME,
    TOKEN_VOLUME, VERSION_ANNOTATION,
};
use policy_crds::annotation::{PROXY_INJECTED, PROXY_LABEL, SKIP_ARGUMENT, SKIPPED_PORTS};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const TOKEN_FOLDER: &str = "/var/run/secrets/portcullis";
const ROOTS_FOLDER: &str = "/var/run/portcullis/roots";
/// The ConfigMap of the mesh's roots in the pod's namespace.
const ROOTS: &str = "portcullis-identity-trust-roots";
const ROOTS_KEY: &str = "ca-bundle.crt";
/// The ConfigMap's key of the endorsed roots.
const SIGNED_KEY: &str = "ca-bundle.signed";
/// Lifetime of a projected token in seconds; the kubelet renews it earlier.
const TOKEN_SECONDS: u32 = 86_400;

const PORTS: &str = "PORTCULLIS_PORTS";
const TCP_PROBE_PORTS: &str = "PORTCULLIS_TCP_PROBE_PORTS";
/// Variables that are derived from the other containers of the pod.
pub(super) const DERIVED_VARIABLES: [&str; 2] = [PORTS, TCP_PROBE_PORTS];

/// Adds all parts to a pod that has none of them.
pub(super) fn add(
    pod: &mut Value,
    config: &EffectiveConfig,
    settings: &Settings,
    probed: &BTreeSet<u16>,
) {
    let proxy = proxy(config, settings, &declared_ports(pod, probed), probed);
    let init = init(config);
    let version = config.get(Setting::ProxyVersion).unwrap_or(env!("CARGO_PKG_VERSION")).to_owned();
    edit_map(pod, "metadata", |metadata| {
        put(metadata, "labels", PROXY_LABEL, PROXY_INJECTED);
        put(metadata, "annotations", VERSION_ANNOTATION, &version);
        // For people. The controller reads the arguments of the init container.
        let skipped = config.skipped.text();
        if !skipped.is_empty() {
            put(metadata, "annotations", SKIPPED_PORTS, &skipped);
        }
    });
    let Some(spec) = pod.get_mut("spec") else { return };
    // First, so that no other container is reachable before the rules are written. The sidecar comes
    // right after them: where they redirect what containers send, it has to be there.
    edit_list(spec, "initContainers", |list| {
        let added = if settings.native { vec![init, proxy.clone()] } else { vec![init] };
        list.splice(0..0, added);
    });
    if !settings.native {
        edit_list(spec, "containers", |list| list.insert(0, proxy));
    }
    edit_list(spec, "volumes", |list| list.extend(volumes(settings)));
}

/// Returns the added volumes.
pub(super) fn volumes(settings: &Settings) -> Vec<Value> {
    let token = json!({"serviceAccountToken": {
        "audience": settings.control_plane.audience,
        "expirationSeconds": TOKEN_SECONDS,
        "path": "token",
    }});
    let roots = reads_configmap(settings)
        .then(|| json!({"name": ROOTS_VOLUME, "configMap": {"name": ROOTS}}));
    let token = json!({"name": TOKEN_VOLUME, "projected": {"sources": [token]}});
    let lock = json!({"name": LOCK_VOLUME, "emptyDir": {"medium": "Memory"}});
    [token].into_iter().chain(roots).chain([lock]).collect()
}

/// Returns the two containers without the parts derived from others of the pod.
pub(super) fn injected_containers(config: &EffectiveConfig, settings: &Settings) -> [Value; 2] {
    let none = BTreeSet::new();
    [proxy(config, settings, &none, &none), init(config)]
}

pub(super) fn put(metadata: &mut Map<String, Value>, field: &str, key: &str, value: &str) {
    let mut texts = Map::new();
    if let Some(Value::Object(held)) = metadata.remove(field) {
        texts = held;
    }
    texts.insert(key.to_owned(), value.into());
    metadata.insert(field.to_owned(), Value::Object(texts));
}

/// Moves the two containers before all other init containers. Where another webhook put one between
/// them, its connections would lead nowhere; before them, they would not be redirected.
pub(super) fn move_to_front(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    edit_list(spec, "initContainers", |list| {
        list.sort_by_key(|container| match text(container, "name") {
            Some(INIT) => 0,
            Some(PROXY) => 1,
            Some(_) | None => 2,
        });
    });
}

/// Updates the parts derived from the other containers in a pod that already has a sidecar.
pub(super) fn refresh(pod: &mut Value, warnings: &mut Vec<String>) {
    let skipped = skipped_ports(pod);
    warnings.extend(probe::unresolved(pod).iter().map(ToString::to_string));
    let probed = probe::rewrite(pod, &skipped);
    let declared = declared_ports(pod, &probed);
    for (_, container) in super::element::containers_mut(pod) {
        if text(container, "name") != Some(PROXY) {
            continue;
        }
        edit_list(container, "env", |env| {
            for (name, ports) in [(PORTS, &declared), (TCP_PROBE_PORTS, &probed)] {
                let wanted = json!({"name": name, "value": joined(ports)});
                match env.iter_mut().find(|variable| text(variable, "name") == Some(name)) {
                    Some(variable) => *variable = wanted,
                    None if ports.is_empty() => {}
                    None => env.push(wanted),
                }
            }
        });
    }
}

/// Returns the ports that the pod's init container does not redirect.
pub(super) fn skipped_ports(pod: &Value) -> super::ports::PortList {
    let init = containers(pod).find(|(_, container)| text(container, "name") == Some(INIT));
    let arguments = init.and_then(|(_, init)| init.get("args").and_then(Value::as_array));
    let mut arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
    let list = arguments.find_map(|argument| argument.strip_prefix(SKIP_ARGUMENT));
    let named = super::ports::NamedPorts::new();
    super::ports::PortList::read(list.unwrap_or_default(), &named).unwrap_or_default()
}

/// Returns what the init container of an injected pod was told of the connections that the pod opens: true
/// if they are redirected, and the ports that are not. `None`: it has no such container.
pub(super) fn outbound_arguments(pod: &Value) -> Option<(bool, super::ports::PortList)> {
    let (_, init) = containers(pod).find(|(_, container)| text(container, "name") == Some(INIT))?;
    let arguments = init.get("args").and_then(Value::as_array).into_iter().flatten();
    let arguments: Vec<&str> = arguments.filter_map(Value::as_str).collect();
    let value = |prefix: &str| arguments.iter().find_map(|argument| argument.strip_prefix(prefix));
    let skipped = value(super::outbound::SKIP_ARGUMENT).unwrap_or_default();
    let skipped = super::ports::PortList::numbers(skipped).unwrap_or_default();
    Some((value(super::outbound::PORT_ARGUMENT).is_some(), skipped))
}

/// Returns every port that a container port, a probe or a lifecycle hook of the application names.
fn declared_ports(pod: &Value, probed: &BTreeSet<u16>) -> BTreeSet<u16> {
    const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];
    let mut ports = probed.clone();
    for (_, container) in containers(pod) {
        if text(container, "name") == Some(PROXY) {
            continue;
        }
        ports.extend(of_container(container).into_iter().map(|(number, _)| number));
        let hook = |name: &str| container.get("lifecycle")?.get(name);
        let probes = PROBES.iter().filter_map(|name| container.get(*name));
        let handlers = probes.chain(["postStart", "preStop"].into_iter().filter_map(hook));
        for handler in handlers {
            let of = |action: &str| handler.get(action)?.get("port");
            let named = of("httpGet").or_else(|| of("grpc"));
            let number = named.and_then(|port| resolve(port, container));
            ports.extend(number.filter(|port| *port != ADMIN_PORT));
        }
    }
    ports
}

fn init(config: &EffectiveConfig) -> Value {
    let mut arguments = vec![
        "redirect".to_owned(),
        format!("--inbound-port={INBOUND_PORT}"),
        format!("--admin-port={ADMIN_PORT}"),
        format!("--proxy-uid={PROXY_UID}"),
    ];
    let skipped = config.skipped.text();
    if !skipped.is_empty() {
        arguments.push(format!("{SKIP_ARGUMENT}{skipped}"));
    }
    arguments.extend(config.outbound.arguments());
    json!({
        "name": INIT,
        "image": image(config, Setting::InitImage),
        "imagePullPolicy": config.get(Setting::ImagePullPolicy),
        "args": arguments,
        "resources": init_resources(config),
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": false,
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        // iptables takes a lock there.
        "volumeMounts": [{"name": LOCK_VOLUME, "mountPath": "/run"}],
    })
}

fn proxy(
    config: &EffectiveConfig,
    settings: &Settings,
    declared: &BTreeSet<u16>,
    probed: &BTreeSet<u16>,
) -> Value {
    let probe = |path: &str, port: u16, seconds: u32, failures: u32| {
        json!({
            "httpGet": {"path": path, "port": port},
            "periodSeconds": seconds,
            "timeoutSeconds": 2,
            "failureThreshold": failures,
        })
    };
    let mut container = json!({
        "name": PROXY,
        "image": image(config, Setting::ProxyImage),
        "imagePullPolicy": config.get(Setting::ImagePullPolicy),
        "args": ["run"],
        "env": environment(config, settings, declared, probed),
        "ports": PORT_NAMES.map(|(name, port)| {
            json!({"name": name, "containerPort": port, "protocol": "TCP"})
        }),
        "readinessProbe": probe("/ready", config.outbound.probe_port(), 2, 3),
        "livenessProbe": probe("/live", ADMIN_PORT, 10, 3),
        "resources": resources(config),
        "securityContext": {
            "runAsUser": PROXY_UID,
            "runAsGroup": PROXY_UID,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(settings),
    });
    if let Some(fields) = container.as_object_mut().filter(|_| settings.native) {
        fields.insert("restartPolicy".to_owned(), "Always".into());
        // The application starts once its ports are protected. Whether it is reachable is decided
        // by readiness, without a time limit.
        let startup = probe("/live", config.outbound.probe_port(), 1, 120);
        fields.insert("startupProbe".to_owned(), startup);
    }
    container
}

fn image(config: &EffectiveConfig, setting: Setting) -> String {
    let part = |setting| config.get(setting).unwrap_or_default();
    format!("{}:{}", part(setting), part(Setting::ProxyVersion))
}

/// The resources of the init container: of each what its setting says, or what the sidecar requests if
/// that is more, because the minimum of a LimitRange holds for both. A quota refuses pods with a
/// container without limits, and only requests that equal them keep a pod in the class Guaranteed. An
/// init container's requests are not added to the others'.
fn init_resources(config: &EffectiveConfig) -> Value {
    let resource = |own: Setting, proxy: Setting| {
        let (own, proxy) = (config.get(own)?, config.get(proxy));
        Some(proxy.filter(|proxy| exceeds(proxy, own)).unwrap_or(own))
    };
    let named = [
        ("cpu", resource(Setting::InitCpu, Setting::ProxyCpuRequest)),
        ("memory", resource(Setting::InitMemory, Setting::ProxyMemoryRequest)),
    ];
    let of_both: Map<String, Value> = named
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), text?.into())))
        .collect();
    json!({"requests": of_both, "limits": of_both})
}

fn resources(config: &EffectiveConfig) -> Value {
    let part = |settings: [(&str, Setting); 3]| -> Map<String, Value> {
        let given = settings.into_iter();
        given.filter_map(|(name, s)| Some((name.to_owned(), config.get(s)?.into()))).collect()
    };
    let requests = part([
        ("cpu", Setting::ProxyCpuRequest),
        ("memory", Setting::ProxyMemoryRequest),
        ("ephemeral-storage", Setting::ProxyEphemeralStorageRequest),
    ]);
    let limits = part([
        ("cpu", Setting::ProxyCpuLimit),
        ("memory", Setting::ProxyMemoryLimit),
        ("ephemeral-storage", Setting::ProxyEphemeralStorageLimit),
    ]);
    let all = [("requests", requests), ("limits", limits)].into_iter();
    all.filter(|(_, part)| !part.is_empty()).map(|(name, part)| (name.to_owned(), part)).collect()
}

fn environment(
    config: &EffectiveConfig,
    settings: &Settings,
    declared: &BTreeSet<u16>,
    probed: &BTreeSet<u16>,
) -> Vec<Value> {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let plain = |name: &str, value: &str| json!({"name": name, "value": value});
    let control_plane = &settings.control_plane;
    let any = if control_plane.ipv4_only { "0.0.0.0" } else { "[::]" };
    // `$(…)` may refer only to earlier variables.
    let mut env = vec![
        field("_pod_name", "metadata.name"),
        field("_pod_ns", "metadata.namespace"),
        field("_pod_sa", "spec.serviceAccountName"),
        plain("PORTCULLIS_WORKLOAD", r#"{"ns":"$(_pod_ns)", "pod":"$(_pod_name)"}"#),
        field("PORTCULLIS_POD_UID", "metadata.uid"),
        field("PORTCULLIS_INBOUND_IPS", "status.podIPs"),
        plain("PORTCULLIS_LISTEN", &format!("{any}:{INBOUND_PORT}")),
        plain("PORTCULLIS_ADMIN", &format!("{any}:{ADMIN_PORT}")),
        plain("PORTCULLIS_POLICY_ADDR", &control_plane.policy),
        plain(
            "PORTCULLIS_POLICY_NAME",
            &control_plane.identity("policy-controller", &control_plane.namespace),
        ),
        plain("PORTCULLIS_IDENTITY", "certify"),
        plain("PORTCULLIS_IDENTITY_ADDR", &control_plane.issuer),
        plain("PORTCULLIS_IDENTITY_SERVICE_NAME", &control_plane.issuer_identity),
        plain("PORTCULLIS_IDENTITY_NAME", &control_plane.identity("$(_pod_sa)", "$(_pod_ns)")),
        plain("PORTCULLIS_IDENTITY_TOKEN", &format!("{TOKEN_FOLDER}/token")),
    ];
    let file = |key: &str| format!("{ROOTS_FOLDER}/{key}");
    match &settings.trust {
        Trust::ConfigMap => env.push(plain("PORTCULLIS_IDENTITY_ROOTS", &file(ROOTS_KEY))),
        // The environment of an existing pod is immutable; a ConfigMap has other writers.
        Trust::Followed(roots) => env.extend([
            plain("PORTCULLIS_IDENTITY_ANCHORS", roots),
            plain("PORTCULLIS_IDENTITY_SIGNED_ROOTS", &file(SIGNED_KEY)),
        ]),
        Trust::Fixed(roots) => env.push(plain("PORTCULLIS_IDENTITY_ANCHORS", roots)),
    }
    for (name, ports) in [(PORTS, declared), (TCP_PROBE_PORTS, probed)] {
        env.extend((!ports.is_empty()).then(|| plain(name, &joined(ports))));
    }
    let outbound = config.outbound.variables(&settings.outbound, control_plane.ipv4_only);
    env.extend(outbound.into_iter().map(|(name, value)| plain(name, &value)));
    let given = Setting::ALL
        .into_iter()
        .filter_map(|setting| Some(plain(setting.variable()?, config.get(setting)?)));
    env.extend(given);
    env
}

fn mounts(settings: &Settings) -> Vec<Value> {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let roots = reads_configmap(settings).then(|| mount(ROOTS_VOLUME, ROOTS_FOLDER));
    [mount(TOKEN_VOLUME, TOKEN_FOLDER)].into_iter().chain(roots).collect()
}

/// True if the sidecar reads the ConfigMap of its namespace.
fn reads_configmap(settings: &Settings) -> bool {
    !matches!(settings.trust, Trust::Fixed(_))
}
