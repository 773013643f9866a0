//! The workloads of the files: whose ports are closed, and which labels select them and no others.

use crate::file::{ImportFile, SourceNode};
use crate::report::{Fidelity, ReportRow};
use policy_crds::annotation::DEFAULT_POLICY;
use policy_crds::resource::{ContainerPort, Pod};
use policy_crds::{Body, Expression, LabelSelector, Operator, Resource, parse, quote};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Labels that controllers add, which differ between pods of one workload or between its revisions.
const GENERATED: &[&str] = &[
    "pod-template-hash",
    "pod-template-generation",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
];
/// The kinds that are workloads.
const KINDS: &[&str] =
    &["Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"];

/// Pods with the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadUnit {
    /// Their namespace.
    pub(crate) namespace: String,
    /// The name of the object that makes them.
    pub(crate) name: String,
    /// Their labels, without those that controllers add.
    pub(crate) labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Their ServiceAccount.
    pub(crate) account: String,
    /// Their TCP ports by number, with the names that each has.
    pub(crate) ports: BTreeMap<u16, Option<String>>,
    /// The labels that other workloads have besides, which select those.
    pub(crate) absent: BTreeSet<Arc<str>>,
    /// True if others have the same labels and differ in something that policies tell apart, or if there are
    /// no labels.
    pub(crate) is_ambiguous: bool,
}

/// The workloads of all files.
#[derive(Debug, Default)]
pub(crate) struct WorkloadUnits {
    /// The workloads, by namespace and name.
    pub(crate) units: Vec<WorkloadUnit>,
    /// The Namespaces of the files by name.
    pub(super) namespaces: BTreeMap<String, Value>,
    /// Namespaces with pods of a template that is not read.
    unread: BTreeSet<String>,
}

/// True if a controller gives pods this label, so that no template has it.
pub(crate) fn is_generated(label: &str) -> bool {
    GENERATED.contains(&label)
}

/// True if an object is a workload, which policies are about.
pub(crate) fn is_workload(object: &SourceNode<'_>) -> bool {
    let kind = object.get("kind").and_then(|kind| kind.scalar());
    kind.is_some_and(|kind| KINDS.contains(&kind.as_str()))
}

impl WorkloadUnits {
    /// Reads the workloads. Those that cannot be read have rows, and policies about them select nothing.
    pub(crate) fn read(
        files: &[ImportFile],
        namespace: Option<&str>,
        rows: &mut Vec<ReportRow>,
    ) -> Self {
        let mut units: Vec<WorkloadUnit> = Vec::new();
        let (mut namespaces, mut unread) = (BTreeMap::new(), BTreeSet::new());
        for object in files.iter().flat_map(ImportFile::objects) {
            if !is_workload(&object) {
                namespaces.extend(namespace_object(&object));
                unread.extend(has_template(&object).then(|| namespace_of(&object, namespace)));
                continue;
            }
            match unit(&object, namespace) {
                Some((unit, notes)) => {
                    let subject = format!("workload {}", unit.name);
                    let row =
                        |note| ReportRow::at(object.place(), &*subject, Fidelity::Omitted, note);
                    rows.extend(notes.into_iter().map(row));
                    add(&mut units, unit);
                }
                None => {
                    unread.insert(namespace_of(&object, namespace));
                    let note = "it cannot be read; `portcullis check` says why";
                    let omitted = Fidelity::Omitted;
                    rows.push(ReportRow::at(object.place(), "a workload", omitted, note));
                }
            }
        }
        units.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        number_names(&mut units);
        let seen = units.clone();
        for (at, unit) in units.iter_mut().enumerate() {
            let others = seen.iter().enumerate().filter(|(other, _)| *other != at);
            tell_apart(unit, others.map(|(_, other)| other));
        }
        Self { units, namespaces, unread }
    }

    /// The Namespaces of the files that have the labels of a selector. One that asks for the absence of labels
    /// selects none, because a Namespace of the cluster may have more of them.
    pub(crate) fn namespaces_with(&self, selector: &LabelSelector) -> Vec<String> {
        let is_sure = |it: &Expression| matches!(it.operator, Operator::In(_) | Operator::Exists);
        if !selector.match_expressions.iter().all(is_sure) {
            return Vec::new();
        }
        let has_them = |(_, object): &(&String, &Value)| {
            let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
            let text = |(key, value): (&String, &Value)| {
                Some((Arc::from(key.as_str()), Arc::from(value.as_str()?)))
            };
            selector.matches(&labels.into_iter().flatten().filter_map(text).collect())
        };
        self.namespaces.iter().filter(has_them).map(|(name, _)| name.clone()).collect()
    }

    /// The ServiceAccounts of the workloads that a test selects in a namespace, if no workload that it does
    /// not select has one of them. `None`: there is none, or they cannot be told apart.
    pub(crate) fn accounts(
        &self,
        namespace: &str,
        selects: impl Fn(&WorkloadUnit) -> bool,
    ) -> Option<BTreeSet<(String, String)>> {
        // A pod of an unread template may have one of these accounts and not be selected.
        if self.unread.contains(namespace) {
            return None;
        }
        let of = self.units.iter().filter(|unit| unit.namespace == namespace);
        let (inside, outside): (Vec<_>, Vec<_>) = of.partition(|unit| selects(unit));
        let accounts: BTreeSet<&String> = inside.iter().map(|unit| &unit.account).collect();
        let shared = outside.iter().any(|unit| accounts.contains(&unit.account));
        let named = accounts.into_iter().map(|name| (namespace.to_owned(), name.clone()));
        (!inside.is_empty() && !shared).then(|| named.collect())
    }
}

/// The name and value of a Namespace.
fn namespace_object(object: &SourceNode<'_>) -> Option<(String, Value)> {
    let is_it =
        object.get("kind")?.value() == "Namespace" && object.get("apiVersion")?.value() == "v1";
    let name = object.get("metadata")?.get("name")?.scalar()?;
    is_it.then(|| (name, object.value().clone()))
}

/// The namespace of an object.
fn namespace_of(object: &SourceNode<'_>, namespace: Option<&str>) -> String {
    let own = object.get("metadata").and_then(|it| it.get("namespace")?.scalar());
    own.unwrap_or_else(|| namespace.unwrap_or("default").to_owned())
}

/// True if an object makes pods: a Rollout, a ReplicationController and the like.
fn has_template(object: &SourceNode<'_>) -> bool {
    let template = object.get("spec").and_then(|spec| spec.get("template"));
    template.and_then(|it| it.get("spec")?.get("containers")).is_some()
}

/// The annotations of pods that take ports out of what Servers decide: their notes.
fn exceptions(annotations: &BTreeMap<Arc<str>, Arc<str>>) -> Vec<String> {
    let opens = |key: &&str| annotations.get(*key).is_some_and(|value| **value != *"deny");
    let mut notes = Vec::new();
    if let Some(annotation) = DEFAULT_POLICY.into_iter().find(opens) {
        let annotation = quote(annotation);
        notes.push(format!(
            "its annotation {annotation} decides about ports that no container declares: take it away"
        ));
    }
    for (key, value) in annotations {
        match key.split_once('/') {
            Some((_, "skip-inbound-ports")) if !value.is_empty() => notes.push(format!(
                "its annotation {} leaves these ports open to everybody: take it away",
                quote(key)
            )),
            Some((_, "inject")) if **value == *"disabled" => notes.push(format!(
                "its annotation {} leaves its pods without a sidecar: all their ports stay open",
                quote(key)
            )),
            Some(_) | None => {}
        }
    }
    notes
}

/// A workload, and notes about annotations by which its pods decide otherwise than their namespace.
fn unit(object: &SourceNode<'_>, namespace: Option<&str>) -> Option<(WorkloadUnit, Vec<String>)> {
    let stated = object.get("metadata").and_then(|it| it.get("namespace")).is_some();
    let object = parse(object.value()).ok()?;
    let key = &object.meta.key;
    let (labels, annotations, pod): (_, _, &Pod) = match &object.body {
        Body::Valid(Resource::Pod(pod)) => (&object.meta.labels, &object.meta.annotations, pod),
        Body::Valid(Resource::Workload(workload)) => {
            (&workload.labels, &workload.annotations, &workload.pod)
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    let labels: BTreeMap<_, _> = labels
        .iter()
        .filter(|(key, _)| !is_generated(key))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let port = |port: &ContainerPort| (port.number.get(), port.name.as_deref().map(str::to_owned));
    let namespace = match namespace {
        Some(namespace) if !stated => namespace.to_owned(),
        Some(_) | None => key.namespace.to_string(),
    };
    let unit = WorkloadUnit {
        namespace,
        name: key.name.to_string(),
        account: pod.service_account.to_string(),
        ports: pod.ports.iter().map(port).collect(),
        absent: BTreeSet::new(),
        is_ambiguous: labels.is_empty(),
        labels,
    };
    Some((unit, exceptions(annotations)))
}

/// Adds a workload. One with the same labels and ServiceAccount is the same, as a Deployment's pods are.
fn add(units: &mut Vec<WorkloadUnit>, unit: WorkloadUnit) {
    let same = units.iter_mut().find(|other| {
        other.namespace == unit.namespace
            && other.labels == unit.labels
            && other.account == unit.account
    });
    let Some(other) = same else {
        units.push(unit);
        return;
    };
    let mut ambiguous: BTreeSet<String> = BTreeSet::new();
    for (number, name) in unit.ports {
        // A name that is not everywhere the same names nothing.
        let elsewhere = other
            .ports
            .iter()
            .any(|(own, known)| *own != number && name.is_some() && *known == name);
        if elsewhere {
            ambiguous.extend(name.clone());
        }
        let known = other.ports.entry(number).or_insert_with(|| name.clone());
        if *known != name {
            *known = None;
        }
    }
    // A name of several numbers is another port on each pod.
    for known in other.ports.values_mut() {
        if known.as_ref().is_some_and(|name| ambiguous.contains(name)) {
            *known = None;
        }
    }
}

/// Gives workloads of one name in a namespace names of their own.
fn number_names(units: &mut [WorkloadUnit]) {
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for unit in units {
        let count = seen.entry((unit.namespace.clone(), unit.name.clone())).or_default();
        *count = count.saturating_add(1);
        if *count > 1 {
            unit.name = format!("{}-{count}", unit.name);
        }
    }
}

/// Finds the labels that others have and this has not, so that its selector selects no other.
fn tell_apart<'a>(unit: &mut WorkloadUnit, others: impl Iterator<Item = &'a WorkloadUnit>) {
    for other in others.filter(|other| other.namespace == unit.namespace) {
        let is_inside = unit.labels.iter().all(|(key, value)| other.labels.get(key) == Some(value));
        if !is_inside {
            continue;
        }
        let more: Vec<_> =
            other.labels.keys().filter(|key| !unit.labels.contains_key(*key)).collect();
        match more.first() {
            Some(key) => {
                unit.absent.insert(Arc::clone(key));
            }
            None => unit.is_ambiguous = true,
        }
    }
}
