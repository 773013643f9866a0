//! Injection of sidecars into manifests, as the injector's webhook would do it.

use crate::unknown_fields;
use crate::unread_templates::{remark, unread_templates};
use policy_crds::document;
use policy_webhooks::injector::{
    JOB_WARNING, NamespaceContext, Outcome, Settings, Template, Uninjected, VERSION_ANNOTATION,
    asking, inject, left_alone, misplaced, not_text, recorded, templates, uninject,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// A manifest file.
pub(crate) struct ManifestInput {
    /// The file; `-` is standard input.
    pub(crate) name: String,
    /// Content.
    pub(crate) bytes: Vec<u8>,
}

/// Result of an injection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InjectResult {
    /// The documents, as YAML.
    pub(crate) yaml: String,
    /// Notes: what was injected, and what was not and why.
    pub(crate) notes: Vec<String>,
    /// Warnings: fields that a cluster would not store.
    pub(crate) warnings: Vec<String>,
    /// Errors. If there are any, the output should not be applied.
    pub(crate) errors: Vec<String>,
}

/// Namespace of objects without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The work on manifests.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Settings of the injector.
    pub(crate) settings: Settings,
    /// Further kinds that are injected, as `Kind` or `kind.group`.
    pub(crate) kinds: Vec<String>,
    /// True if sidecars are taken out instead.
    pub(crate) uninject: bool,
    /// True if `linkerd.io/inject` asks for a sidecar, too.
    pub(crate) reads_linkerd: bool,
}

impl Task {
    /// True if the sidecar is written into templates of this kind.
    fn writes(&self, template: &Template) -> bool {
        let full = format!("{}.{}", template.kind, template.group);
        let mut named = self.kinds.iter();
        template.is_known
            || named
                .any(|kind| [&template.kind, &full].iter().any(|it| it.eq_ignore_ascii_case(kind)))
    }
}

/// Injects every pod and pod template of the sources, or takes the sidecar out. Namespaces among them
/// apply to their pods.
pub(crate) fn manifests(sources: &[ManifestInput], task: &Task) -> InjectResult {
    let mut injected = InjectResult::default();
    let mut documents: Vec<Value> = Vec::new();
    for source in sources {
        injected.warnings.extend(unknown_fields::lines(&source.name, &source.bytes));
        for document in document::read_bytes(&source.bytes) {
            match document.value {
                Ok(Value::Null) => {}
                Ok(value @ Value::Object(_)) => documents.push(value),
                Ok(_) => {
                    let (name, line) = (&source.name, document.location.line);
                    let expected = "expected an object with `apiVersion`, `kind` and `metadata`";
                    injected.errors.push(format!("{name}: line {line}: {expected}"));
                }
                Err(error) => injected.errors.push(format!("{}: {error}", source.name)),
            }
        }
    }
    for error in strange_namespaces(&documents) {
        injected.errors.push(error);
    }
    let namespaces = namespaces(&documents);
    let mut texts = Vec::new();
    for mut document in documents {
        for template in templates(&document) {
            if task.uninject {
                take_out(&mut document, &template, &mut injected);
            } else {
                inject_template(&mut document, &template, &namespaces, task, &mut injected);
            }
        }
        if !task.uninject {
            injected.notes.extend(of_other_kinds(&document));
        }
        texts.push(policy_crds::render::yaml(&document));
    }
    injected.yaml = texts.join("---\n");
    injected
}

/// Notes about objects whose pod templates are left as they are, because their kind is not known.
fn of_other_kinds(document: &Value) -> Vec<String> {
    let note = |part: &policy_crds::Part<'_>| {
        let paths = unread_templates(&part.value);
        let text = |pointer: &str| part.value.pointer(pointer).and_then(Value::as_str);
        let (kind, name) = (text("/kind")?, text("/metadata/name").unwrap_or_default());
        let name = match text("/metadata/namespace") {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        (!paths.is_empty()).then(|| format!("{kind} {name}: not injected: {}", remark(&paths)))
    };
    policy_crds::parts(document).iter().filter_map(note).collect()
}

/// Takes the sidecar out of a template.
fn take_out(document: &mut Value, template: &Template, injected: &mut InjectResult) {
    let Some(pod) = document.pointer_mut(&template.pointer) else { return };
    let Some(Uninjected { pod: without, lost }) = uninject(pod) else {
        injected.notes.push(format!("{template}: has no sidecar"));
        return;
    };
    *pod = *without;
    injected.notes.push(format!("{template}: sidecar taken out"));
    let lost = lost.into_iter().map(|path| {
        format!("{template}: {path} is not as it was before the injection, because the pod changed since")
    });
    injected.notes.extend(lost);
}

fn inject_template(
    document: &mut Value,
    template: &Template,
    namespaces: &BTreeMap<String, NamespaceContext>,
    task: &Task,
    injected: &mut InjectResult,
) {
    let Template { kind, namespace, place, pointer, .. } = template;
    let object = pointer.strip_suffix(*place).and_then(|object| document.pointer(object));
    let remarks = object.map(|object| misplaced(object, place)).unwrap_or_default();
    let Some(pod) = document.pointer_mut(pointer) else { return };
    let home = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
    let around = namespaces.get(home).cloned().unwrap_or_else(|| NamespaceContext::unknown(home));
    // Who applies a manifest without a namespace chooses it then.
    let is_assumed = namespace.is_empty();
    let reads_linkerd = task.reads_linkerd;
    let around = NamespaceContext { default_enabled: true, is_assumed, reads_linkerd, ..around };
    if let Some(why) = left_alone(&around, &task.settings.control_plane.namespace) {
        injected.notes.push(format!("{template}: not injected: {why}"));
        return;
    }
    let Injection { before, note, outcome } = Injection::of(pod, &around, &task.settings);
    let warnings = match outcome {
        Outcome::Injected { warnings, .. } if !task.writes(template) => {
            injected.notes.push(leave_to_injector(pod, template));
            warnings
        }
        Outcome::Injected { pod: with, warnings } => {
            *pod = recorded(before.as_ref().unwrap_or(pod), *with);
            injected.notes.push(format!("{template}: {note}"));
            if !task.settings.native && ["Job", "CronJob"].contains(&kind.as_str()) {
                injected.notes.push(format!("{template}: {JOB_WARNING}"));
            }
            warnings
        }
        Outcome::Skipped { reason, mut warnings, unmarked } => {
            if let Some(unmarked) = unmarked {
                *pod = *unmarked;
            }
            // The reason is already printed with the note.
            warnings.retain(|warning| Some(warning) != reason.warning().as_ref());
            injected.notes.push(format!("{template}: not injected: {reason}"));
            warnings
        }
        Outcome::Refused(errors) => {
            injected.errors.extend(errors.into_iter().map(|error| format!("{template}: {error}")));
            Vec::new()
        }
    };
    let warnings = warnings.into_iter().chain(remarks.iter().map(ToString::to_string));
    injected.notes.extend(warnings.map(|warning| format!("{template}: {warning}")));
}

/// The injection of a pod.
struct Injection {
    /// The pod before it was injected, where another version injected it, or it has changed since.
    before: Option<Value>,
    /// The note about it, if it is injected.
    note: String,
    outcome: Outcome,
}

impl Injection {
    fn of(pod: &Value, around: &NamespaceContext, settings: &Settings) -> Self {
        let plain = |outcome| Self { before: None, note: "injected".to_owned(), outcome };
        let Some((version, Uninjected { pod: before, .. })) = version(pod).zip(uninject(pod))
        else {
            return plain(inject(pod, around, settings));
        };
        let now = inject(&before, around, settings);
        let Outcome::Injected { pod: with, .. } = &now else {
            return plain(inject(pod, around, settings));
        };
        let note = if self::version(with) != Some(version) {
            format!("brought up to date: its sidecar was of version {version}")
        } else {
            // Of a pod that is injected already, only what has changed is looked for.
            let given = inject(pod, around, settings);
            if !matches!(given, Outcome::Injected { .. }) {
                return plain(given);
            }
            "brought up to date: the pod has changed since it was injected".to_owned()
        };
        Self { before: Some(*before), note, outcome: now }
    }
}

/// Returns the version of the sidecar of a pod that is injected.
fn version(pod: &Value) -> Option<&str> {
    pod.get("metadata")?.get("annotations")?.get(VERSION_ANNOTATION)?.as_str()
}

/// Writes the annotation by which the injector adds the sidecar to the pods of a template, and returns
/// the note.
fn leave_to_injector(pod: &mut Value, template: &Template) -> String {
    let Template { kind, group, .. } = template;
    let dot = if group.is_empty() { "" } else { "." };
    if let Some(asking) = asking(pod) {
        *pod = asking;
    }
    format!(
        "{template}: no sidecar was written, because what handles a {kind} may refuse or drop it; its \
         pods ask the injector for one. `--kind {kind}{dot}{group}` writes it"
    )
}

/// Errors of Namespaces whose annotations are no text: nothing reads them.
fn strange_namespaces(documents: &[Value]) -> Vec<String> {
    let parts = documents.iter().flat_map(policy_crds::parts);
    let is = |part: &policy_crds::Part<'_>| {
        part.value.get("kind").and_then(Value::as_str) == Some("Namespace")
    };
    let errors = parts.filter(is).flat_map(|part| {
        let name = part.value.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        not_text(&part.value).into_iter().map(move |error| format!("Namespace {name}: {error}"))
    });
    errors.collect()
}

/// Namespaces among the documents, including those in Lists.
fn namespaces(documents: &[Value]) -> BTreeMap<String, NamespaceContext> {
    let items = |document: &Value| document.get("items").and_then(Value::as_array).cloned();
    let lists = documents.iter().filter_map(items).flatten();
    let all = documents.iter().cloned().chain(lists);
    let is = |document: &Value| document.get("kind").and_then(Value::as_str) == Some("Namespace");
    let found = all.filter(is).filter_map(|document| NamespaceContext::of(&document));
    found.map(|around| (around.namespace.clone(), around)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_webhooks::injector::{Bypass, ControlPlane, Defaults, OutboundSettings, Trust};

    fn task(native: bool) -> Task {
        Task {
            settings: settings(native),
            kinds: Vec::new(),
            uninject: false,
            reads_linkerd: false,
        }
    }

    fn settings(native: bool) -> Settings {
        let control_plane = ControlPlane::new("portcullis", "cluster.local", "cluster.local");
        let (trust, bypass) = (Trust::ConfigMap, Bypass::Warn);
        let outbound = OutboundSettings::default();
        Settings { defaults: Defaults::default(), control_plane, trust, bypass, native, outbound }
    }

    fn of(text: &str) -> InjectResult {
        let source = ManifestInput { name: "-".to_owned(), bytes: text.as_bytes().to_vec() };
        manifests(&[source], &task(true))
    }

    const SPEC: &str = "spec: {containers: [{name: a, image: a}]}";

    /// One of every kind that makes pods.
    fn every_kind() -> String {
        let templated = [
            ("apps/v1", "Deployment"),
            ("apps/v1", "DaemonSet"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "ReplicaSet"),
            ("v1", "ReplicationController"),
            ("batch/v1", "Job"),
        ];
        let mut documents: Vec<String> = templated
            .iter()
            .map(|(api, kind)| {
                format!(
                    "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{template: {{{SPEC}}}}}\n"
                )
            })
            .collect();
        documents.push(format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{SPEC}\n"));
        documents.push(format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: a}}\n\
             spec: {{schedule: '* * * * *', jobTemplate: {{spec: {{template: {{{SPEC}}}}}}}}}\n"
        ));
        documents.push(format!(
            "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Pod, metadata: {{name: b}}, {SPEC}}}\n"
        ));
        documents.join("---\n")
    }

    #[test]
    fn every_workload_kind_is_injected_and_doing_it_again_changes_nothing() {
        let once = of(&every_kind());
        assert_eq!(once.errors, Vec::<String>::new());
        assert_eq!(once.notes.len(), 9, "{:?}", once.notes);
        assert!(once.notes.iter().all(|note| note.ends_with(": injected")), "{:?}", once.notes);
        assert_eq!(once.yaml.matches("name: portcullis-proxy").count(), 9);
        let twice = of(&once.yaml);
        assert_eq!(twice.yaml, once.yaml);
        let again = ": not injected: the pod has a sidecar already, of version 0.1.0";
        assert!(twice.notes.iter().all(|note| note.ends_with(again)), "{:?}", twice.notes);
    }

    #[test]
    fn what_is_no_workload_passes_unchanged_and_silently() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
        assert_eq!(of(text), InjectResult { yaml: text.to_owned(), ..InjectResult::default() });
    }

    #[test]
    fn what_is_left_as_it_is_though_it_has_pods_or_is_no_object_is_said() {
        let text = format!(
            "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: ray, namespace: shop}}\n\
             spec: {{headGroupSpec: {{template: {{{SPEC}}}}}}}\n"
        );
        let out = of(&text);
        assert_eq!(out.errors, Vec::<String>::new());
        let [note] = &out.notes[..] else { panic!("{:?}", out.notes) };
        assert!(note.starts_with("RayCluster shop/ray: not injected: "), "{note}");
        assert!(note.contains("`spec.headGroupSpec.template`"), "{note}");
        for text in ["Kind = \"service-intentions\"\n", "- a\n", "NAME READY\nweb 1/1\n"] {
            let out = of(text);
            assert!(out.errors[0].starts_with("-: line 1: expected an object"), "{:?}", out.errors);
        }
    }

    #[test]
    fn a_namespace_in_the_input_counts() {
        let text = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, annotations: \
             {{portcullis.dev/inject: disabled}}}}\n---\napiVersion: v1\nkind: Pod\n\
             metadata: {{name: a, namespace: shop}}\n{SPEC}\n"
        );
        let out = of(&text);
        assert_eq!(out.notes, ["Pod shop/a: not injected: namespace shop says `disabled`"]);
        assert!(!out.yaml.contains("portcullis-proxy"));
    }

    #[test]
    fn what_is_refused_or_cannot_be_read_is_an_error_with_its_place() {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, annotations: {{portcullis.dev/inject: ingress}}}}\n{SPEC}\n"
        );
        let errors = of(&pod).errors;
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with("Pod a: metadata.annotations[\"portcullis.dev/inject\"]: "));
        assert!(of("a: [").errors[0].starts_with("-: line 1, "), "{:?}", of("a: [").errors);
    }

    #[test]
    fn a_job_with_a_plain_container_is_reported() {
        let job = format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec: {{template: {{{SPEC}}}}}\n"
        );
        let source = ManifestInput { name: "-".to_owned(), bytes: job.into_bytes() };
        let notes = manifests(&[source], &task(false)).notes;
        assert_eq!(notes[1], format!("Job a: {JOB_WARNING}"));
    }
}
