//! Opting in to the sidecar, by an annotation of the pod or of its namespace.

use super::setting::OWN;
use super::skip_reason::SkipReason;
use policy_crds::{FieldError, annotation, nearest};
use std::collections::BTreeMap;

/// The injection annotations of a pod or namespace. The second asks Linkerd's injector, and this one only
/// where it is told to read it: beside Linkerd a pod must not get two sidecars.
pub const INJECT: [&str; 2] = [INJECT_LABEL, LINKERD_INJECT];

/// The annotation that asks Linkerd's injector.
pub const LINKERD_INJECT: &str = "linkerd.io/inject";

/// The label of a namespace by which the API server selects it: a copy of its annotation, written
/// by the controller or by hand.
pub const INJECT_LABEL: &str = "portcullis.dev/inject";

/// Labels or annotations.
pub(super) type StringMap = BTreeMap<String, String>;

/// The namespace of a pod, and the default for pods without injection annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceContext {
    /// Name of the namespace, for messages.
    pub namespace: String,
    /// Annotations of the namespace.
    pub annotations: BTreeMap<String, String>,
    /// Labels of the namespace.
    pub labels: BTreeMap<String, String>,
    /// True if pods are injected when neither they nor their namespace have an injection
    /// annotation, as in `portcullis inject`.
    pub default_enabled: bool,
    /// True if the name is an assumption: a manifest states none, and gets one when it is applied.
    pub is_assumed: bool,
    /// True if `linkerd.io/inject` asks this injector, too.
    pub reads_linkerd: bool,
}

impl NamespaceContext {
    /// True if the namespace opts in: its pods are injected unless they opt out.
    pub fn is_enabled(&self) -> bool {
        matches!(self.answer(""), Ok(Some(OptIn::Enabled)))
    }

    /// True if it would opt in if `linkerd.io/inject` asked this injector, too.
    pub fn is_enabled_as_linkerd_reads(&self) -> bool {
        Self { reads_linkerd: true, ..self.clone() }.is_enabled()
    }

    /// Returns what the namespace says. `place` precedes the fields of errors.
    pub(super) fn answer(&self, place: &str) -> Result<Option<OptIn>, Vec<FieldError>> {
        of_namespace(&self.annotations, &self.labels, place, self.reads_linkerd)
    }

    /// Returns the prefix of the namespace's fields in messages about a pod.
    pub(super) fn place(&self) -> String {
        format!("Namespace {}: ", self.namespace)
    }
}

/// The value of an injection annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptIn {
    Enabled,
    Disabled,
}

/// The decision on injecting a pod, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OptInDecision {
    Inject,
    DisabledByPod,
    DisabledByNamespace(String),
    AsksLinkerd,
    NotRequested,
}

impl OptInDecision {
    /// Returns the reason why the pod is not injected, if so.
    pub(super) fn skip_reason(&self) -> Option<SkipReason> {
        match self {
            Self::Inject => None,
            Self::DisabledByPod => Some(SkipReason::DisabledByPod),
            Self::DisabledByNamespace(name) => Some(SkipReason::DisabledByNamespace(name.clone())),
            Self::AsksLinkerd => Some(SkipReason::AsksLinkerd),
            Self::NotRequested => Some(SkipReason::NotRequested),
        }
    }
}

/// Decides whether a pod is injected. Its own annotation takes precedence over its namespace's.
pub(super) fn decide(
    pod: &StringMap,
    context: &NamespaceContext,
) -> Result<OptInDecision, Vec<FieldError>> {
    match of_pod(pod, context.reads_linkerd)? {
        Some(OptIn::Enabled) => return Ok(OptInDecision::Inject),
        Some(OptIn::Disabled) => return Ok(OptInDecision::DisabledByPod),
        None => {}
    }
    Ok(match context.answer(&context.place())? {
        Some(OptIn::Enabled) => OptInDecision::Inject,
        Some(OptIn::Disabled) => OptInDecision::DisabledByNamespace(context.namespace.clone()),
        // Who asks another injector alone does not mean this one. An annotation of ours does.
        None if context.default_enabled
            && pod.contains_key(LINKERD_INJECT)
            && !pod.keys().any(|name| name.starts_with(OWN)) =>
        {
            OptInDecision::AsksLinkerd
        }
        None if context.default_enabled => OptInDecision::Inject,
        None => OptInDecision::NotRequested,
    })
}

/// Returns the value for a pod. Of `linkerd.io/inject`, `disabled` opts out in any case, unless its own
/// name says otherwise: who wants no proxy from Linkerd rarely wants another one.
fn of_pod(pod: &StringMap, reads_linkerd: bool) -> Result<Option<OptIn>, Vec<FieldError>> {
    if reads_linkerd {
        return annotation_value(pod, "", &INJECT);
    }
    let opts_out = || pod.get(LINKERD_INJECT).is_some_and(|answer| answer == "disabled");
    let own = annotation_value(pod, "", &[INJECT_LABEL])?;
    Ok(own.or_else(|| opts_out().then_some(OptIn::Disabled)))
}

/// Returns the value for a namespace: that of its annotations, else that of its label.
pub(super) fn of_namespace(
    annotations: &StringMap,
    labels: &StringMap,
    place: &str,
    reads_linkerd: bool,
) -> Result<Option<OptIn>, Vec<FieldError>> {
    let names = if reads_linkerd { &INJECT[..] } else { &[INJECT_LABEL] };
    let answer = annotation_value(annotations, place, names)?;
    let label = || match labels.get(INJECT_LABEL).map(String::as_str) {
        Some("enabled") => Some(OptIn::Enabled),
        Some("disabled") => Some(OptIn::Disabled),
        Some(_) | None => None,
    };
    Ok(answer.or_else(label))
}

/// Returns the value of the injection annotations of one object.
fn annotation_value(
    annotations: &StringMap,
    place: &str,
    names: &[&'static str],
) -> Result<Option<OptIn>, Vec<FieldError>> {
    let mut said: Option<(&str, OptIn)> = None;
    let mut errors = Vec::new();
    for name in names.iter().copied() {
        let Some(text) = annotations.get(name) else { continue };
        let field = format!("{place}{}", annotation::field(name));
        match read(text) {
            Err(message) => errors.push(FieldError { field, message }),
            Ok(answer) => match said {
                Some((other, before)) if before != answer => {
                    let message = format!(
                        "`{text}` says the opposite of `{other}` on the same object: give one of \
                         them, or both the same value"
                    );
                    errors.push(FieldError { field, message });
                }
                Some(_) => {}
                None => said = Some((name, answer)),
            },
        }
    }
    if errors.is_empty() { Ok(said.map(|(_, answer)| answer)) } else { Err(errors) }
}

fn read(text: &str) -> Result<OptIn, String> {
    match text {
        "enabled" => Ok(OptIn::Enabled),
        "disabled" => Ok(OptIn::Disabled),
        "ingress" => Err(
            "`ingress` is not supported: an ingress is injected like any other pod; use `enabled`"
                .to_owned(),
        ),
        text => {
            let shown: String = text.chars().take(64).collect();
            let expected = match nearest(text, &["enabled", "disabled"]) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`enabled` and `disabled` are allowed".to_owned(),
            };
            Err(format!("unknown value `{shown}`; {expected}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn shop(annotations: &[(&str, &str)], labels: &[(&str, &str)]) -> NamespaceContext {
        NamespaceContext {
            namespace: "shop".to_owned(),
            annotations: texts(annotations),
            labels: texts(labels),
            default_enabled: false,
            is_assumed: false,
            reads_linkerd: true,
        }
    }

    #[test]
    fn linkerds_annotation_asks_nobody_but_linkerd_unless_it_is_read() {
        let linkerds = |value| ("linkerd.io/inject", value);
        let own = |value| ("portcullis.dev/inject", value);
        let beside = |annotations: &[(&str, &str)], labels: &[(&str, &str)]| NamespaceContext {
            reads_linkerd: false,
            ..shop(annotations, labels)
        };
        let by = |pod: &[(&str, &str)], context: &NamespaceContext| {
            decide(&texts(pod), context).unwrap()
        };
        let theirs = beside(&[linkerds("enabled")], &[]);
        assert_eq!(by(&[], &theirs), OptInDecision::NotRequested);
        assert_eq!(by(&[linkerds("enabled")], &theirs), OptInDecision::NotRequested);
        assert_eq!(by(&[linkerds("ingress")], &theirs), OptInDecision::NotRequested);
        assert_eq!(by(&[own("enabled")], &theirs), OptInDecision::Inject);
        assert!(!theirs.is_enabled() && theirs.is_enabled_as_linkerd_reads());
        let ours = beside(&[own("enabled"), linkerds("disabled")], &[]);
        assert_eq!(by(&[], &ours), OptInDecision::Inject);
        assert_eq!(by(&[linkerds("disabled")], &ours), OptInDecision::DisabledByPod);
        let both = [own("enabled"), linkerds("disabled")];
        assert_eq!(by(&both, &theirs), OptInDecision::Inject, "the own name counts");
        let labelled = beside(&[linkerds("disabled")], &[own("enabled")]);
        assert_eq!(by(&[], &labelled), OptInDecision::Inject, "a label keeps its meaning");
        let called = NamespaceContext { default_enabled: true, ..beside(&[], &[]) };
        assert_eq!(by(&[linkerds("enabled")], &called), OptInDecision::AsksLinkerd);
        let setting = [linkerds("enabled"), ("portcullis.dev/outbound", "enabled")];
        assert_eq!(by(&setting, &called), OptInDecision::Inject, "it is for this one");
        assert_eq!(by(&[], &called), OptInDecision::Inject);
    }

    fn errors_of(pod: &[(&str, &str)], context: &NamespaceContext) -> Vec<String> {
        let errors = decide(&texts(pod), context).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_pod_counts_before_its_namespace_and_its_annotation_before_its_label() {
        let on = ("portcullis.dev/inject", "enabled");
        let off = ("linkerd.io/inject", "disabled");
        let label = |value| [("portcullis.dev/inject", value)];
        let by = |pod: &[(&str, &str)], context: &NamespaceContext| {
            decide(&texts(pod), context).unwrap()
        };
        assert_eq!(by(&[], &shop(&[], &[])), OptInDecision::NotRequested);
        assert_eq!(by(&[on], &shop(&[off], &[])), OptInDecision::Inject);
        assert_eq!(by(&[off], &shop(&[on], &label("enabled"))), OptInDecision::DisabledByPod);
        assert_eq!(by(&[], &shop(&[on], &[])), OptInDecision::Inject);
        let no = OptInDecision::DisabledByNamespace("shop".to_owned());
        assert_eq!(by(&[], &shop(&[off], &label("enabled"))), no);
        assert_eq!(by(&[], &shop(&[], &label("enabled"))), OptInDecision::Inject);
        assert_eq!(by(&[], &shop(&[], &label("disabled"))), no);
        let called = NamespaceContext { default_enabled: true, ..shop(&[], &[]) };
        assert_eq!(by(&[], &called), OptInDecision::Inject);
        assert_eq!(by(&[off], &called), OptInDecision::DisabledByPod);
    }

    #[test]
    fn both_names_may_say_the_same_and_not_the_opposite() {
        let same = [("portcullis.dev/inject", "enabled"), ("linkerd.io/inject", "enabled")];
        assert_eq!(decide(&texts(&same), &shop(&[], &[])), Ok(OptInDecision::Inject));
        let differ = [("portcullis.dev/inject", "enabled"), ("linkerd.io/inject", "disabled")];
        assert_eq!(
            errors_of(&differ, &shop(&[], &[])),
            ["metadata.annotations[\"linkerd.io/inject\"]: `disabled` says the opposite of \
              `portcullis.dev/inject` on the same object: give one of them, or both the same value"]
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_is_allowed() {
        let said = |value| errors_of(&[], &shop(&[("linkerd.io/inject", value)], &[]));
        let place = "Namespace shop: metadata.annotations[\"linkerd.io/inject\"]: ";
        let near = format!("{place}unknown value `enabeld`; did you mean `enabled`?");
        assert_eq!(said("enabeld"), [near]);
        let far = format!("{place}unknown value `true`; `enabled` and `disabled` are allowed");
        assert_eq!(said("true"), [far]);
        assert!(said("ingress")[0].contains("`ingress` is not supported"));
        assert_eq!(
            said(""),
            [format!("{place}unknown value ``; `enabled` and `disabled` are allowed")]
        );
    }
}
