//! A workload's shape, which its policies depend on, and its facts, which they do not.
//!
//! Annotations of a Namespace about ports that no Server owns are read live. A Namespace that
//! cannot be read may have said anything: the default policy is `deny`, undeclared ports are
//! denied, and clients need an identity, unless the workload's own annotations say otherwise. The
//! same holds for a Namespace that was not read yet, where every object has one.

use super::smi::{named_ports, targets_of};
use crate::behaviour::Behaviour;
use crate::config::{ControllerConfig, Namespaces, PodGateways};
use crate::enforcement::{Enforcement, has_our_sidecar};
use crate::incremental::{Context, query};
use crate::publish::WorkloadState;
use crate::query::port_ownership::{PortOwnersOf, SelectorKeys};
use crate::query::workload::{
    Inherited, NamespaceDefaults, NamespaceSettings, Ports, ResolvedWorkload, ShapeContent,
    WorkloadOf, WorkloadShape, object_key,
};
use ipnet::IpNet;
use policy_core::{DefaultPolicy, Facts, UndeclaredPorts, WorkloadKind};
use policy_crds::annotation::{
    self, AnnotationReading, Annotations, DefaultPolicyNames, PortSet, PortsByName, Reading,
};
use policy_crds::resource::{ExternalWorkload, Node, Pod, Probe};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A list of all ports.
const EVERY_PORT: &str = "1-65535";

query!(NamespaceDefaults, NamespaceSettings, settings);
query!(WorkloadOf, Option<Arc<ResolvedWorkload>>, workload_of);

fn workload_of(query: &WorkloadOf, cx: &mut Context<'_>) -> Option<Arc<ResolvedWorkload>> {
    let key = &query.0;
    let object = cx.object(&object_key(key))?;
    let keys = cx.query(&SelectorKeys(key.namespace.clone()));
    let inherited = cx.query(&NamespaceDefaults(key.namespace.clone()));
    let targets = targets_of(cx, object);
    let content = ShapeContent { targets, ..content(cx, object, &keys, &inherited) };
    let shape = cx.intern_shape(WorkloadShape::new(content));
    let owners = cx.query(&PortOwnersOf(shape.clone()));
    let targeted = named_ports(cx, &shape.namespace, &shape.targets);
    let declared = shape.declared.iter().chain(owners.ports.keys()).chain(&targeted);
    let declared = declared.copied().collect();
    let undeclared = undeclared(cx, &shape);
    let (service_account, identity) = identity(cx, object);
    let state = WorkloadState {
        key: key.clone(),
        facts: Arc::new(facts(cx, object)),
        declared,
        undeclared,
        service_account,
        identity,
        owner: owner(object),
    };
    Some(Arc::new(ResolvedWorkload {
        shape,
        state: Arc::new(state),
        enforcement: Enforcement::of(object),
    }))
}

/// The owner of a workload's pod, or the workload itself.
fn owner(object: &Object) -> Arc<str> {
    let owner = match &object.body {
        Body::Valid(Resource::Pod(pod)) => pod.owner.clone(),
        Body::Valid(_) | Body::Invalid(_) => None,
    };
    let key = &object.meta.key;
    let own = || format!("{}/{}", key.kind.as_str().to_ascii_lowercase(), key.name).into();
    owner.unwrap_or_else(own)
}

/// The key of a Namespace.
pub(crate) fn namespace_key(namespace: &Arc<str>) -> ObjectKey {
    ObjectKey { kind: Kind::Namespace, namespace: "".into(), name: namespace.clone() }
}

fn settings(query: &NamespaceDefaults, cx: &mut Context<'_>) -> NamespaceSettings {
    let Some(object) = cx.object(&namespace_key(&query.0)) else {
        return match cx.config.namespaces {
            Namespaces::Optional => NamespaceSettings::default(),
            Namespaces::Required => closed(None),
        };
    };
    let annotations = &object.meta.annotations;
    let opaque = annotations.get(annotation::OPAQUE_PORTS).cloned();
    match &object.body {
        Body::Valid(_) => NamespaceSettings {
            default_policy: [AnnotationReading::default(), as_linkerd(cx.config), OWN_READING]
                .map(|reading| annotation::default_policy(annotations, reading).value),
            undeclared: annotation::undeclared_ports(annotations).value,
            opaque,
            require_identity: annotations.get(annotation::REQUIRE_IDENTITY).cloned(),
            is_unreadable: false,
        },
        Body::Invalid(_) => closed(opaque),
    }
}

/// The settings of a Namespace that cannot be read.
fn closed(opaque: Option<Arc<str>>) -> NamespaceSettings {
    NamespaceSettings {
        default_policy: [Some(DefaultPolicy::Deny), Some(DefaultPolicy::Deny), None],
        undeclared: Some(UndeclaredPorts::Deny),
        opaque,
        require_identity: Some(EVERY_PORT.into()),
        is_unreadable: true,
    }
}

/// The policy of undeclared ports of a shape: its own annotation over the namespace's over the
/// cluster's.
pub(crate) fn undeclared(cx: &mut Context<'_>, shape: &WorkloadShape) -> UndeclaredPorts {
    let namespace = cx.query(&NamespaceDefaults(shape.namespace.clone()));
    // Linkerd does not read Namespaces. Where only ours of its annotations count, one that has not
    // been read, or cannot be, closes nothing.
    let ignored = namespace.is_unreadable && shape.inherited == Inherited::Own;
    let inherited = namespace.undeclared.filter(|_| !ignored);
    shape.undeclared.or(inherited).unwrap_or(cx.config.undeclared_ports)
}

/// The workload's default policy: its own over the namespace's over the cluster's.
pub(crate) fn default_policy(cx: &mut Context<'_>, shape: &WorkloadShape) -> DefaultPolicy {
    let namespace = cx.query(&NamespaceDefaults(shape.namespace.clone()));
    let inherited = namespace.default_policy(shape.inherited);
    shape.default_policy.or(inherited).unwrap_or(cx.config.default_policy)
}

/// Annotations of ours alone, which Linkerd's injector does not copy.
const OWN_READING: AnnotationReading = AnnotationReading {
    default_policy: DefaultPolicyNames::Own,
    ignores_unknown: false,
    voids_lists: false,
};

/// The way in which the annotations of `object` are read. Linkerd's is for its own proxies: a
/// workload with our sidecar has never been under it.
pub(crate) fn reading(config: &ControllerConfig, object: &Object) -> AnnotationReading {
    match has_our_sidecar(object) {
        true => AnnotationReading::default(),
        false => as_linkerd(config),
    }
}

fn as_linkerd(config: &ControllerConfig) -> AnnotationReading {
    let current = config.follows_linkerd(Behaviour::DefaultPolicyAnnotations);
    AnnotationReading {
        default_policy: match current {
            true => DefaultPolicyNames::Current,
            false => DefaultPolicyNames::All,
        },
        ignores_unknown: config.follows_linkerd(Behaviour::UnknownDefaultPolicies),
        voids_lists: config.follows_linkerd(Behaviour::PortLists),
    }
}

/// The annotations of the Namespace that count for `object`. Linkerd's injector has been where its
/// label is; it never sees ExternalWorkloads.
fn inherited(config: &ControllerConfig, object: &Object) -> Inherited {
    let enforcement = Enforcement::running(object);
    let copied = config.follows_linkerd(Behaviour::NamespaceAnnotations);
    if copied && enforcement == Enforcement::Compatible {
        Inherited::Own
    } else if reading(config, object) == AnnotationReading::default() {
        // One value, so that workloads of one shape share it.
        Inherited::All
    } else {
        Inherited::AsLinkerd
    }
}

fn content(
    cx: &Context<'_>,
    object: &Object,
    keys: &BTreeSet<Arc<str>>,
    defaults: &NamespaceSettings,
) -> ShapeContent {
    let (named_ports, ports, probes) = ports(object);
    let annotations = &object.meta.annotations;
    let known = |name: &str| named_ports.get(name).cloned();
    let NamespaceSettings { opaque, require_identity, .. } = defaults;
    let (inherited, reading) = (inherited(cx.config, object), reading(cx.config, object));
    let of_namespace =
        |list: &'_ Option<Arc<str>>| list.clone().filter(|_| inherited != Inherited::Own);
    let opaque = listed((OPAQUE, reading), annotations, of_namespace(opaque), &known);
    let require_identity =
        listed((IDENTITY, reading), annotations, of_namespace(require_identity), &known);
    let probed = probes.iter().filter(|probe: &&Probe| probe.reaches_the_pod());
    let probed = probed.map(|probe| probe.port);
    let proxy: BTreeSet<NonZeroU16> = proxy_ports(cx, object).collect();
    let most = cx.config.limits.declared_ports_per_workload.get();
    ShapeContent {
        kind: kind_of(object),
        namespace: object.meta.key.namespace.clone(),
        labels: object
            .meta
            .labels
            .iter()
            .filter(|(key, _)| keys.contains(*key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        default_policy: match &object.body {
            Body::Valid(_) => annotation::default_policy(annotations, reading).value,
            Body::Invalid(_) => Some(DefaultPolicy::Deny),
        },
        inherited,
        undeclared: annotation::undeclared_ports(annotations).value,
        opaque,
        require_identity,
        skipped: match &object.body {
            Body::Valid(Resource::Pod(pod)) => Ports::from(&pod.skipped),
            Body::Valid(_) | Body::Invalid(_) => Ports::default(),
        },
        declared: ports.into_iter().take(most).chain(probed).chain(proxy.iter().copied()).collect(),
        proxy_by_default: cx.config.follows_linkerd(Behaviour::AdminPort)
            && !has_our_sidecar(object),
        proxy,
        named_ports,
        probes,
        targets: BTreeSet::new(),
    }
}

fn kind_of(object: &Object) -> WorkloadKind {
    match object.meta.key.kind == Kind::ExternalWorkload {
        true => WorkloadKind::ExternalWorkload,
        false => WorkloadKind::Pod,
    }
}

/// An annotation that lists ports, and how it is read.
type List = (&'static str, fn(&Annotations, &PortsByName<'_>) -> Reading<PortSet>);

const OPAQUE: List = (annotation::OPAQUE_PORTS, annotation::opaque_ports);
const IDENTITY: List = (annotation::REQUIRE_IDENTITY, annotation::require_identity_ports);

/// The ports of a list: of the workload's own annotation, else of its namespace's, which may name
/// ports that only other workloads have. `known` returns the numbers of the workload's port names.
fn listed(
    ((name, read), reading): (List, AnnotationReading),
    own: &Annotations,
    inherited: Option<Arc<str>>,
    known: &dyn Fn(&str) -> Option<Vec<NonZeroU16>>,
) -> Ports {
    let inherited = inherited.filter(|_| !own.contains_key(name));
    let shared = inherited.map(|list| Annotations::from([(Arc::from(name), list)]));
    if reading.voids_lists {
        let list = shared.as_ref().unwrap_or(own);
        return Ports::from(&annotation::ports_as_linkerd(list, name).value);
    }
    let Some(shared) = shared else {
        return Ports::from(&read(own, &|name| annotation::own_name(known(name))).value);
    };
    Ports::from(&read(&shared, &|name| annotation::shared_name(name, known(name))).value)
}

/// The ports of the proxy itself, if there is one: the default ones, and the admin port that the
/// workload states. Our sidecar always has the default port.
fn proxy_ports(cx: &Context<'_>, object: &Object) -> impl Iterator<Item = NonZeroU16> {
    let usual = cx.config.proxy_ports.clone();
    let own = annotation::admin_port(&object.meta.annotations).value;
    let own = own.filter(|_| !usual.is_empty() && !has_our_sidecar(object));
    usual.into_iter().chain(own)
}

type PortsOf = (BTreeMap<Arc<str>, Vec<NonZeroU16>>, Vec<NonZeroU16>, BTreeSet<Probe>);

/// Numbers by name, all numbers, and probes.
fn ports(object: &Object) -> PortsOf {
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => pod_ports(pod),
        Body::Valid(Resource::ExternalWorkload(workload)) => {
            let named = workload.named_ports.iter();
            let named = named.map(|(name, number)| (name.clone(), vec![*number])).collect();
            (named, workload.ports.clone(), BTreeSet::new())
        }
        Body::Valid(_) | Body::Invalid(_) => PortsOf::default(),
    }
}

fn pod_ports(pod: &Pod) -> PortsOf {
    let mut named: BTreeMap<Arc<str>, BTreeSet<NonZeroU16>> = BTreeMap::new();
    for port in &pod.ports {
        if let Some(name) = &port.name {
            named.entry(name.clone()).or_default().insert(port.number);
        }
    }
    let named = named.into_iter().map(|(name, set)| (name, set.into_iter().collect())).collect();
    let numbers = pod.ports.iter().map(|port| port.number).collect();
    (named, numbers, pod.probes.iter().cloned().collect())
}

fn identity(cx: &Context<'_>, object: &Object) -> (Arc<str>, Arc<str>) {
    let none = || -> Arc<str> { "".into() };
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            let namespace = &object.meta.key.namespace;
            let identity = cx.config.service_account_identity(namespace, &pod.service_account);
            (pod.service_account.clone(), identity)
        }
        Body::Valid(Resource::ExternalWorkload(ExternalWorkload { identity, .. })) => {
            (none(), identity.clone())
        }
        Body::Valid(_) | Body::Invalid(_) => (none(), none()),
    }
}

fn facts(cx: &mut Context<'_>, object: &Object) -> Facts {
    let cluster = cx.config.cluster_networks.clone();
    let logs = annotation::logs(&object.meta.annotations).value;
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            let mut local: BTreeSet<IpNet> = hosts(&pod.host_addresses).collect();
            let mut proposed = Vec::new();
            if let Some(name) = &pod.node {
                let key = ObjectKey { kind: Kind::Node, namespace: "".into(), name: name.clone() };
                if let Some(Body::Valid(Resource::Node(node))) = cx.object(&key).map(|o| &o.body) {
                    let Node { addresses, pod_gateways } = node;
                    local.extend(hosts(addresses));
                    match cx.config.pod_gateways {
                        PodGateways::ByRoute => proposed.extend(folded(pod_gateways)),
                        PodGateways::OfNode => local.extend(hosts(pod_gateways)),
                        PodGateways::OfPods => {}
                    }
                }
            }
            Facts {
                pod_addresses: pod.addresses.clone(),
                node_local: local.into_iter().collect(),
                pod_gateways: proposed,
                cluster,
                logs,
            }
        }
        Body::Valid(Resource::ExternalWorkload(workload)) => {
            Facts { pod_addresses: workload.addresses.clone(), cluster, logs, ..Facts::default() }
        }
        Body::Valid(_) | Body::Invalid(_) => Facts { cluster, logs, ..Facts::default() },
    }
}

fn hosts(addresses: &[IpAddr]) -> impl Iterator<Item = IpNet> {
    folded(addresses).map(IpNet::from)
}

fn folded(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    addresses.iter().map(|address| policy_core::fold_mapped(*address))
}
