//! Annotations that nobody knows: ours are refused, others that were surely meant are told.

use super::ask::{INJECT, Texts, of_namespace};
use super::container::VERSION_ANNOTATION;
use super::element::texts;
use super::setting::{LINKERD, OWN, Setting};
use policy_crds::{FieldError, annotation, nearest};
use serde_json::Value;
use std::sync::Arc;

/// What the controller reads from pods and namespaces.
const OF_POLICY: [&str; 7] = [
    annotation::DEFAULT_POLICY[0],
    annotation::DEFAULT_POLICY[1],
    annotation::UNDECLARED_PORTS,
    annotation::ADMIN_PORT,
    annotation::OPAQUE_PORTS,
    annotation::REQUIRE_IDENTITY,
    annotation::PATH_NORMALIZATION,
];

/// Every name that means something.
fn known() -> Vec<String> {
    let settings = Setting::ALL.into_iter().flat_map(Setting::annotations);
    let others = OF_POLICY.into_iter().chain(INJECT).chain([VERSION_ANNOTATION]);
    settings.chain(others.map(str::to_owned)).collect()
}

/// The known name that was probably meant. The prefix is long, so the parts after it are compared; a
/// name of the same prefix first.
fn near(name: &str, known: &[String]) -> Option<String> {
    let (prefix, rest) = name.split_once('/')?;
    let parts = known.iter().filter_map(|name| name.split_once('/'));
    let (same, others): (Vec<_>, Vec<_>) = parts.partition(|(of, _)| *of == prefix);
    [same, others].into_iter().find_map(|parts| {
        let rests: Vec<&str> = parts.iter().map(|(_, rest)| *rest).collect();
        let found = nearest(rest, &rests)?;
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

/// Annotations with our prefix that mean nothing; `place` comes before the name of the field.
pub(super) fn mistyped(annotations: &Texts, place: &str) -> Vec<FieldError> {
    let known = known();
    let ours = annotations.keys().filter(|name| name.starts_with(OWN));
    ours.filter(|name| !known.contains(name))
        .map(|name| {
            let hint = match near(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    let own = known.iter().filter(|name| name.starts_with(OWN));
                    let own: Vec<&str> = own.filter_map(|name| name.strip_prefix(OWN)).collect();
                    format!("after `{OWN}` these are allowed: {}", own.join(", "))
                }
            };
            let shown: String = name.chars().take(128).collect();
            let message = format!("there is no such annotation; {hint}");
            FieldError { field: format!("{place}{}", annotation::field(&shown)), message }
        })
        .collect()
}

/// The annotations of a namespace that are about injection, or would be if they were spelled well.
pub(crate) fn about_injection(namespace: &Value) -> Texts {
    let mut annotations = texts(namespace.pointer("/metadata/annotations"));
    annotations.retain(|name, _| name.starts_with(OWN) || INJECT.contains(&name.as_str()));
    annotations
}

/// What is wrong with them. Whoever writes them should know before pods are refused, or, where it is
/// the one that asks, before they run without a sidecar.
pub(crate) fn injection_remarks(namespace: &Value) -> Vec<FieldError> {
    let annotations = about_injection(namespace);
    let mut remarks = mistyped(&annotations, "");
    remarks.extend(of_namespace(&annotations, &Texts::new(), "").err().unwrap_or_default());
    remarks
}

/// Annotations of Linkerd that mean nothing to us, or are near to one that asks.
pub(super) fn doubtful(annotations: &Texts) -> Vec<String> {
    let known = known();
    let mut warnings = Vec::new();
    for name in annotations.keys().filter(|name| name.len() <= 128 && !known.contains(name)) {
        let field = annotation::field(name);
        if name.starts_with(LINKERD) {
            let hint = near(name, &known).map(|near| format!("; did you mean `{near}`?"));
            let hint = hint.unwrap_or_default();
            warnings.push(format!("{field}: has no effect on this sidecar{hint}"));
        } else if nearest(name, &INJECT).is_some() && name.starts_with("linkerd.io/") {
            let asks = INJECT.join("` and `");
            warnings.push(format!("{field}: has no effect; `{asks}` ask for a sidecar"));
        }
    }
    warnings
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
        assert!(said("portcullis.dev/team")[0].contains("these are allowed: proxy-image, "));
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
                 this sidecar; did you mean `config.linkerd.io/skip-inbound-ports`?",
                "metadata.annotations[\"linkerd.io/injct\"]: has no effect; \
                 `portcullis.dev/inject` and `linkerd.io/inject` ask for a sidecar",
            ]
        );
        assert_eq!(doubtful(&texts(&["config.linkerd.io/opaque-ports"])), Vec::<String>::new());
    }
}
