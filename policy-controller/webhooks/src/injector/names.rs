//! Annotations that nobody knows: slips of ours are refused, all others that were meant are told.

use super::ask::{Answer, INJECT, INJECT_LABEL, Surroundings, Texts, of_namespace};
use super::element::texts;
use super::setting::{LINKERDS, OWN, Setting};
use super::sidecar::VERSION_ANNOTATION;
use policy_crds::{
    Body, FieldError, Object, ObjectMeta, Resource, annotation, nearest, nearest_within,
};
use serde_json::Value;
use std::sync::Arc;

/// What the controller reads from pods and namespaces. The admin port is none of it: it concerns
/// proxies that others inject, ours is always where the injector puts it.
const OF_POLICY: [&str; 6] = [
    annotation::DEFAULT_POLICY[0],
    annotation::DEFAULT_POLICY[1],
    annotation::UNDECLARED_PORTS,
    annotation::OPAQUE_PORTS,
    annotation::REQUIRE_IDENTITY,
    annotation::PATH_NORMALIZATION,
];

/// What the injector writes.
const WRITTEN: [&str; 2] = [VERSION_ANNOTATION, annotation::SKIPPED_PORTS];

/// Every name that means something.
fn known() -> Vec<String> {
    let settings = Setting::ALL.into_iter().flat_map(Setting::annotations);
    let others = OF_POLICY.into_iter().chain(INJECT).chain(WRITTEN);
    settings.chain(others.map(str::to_owned)).collect()
}

/// The known name that was probably meant. The prefix is long, so the parts after it are compared; a
/// name of the same prefix first.
fn near(name: &str, known: &[String], edits: usize) -> Option<String> {
    let (prefix, rest) = name.split_once('/')?;
    let parts = known.iter().filter_map(|name| name.split_once('/'));
    let (same, others): (Vec<_>, Vec<_>) = parts.partition(|(of, _)| *of == prefix);
    [same, others].into_iter().find_map(|parts| {
        let rests: Vec<&str> = parts.iter().map(|(_, rest)| *rest).collect();
        let found = nearest_within(rest, &rests, edits)?;
        let (prefix, rest) = parts.into_iter().find(|(_, rest)| *rest == found)?;
        Some(format!("{prefix}/{rest}"))
    })
}

/// Annotations of a pod with our prefix that mean nothing, and those of policy whose value means
/// nothing.
pub(super) fn unknown(annotations: &Texts) -> Vec<FieldError> {
    let mut errors = mistyped(annotations, "");
    let shared: annotation::Annotations = annotations
        .iter()
        .map(|(name, text)| (Arc::from(name.as_str()), Arc::from(text.as_str())))
        .collect();
    let of_policy = annotation::default_policy(&shared).errors;
    let undeclared = annotation::undeclared_ports(&shared).errors;
    let own = annotation::field(annotation::DEFAULT_POLICY[1]);
    errors.extend(of_policy.into_iter().filter(|error| error.field == own));
    errors.extend(undeclared);
    errors
}

/// Letters that a slip of the hand changes.
const SLIP: usize = 2;

/// Annotations with our prefix that are surely meant to be another one; `place` comes before the name
/// of the field.
pub(super) fn mistyped(annotations: &Texts, place: &str) -> Vec<FieldError> {
    let known = known();
    let slip = |name: &String| {
        let near = near(name, &known, SLIP)?;
        let message = format!("there is no such annotation; did you mean `{near}`?");
        Some(FieldError { field: format!("{place}{}", shown(name)), message })
    };
    strange(annotations, &known).filter_map(slip).collect()
}

/// Annotations with our prefix that mean nothing and are near to nothing. They may be of another
/// version, which must be able to go back to this one: they have no effect, and that is told.
pub(super) fn strangers(annotations: &Texts, place: &str) -> Vec<FieldError> {
    let known = known();
    let stranger = |name: &&String| near(name, &known, SLIP).is_none();
    let remark = |name: &String| {
        let own = known.iter().filter_map(|name| name.strip_prefix(OWN));
        let own: Vec<&str> = own.collect();
        let message = format!(
            "has no effect: this version ({}) does not know it; after `{OWN}` it knows {}",
            env!("CARGO_PKG_VERSION"),
            own.join(", ")
        );
        FieldError { field: format!("{place}{}", shown(name)), message }
    };
    strange(annotations, &known).filter(stranger).map(remark).collect()
}

/// Names with our prefix that mean nothing.
fn strange<'a>(annotations: &'a Texts, known: &[String]) -> impl Iterator<Item = &'a String> {
    let ours = annotations.keys().filter(|name| name.starts_with(OWN));
    ours.filter(|name| !known.contains(name))
}

fn shown(name: &str) -> String {
    let shown: String = name.chars().take(LONGEST).collect();
    annotation::field(&shown)
}

/// The annotations of a namespace that are about injection, or would be if they were spelled well.
pub(crate) fn about_injection(namespace: &Value) -> Texts {
    let mut annotations = texts(namespace.pointer("/metadata/annotations"));
    let is_ours = |name: &str| name.starts_with(OWN) || is_of_linkerds_injector(name);
    annotations.retain(|name, _| is_ours(name) || INJECT.contains(&name.as_str()));
    annotations
}

fn is_of_linkerds_injector(name: &str) -> bool {
    LINKERDS.iter().any(|prefix| name.starts_with(prefix))
}

/// What is wrong with them. Their author should know before pods are refused, or, where the namespace
/// is the one that asks, before they run without a sidecar or without what a setting asks for.
pub(crate) fn injection_remarks(namespace: &Value) -> Vec<FieldError> {
    let annotations = about_injection(namespace);
    let labels = texts(namespace.pointer("/metadata/labels"));
    let mut remarks = mistyped(&annotations, "");
    remarks.extend(strangers(&annotations, ""));
    match of_namespace(&annotations, &labels, "") {
        Ok(Some(Answer::Enabled)) => remarks.extend(without_effect(&annotations, OURS)),
        Ok(Some(Answer::Disabled) | None) => {}
        Err(errors) => remarks.extend(errors),
    }
    remarks
}

/// Remarks on a valid Namespace from which our injector takes settings: the annotations that it
/// leaves aside, where Linkerd's would heed them. A Namespace that says `linkerd.io/inject` alone may
/// mean Linkerd's injector; where ours is at work, it has our label too.
pub fn namespace_remarks(namespace: &Object) -> Vec<FieldError> {
    let ObjectMeta { annotations, labels, .. } = &namespace.meta;
    let answer = annotations.get(INJECT_LABEL).or_else(|| labels.get(INJECT_LABEL));
    let asks = answer.is_some_and(|answer| &**answer == "enabled");
    if !asks || !matches!(namespace.body, Body::Valid(Resource::Namespace)) {
        return Vec::new();
    }
    let text = |(name, value): (&Arc<str>, &Arc<str>)| (name.to_string(), value.to_string());
    without_effect(&annotations.iter().map(text).collect(), OURS)
}

/// Annotations of a namespace that Linkerd's injector would heed and ours leaves aside, for the author
/// of a pod that does not state them itself.
pub(super) fn left_aside(pod: &Texts, around: &Surroundings) -> Vec<String> {
    let mut inherited = around.annotations.clone();
    inherited.retain(|name, _| !pod.contains_key(name));
    let remarks = strangers(&inherited, "").into_iter().chain(without_effect(&inherited, THIS));
    remarks.map(|remark| format!("{}{remark}", around.place())).collect()
}

/// Annotations of a pod that Linkerd's injector would heed and ours leaves aside, or that are near to
/// one that asks.
pub(super) fn doubtful(annotations: &Texts) -> Vec<String> {
    let remarks = without_effect(annotations, THIS);
    let remarks = strangers(annotations, "").into_iter().chain(remarks);
    let mut warnings: Vec<String> = remarks.map(|remark| remark.to_string()).collect();
    let asks = INJECT.join("` and `");
    let others = annotations.keys().filter(|name| name.starts_with("linkerd.io/"));
    let shown = others.filter(|name| name.len() <= LONGEST && !INJECT.contains(&name.as_str()));
    for name in shown.filter(|name| nearest(name, &INJECT).is_some()) {
        let field = annotation::field(name);
        warnings.push(format!("{field}: has no effect; `{asks}` ask for a sidecar"));
    }
    warnings
}

/// The sidecar of one pod.
const THIS: &str = "this sidecar";
/// Those of a namespace, which may have others too.
const OURS: &str = "the sidecars of Portcullis";
/// Bytes of a name that is shown.
const LONGEST: usize = 128;

/// Annotations that Linkerd's injector would heed and ours leaves aside.
fn without_effect(annotations: &Texts, sidecars: &str) -> Vec<FieldError> {
    let known = known();
    let names = annotations.keys().filter(|name| is_of_linkerds_injector(name));
    let unknown = names.filter(|name| name.len() <= LONGEST && !known.contains(name));
    let remark = |name: &String| {
        // What is about the other direction is no slip: `skip-inbound-ports` would open ports.
        let near = near(name, &known, usize::MAX).filter(|_| !name.contains("outbound"));
        let hint = near.map(|near| format!("; did you mean `{near}`?"));
        let message = format!("has no effect on {sidecars}{}", hint.unwrap_or_default());
        FieldError { field: annotation::field(name), message }
    };
    unknown.map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Texts {
        names.iter().map(|name| ((*name).to_owned(), "enabled".to_owned())).collect()
    }

    #[test]
    fn a_mistyped_annotation_of_ours_is_refused_with_the_nearest_known_one() {
        let said = |name| {
            let errors = unknown(&texts(&[name]));
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wrong = |name, near| {
            vec![format!(
                "metadata.annotations[\"{name}\"]: there is no such annotation; did you mean `{near}`?"
            )]
        };
        for (name, near) in [
            ("portcullis.dev/injct", "portcullis.dev/inject"),
            ("portcullis.dev/proxy-loglevel", "portcullis.dev/proxy-log-level"),
            ("portcullis.dev/opaque-port", "config.linkerd.io/opaque-ports"),
        ] {
            assert_eq!(said(name), wrong(name, near));
        }
        for name in ["portcullis.dev/team", "portcullis.dev/proxy-of-next-year"] {
            assert_eq!(said(name), Vec::<String>::new());
            let told = doubtful(&texts(&[name]));
            assert!(told[0].contains("has no effect: this version ("), "{told:?}");
        }
        assert_eq!(said("portcullis.dev/inject"), Vec::<String>::new());
        assert_eq!(said("example.com/injct"), Vec::<String>::new());
        assert!(said("portcullis.dev/default-allow")[0].contains("unknown value `enabled`"));
        assert_eq!(said("config.linkerd.io/default-inbound-policy"), Vec::<String>::new());
    }

    #[test]
    fn annotations_of_others_are_never_refused() {
        let names = ["config.linkerd.io/skip-outbound-ports", "linkerd.io/injct", "a/b"];
        assert_eq!(unknown(&texts(&names)), []);
        assert_eq!(
            doubtful(&texts(&names)),
            [
                "metadata.annotations[\"config.linkerd.io/skip-outbound-ports\"]: has no effect on \
                 this sidecar",
                "metadata.annotations[\"linkerd.io/injct\"]: has no effect; \
                 `portcullis.dev/inject` and `linkerd.io/inject` ask for a sidecar",
            ]
        );
        assert_eq!(doubtful(&texts(&["config.linkerd.io/opaque-ports"])), Vec::<String>::new());
    }
}
