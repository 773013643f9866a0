//! Unknown annotations: misspelled ones of ours are refused, other ineffective ones are reported as
//! warnings.

use super::element::{owned, texts};
use super::opt_in::{
    INJECT, INJECT_LABEL, LINKERD_INJECT, NamespaceContext, OptIn, StringMap, of_namespace,
};
use super::setting::{LINKERDS, OWN, Setting};
use super::sidecar::{RECORD, VERSION_ANNOTATION};
use policy_crds::{
    Body, FieldError, Object, ObjectMeta, Resource, annotation, nearest, nearest_within,
};
use serde_json::Value;
use std::sync::Arc;

/// Annotations of pods and namespaces that the controller reads. The admin port is not among them:
/// it is for proxies that other injectors add, because ours always has the same port.
const OF_POLICY: [&str; 8] = [
    annotation::DEFAULT_POLICY[0],
    annotation::DEFAULT_POLICY[1],
    annotation::UNDECLARED_PORTS,
    annotation::OPAQUE_PORTS,
    annotation::REQUIRE_IDENTITY,
    annotation::PATH_NORMALIZATION,
    annotation::UPSTREAM_REUSE,
    annotation::END_KEPT_OBJECTS,
];

/// Annotations that the injector writes.
pub(super) const WRITTEN: [&str; 3] =
    [VERSION_ANNOTATION, annotation::SKIPPED_PORTS, annotation::SIDECAR_MARK];

/// Returns every known name.
fn known() -> Vec<String> {
    let settings = Setting::ALL.into_iter().flat_map(Setting::annotations);
    let others = OF_POLICY.into_iter().chain(INJECT).chain(WRITTEN).chain([RECORD]);
    settings.chain(others.map(str::to_owned)).collect()
}

/// A suggestion for an unknown name.
enum Suggestion {
    /// The probable name.
    Name(String),
    /// The probable name opens a port, admits clients or removes the sidecar with this value. It is
    /// not suggested, because following a suggestion must never reduce protection.
    Withheld,
}

/// True if an annotation with this value reduces protection.
fn reduces_protection(name: &str, text: &str) -> bool {
    let of_policy = annotation::OPENING.into_iter().map(|(name, unless)| (name.to_owned(), unless));
    let settings = Setting::ALL.into_iter().filter_map(|setting| {
        let unless = setting.harmless_value()?;
        Some(setting.annotations().into_iter().map(move |name| (name, unless)))
    });
    // A pod without a sidecar is unprotected.
    let inject = INJECT.into_iter().map(|name| (name.to_owned(), "enabled"));
    let mut opening = of_policy.chain(inject).chain(settings.flatten());
    name == annotation::END_KEPT_OBJECTS
        || opening.any(|(opening, unless)| opening == name && unless != text)
}

/// Returns a suggestion for an unknown name with this value.
fn suggestion(name: &str, text: &str, known: &[String], edits: usize) -> Option<Suggestion> {
    let near = nearest_of(name, known, edits)?;
    Some(if reduces_protection(&near, text) {
        Suggestion::Withheld
    } else {
        Suggestion::Name(near)
    })
}

/// Returns the nearest known name. The parts after the prefix are compared, because the prefix is
/// long; names with the same prefix come first.
fn nearest_of(name: &str, known: &[String], edits: usize) -> Option<String> {
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

/// Returns errors for misspelled annotations with our prefix, and for annotations of policy with
/// invalid values.
pub(super) fn unknown(annotations: &StringMap) -> Vec<FieldError> {
    let mut errors = mistyped(annotations, "");
    let shared: annotation::Annotations = annotations
        .iter()
        .map(|(name, text)| (Arc::from(name.as_str()), Arc::from(text.as_str())))
        .collect();
    let of_policy =
        annotation::default_policy(&shared, annotation::AnnotationReading::default()).errors;
    let undeclared = annotation::undeclared_ports(&shared).errors;
    let own = annotation::field(annotation::DEFAULT_POLICY[1]);
    errors.extend(of_policy.into_iter().filter(|error| error.field == own));
    errors.extend(undeclared);
    errors
}

/// Error message for a misspelled name that would reduce protection.
const NOT_PROPOSED: &str = "there is no such annotation; the nearest one can open a port, admit clients \
                            or take the sidecar away, so it is not proposed here; docs/injection.md \
                            lists them all";

/// Maximum edit distance of a misspelling.
const MAX_EDITS: usize = 2;

/// Returns errors for annotations with our prefix that are probably misspelled; `place` precedes
/// the field's name.
pub(super) fn mistyped(annotations: &StringMap, place: &str) -> Vec<FieldError> {
    let known = known();
    let slip = |(name, text): (&String, &String)| {
        let message = match suggestion(name, text, &known, MAX_EDITS)? {
            Suggestion::Name(near) => {
                format!("there is no such annotation; did you mean `{near}`?")
            }
            Suggestion::Withheld => NOT_PROPOSED.to_owned(),
        };
        Some(FieldError { field: format!("{place}{}", shown(name)), message })
    };
    unknown_own(annotations, &known).filter_map(slip).collect()
}

/// Returns warnings for annotations with our prefix that are unknown and resemble no known name.
/// They may belong to a later version, from which a downgrade must be possible, so they are not
/// refused.
pub(super) fn unrecognized(annotations: &StringMap, place: &str) -> Vec<FieldError> {
    let known = known();
    let stranger = |name: &&String| nearest_of(name, &known, MAX_EDITS).is_none();
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
    let names = unknown_own(annotations, &known).map(|(name, _)| name);
    names.filter(stranger).map(remark).collect()
}

/// Returns the annotations with our prefix that are unknown.
fn unknown_own<'a>(
    annotations: &'a StringMap,
    known: &[String],
) -> impl Iterator<Item = (&'a String, &'a String)> {
    let ours = annotations.iter().filter(|(name, _)| name.starts_with(OWN));
    ours.filter(|(name, _)| !known.contains(name))
}

fn shown(name: &str) -> String {
    let shown: String = name.chars().take(MAX_QUOTED).collect();
    annotation::field(&shown)
}

/// Returns the annotations of a namespace about injection, misspelled ones included.
pub(crate) fn injection_annotations(namespace: &Value) -> StringMap {
    let mut annotations = texts(namespace.pointer("/metadata/annotations"));
    let is_ours = |name: &str| name.starts_with(OWN) || is_of_linkerds_injector(name);
    annotations.retain(|name, _| is_ours(name) || INJECT.contains(&name.as_str()));
    annotations
}

fn is_of_linkerds_injector(name: &str) -> bool {
    LINKERDS.iter().any(|prefix| name.starts_with(prefix))
}

/// True if a name is an annotation about injection or policy, also one of Linkerd's.
pub(super) fn is_about_injection(name: &str) -> bool {
    let known = INJECT.contains(&name) || OF_POLICY.contains(&name);
    known || name.starts_with(OWN) || is_of_linkerds_injector(name)
}

/// Returns what is wrong with them. Their author gets these remarks before pods are refused, or, if
/// the namespace opts in, before pods run without a sidecar or without a setting.
pub(crate) fn injection_remarks(namespace: &Value) -> Vec<FieldError> {
    let annotations = injection_annotations(namespace);
    let labels = texts(namespace.pointer("/metadata/labels"));
    let mut remarks = mistyped(&annotations, "");
    remarks.extend(unrecognized(&annotations, ""));
    match of_namespace(&annotations, &labels, "", false) {
        Ok(Some(OptIn::Enabled)) => remarks.extend(without_effect(&annotations, OUR_SIDECARS)),
        Ok(Some(OptIn::Disabled) | None) => {}
        Err(errors) => remarks.extend(errors),
    }
    remarks
}

/// Returns remarks about injection on a valid Namespace: the warnings of its author, except those
/// about annotations that are meant for Linkerd's injector.
pub fn namespace_remarks(namespace: &Object) -> Vec<FieldError> {
    if !matches!(namespace.body, Body::Valid(Resource::Namespace)) {
        return Vec::new();
    }
    let ObjectMeta { annotations, labels, .. } = &namespace.meta;
    let (annotations, labels) = (owned(annotations), owned(labels));
    let mut remarks = mistyped(&annotations, "");
    remarks.extend(unrecognized(&annotations, ""));
    remarks.extend(label_remark(&labels));
    let ours = annotations.get(INJECT_LABEL).or_else(|| labels.get(INJECT_LABEL));
    match of_namespace(&annotations, &labels, "", false) {
        Ok(_) if ours.is_some_and(|answer| answer == "enabled") => {
            remarks.extend(without_effect(&annotations, OUR_SIDECARS));
        }
        Ok(_) => {}
        Err(errors) => remarks.extend(errors),
    }
    remarks
}

/// Returns warnings about annotations of a Namespace in a manifest that only Linkerd's injector would
/// read, if the Namespace opts in by either annotation: there is no telling yet whose injector reads it.
///
/// Labels that are read as annotations alone are among them.
pub fn namespace_without_effect(namespace: &NamespaceContext) -> Vec<FieldError> {
    let asks = namespace.is_enabled_as_linkerd_reads();
    let annotations =
        if asks { without_effect(&namespace.annotations, OUR_SIDECARS) } else { Vec::new() };
    let known = known();
    let labels = namespace.labels.keys().filter(|name| *name != INJECT_LABEL);
    let labels = labels.filter(|name| known.contains(name) && !WRITTEN.contains(&name.as_str()));
    let remark = |name: &String| FieldError {
        field: format!("metadata.labels[\"{name}\"]"),
        message: match INJECT.contains(&name.as_str()) {
            true => format!(
                "has no effect as a label; the annotation `{INJECT_LABEL}` asks for sidecars"
            ),
            false => "has no effect as a label; write it as an annotation".to_owned(),
        },
    };
    annotations.into_iter().chain(labels.map(remark)).collect()
}

/// Returns a remark on the injection label if its value does not opt in or out.
fn label_remark(labels: &StringMap) -> Option<FieldError> {
    let answer = labels.get(INJECT_LABEL)?;
    let known = ["enabled", "disabled"];
    if known.contains(&answer.as_str()) {
        return None;
    }
    let shown: String = answer.chars().take(64).collect();
    let hint = match nearest(answer, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`enabled` and `disabled` are allowed".to_owned(),
    };
    let message = format!("unknown value `{shown}`, by which no pod gets a sidecar; {hint}");
    Some(FieldError { field: format!("metadata.labels[\"{INJECT_LABEL}\"]"), message })
}

/// Returns warnings about annotations of the namespace that Linkerd's injector would read and ours
/// ignores, unless the pod itself has them.
pub(super) fn inherited_without_effect(pod: &StringMap, context: &NamespaceContext) -> Vec<String> {
    let mut inherited = context.annotations.clone();
    inherited.retain(|name, _| !pod.contains_key(name));
    let remarks =
        unrecognized(&inherited, "").into_iter().chain(without_effect(&inherited, THIS_SIDECAR));
    remarks.map(|remark| format!("{}{remark}", context.place())).collect()
}

/// Returns warnings about ineffective annotations of a pod: those that only Linkerd's injector
/// reads, unknown ones, and those that resemble an injection annotation.
pub(super) fn suspicious(annotations: &StringMap) -> Vec<FieldError> {
    let mut remarks = unrecognized(annotations, "");
    remarks.extend(without_effect(annotations, THIS_SIDECAR));
    remarks.extend(near_opt_in(annotations));
    remarks
}

/// Returns warnings about annotations of a pod that resemble an injection annotation.
pub(super) fn near_opt_in(annotations: &StringMap) -> Vec<FieldError> {
    let others = annotations.keys().filter(|name| name.starts_with("linkerd.io/"));
    let shown = others.filter(|name| name.len() <= MAX_QUOTED && !INJECT.contains(&name.as_str()));
    let near = shown.filter(|name| nearest(name, &INJECT).is_some());
    let near = near.map(|name| FieldError {
        field: annotation::field(name),
        message: format!("has no effect; `{INJECT_LABEL}` asks for a sidecar"),
    });
    near.chain(unread_answer(annotations)).collect()
}

/// Returns a warning about `linkerd.io/inject` with a value that its author probably meant as an opt-out.
fn unread_answer(annotations: &StringMap) -> Option<FieldError> {
    let answer = annotations.get(LINKERD_INJECT)?;
    if ["enabled", "disabled", "ingress"].contains(&answer.as_str()) {
        return None;
    }
    let shown: String = answer.chars().take(64).collect();
    let message = format!(
        "unknown value `{shown}`, which neither asks for a sidecar nor opts out; `disabled` opts out"
    );
    Some(FieldError { field: annotation::field(LINKERD_INJECT), message })
}

/// The sidecar of one pod, for messages.
pub(super) const THIS_SIDECAR: &str = "this sidecar";
/// The sidecars of a namespace, which may have others too, for messages.
const OUR_SIDECARS: &str = "the sidecars of Portcullis";
/// Maximum length in bytes of a quoted name.
const MAX_QUOTED: usize = 128;

/// Returns warnings about annotations that Linkerd's injector would read and ours ignores.
pub(super) fn without_effect(annotations: &StringMap, sidecars: &str) -> Vec<FieldError> {
    let known = known();
    let names = annotations.iter().filter(|(name, _)| is_of_linkerds_injector(name));
    let unknown = names.filter(|(name, _)| name.len() <= MAX_QUOTED && !known.contains(name));
    let remark = |(name, text): (&String, &String)| {
        // An annotation about outbound traffic is no misspelling.
        let near =
            suggestion(name, text, &known, usize::MAX).filter(|_| !name.contains("outbound"));
        let hint = match near {
            Some(Suggestion::Name(near)) => format!("; did you mean `{near}`?"),
            Some(Suggestion::Withheld) | None => String::new(),
        };
        let message = format!("has no effect on {sidecars}{hint}");
        FieldError { field: annotation::field(name), message }
    };
    unknown.map(remark).collect()
}

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> StringMap {
        names.iter().map(|name| ((*name).to_owned(), "enabled".to_owned())).collect()
    }

    #[test]
    fn the_annotation_that_ends_kept_objects_is_known_and_never_proposed() {
        assert_eq!(suspicious(&texts(&["portcullis.dev/end-kept-objects"])), []);
        let errors = unknown(&texts(&["portcullis.dev/end-kept-object"]));
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].message, NOT_PROPOSED);
    }

    #[test]
    fn a_value_that_does_not_opt_out_and_a_label_that_nothing_reads_are_reported() {
        let said = |answer: &str| {
            let annotations = StringMap::from([(LINKERD_INJECT.to_owned(), answer.to_owned())]);
            let found = near_opt_in(&annotations);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for known in ["enabled", "disabled", "ingress"] {
            assert_eq!(said(known), Vec::<String>::new(), "{known}");
        }
        assert_eq!(
            said("false"),
            [
                "metadata.annotations[\"linkerd.io/inject\"]: unknown value `false`, which neither asks for a \
              sidecar nor opts out; `disabled` opts out"
            ]
        );
        let mut namespace = NamespaceContext::unknown("shop");
        namespace.labels = texts(&[
            LINKERD_INJECT,
            INJECT_LABEL,
            "config.linkerd.io/default-inbound-policy",
            "config.linkerd.io/admission-webhooks",
        ]);
        let found = namespace_without_effect(&namespace);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "metadata.labels[\"config.linkerd.io/default-inbound-policy\"]: has no effect as a label; \
                 write it as an annotation",
                "metadata.labels[\"linkerd.io/inject\"]: has no effect as a label; the annotation \
                 `portcullis.dev/inject` asks for sidecars",
            ]
        );
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
            let remarks = suspicious(&texts(&[name]));
            assert!(remarks[0].message.contains("has no effect: this version ("), "{remarks:?}");
        }
        assert_eq!(said("portcullis.dev/inject"), Vec::<String>::new());
        assert_eq!(said("example.com/injct"), Vec::<String>::new());
        assert!(said("portcullis.dev/default-allow")[0].contains("unknown value `enabled`"));
        assert_eq!(said("config.linkerd.io/default-inbound-policy"), Vec::<String>::new());
    }

    /// Returns the name that `text` suggests.
    fn proposed(text: &str) -> Option<&str> {
        text.split_once("did you mean `")?.1.split_once('`').map(|(name, _)| name)
    }

    /// Returns misspellings of `name`, and the same names with the other direction and other
    /// prefixes.
    fn near_misses(name: &str) -> Vec<String> {
        let (prefix, rest) = name.split_once('/').unwrap();
        let mut rests = vec![
            rest.replace("inbound", "outbound"),
            rest.replace("outbound", "inbound"),
            format!("{rest}s"),
            format!("x{rest}"),
        ];
        for at in 0..rest.len() {
            rests.push(format!("{}{}", &rest[..at], &rest[at + 1..]));
            rests.push(format!("{}q{}", &rest[..at], &rest[at + 1..]));
        }
        let prefixes = [prefix, "portcullis.dev", "config.linkerd.io"];
        let each = |prefix| rests.iter().map(move |rest| format!("{prefix}/{rest}"));
        prefixes.into_iter().flat_map(each).collect()
    }

    #[test]
    fn nothing_is_proposed_that_opens_something() {
        // Repeated here, so that the table is not compared with itself.
        let opening = [
            "skip-inbound-ports",
            "skip-outbound-ports",
            "outbound",
            "pending-policy",
            "pending-default-policy",
            "proxy-admin-shutdown",
            "proxy-admin-log-level",
            "default-inbound-policy",
            "default-allow",
            "undeclared-ports",
            "path-normalization",
            "admin-port",
            "inject",
        ];
        // For each value, the names that reduce no protection with it.
        let harmless: [&[&str]; 2] = [&[], &["proxy-admin-shutdown", "proxy-admin-log-level"]];
        for (value, harmless) in ["all-unauthenticated", "disabled"].into_iter().zip(harmless) {
            let mut proposals = 0;
            for name in known().iter().flat_map(|name| near_misses(name)) {
                let written: StringMap = [(name.clone(), value.to_owned())].into();
                let said = mistyped(&written, "")
                    .into_iter()
                    .chain(without_effect(&written, OUR_SIDECARS));
                let said: Vec<String> = said.map(|error| error.to_string()).collect();
                for proposal in said.iter().filter_map(|text| proposed(text)) {
                    proposals += 1;
                    let (_, rest) = proposal.split_once('/').unwrap_or_default();
                    let opens = opening.contains(&rest) && !harmless.contains(&rest);
                    assert!(!opens, "{name}: {value} suggests {proposal}");
                }
            }
            assert!(proposals > 1000, "others are proposed, {proposals} times");
        }
    }

    #[test]
    fn a_slip_of_what_opens_something_is_refused_without_a_proposal() {
        let said = |name: &str, value: &str| {
            unknown(&[(name.to_owned(), value.to_owned())].into())
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let skip = said("portcullis.dev/skip-inbound-port", "25");
        assert_eq!(skip.len(), 1);
        assert!(skip[0].contains("it is not proposed here"), "{skip:?}");
        let without = said("portcullis.dev/injct", "disabled");
        assert!(without[0].contains("it is not proposed here"), "{without:?}");
        let deny = said("portcullis.dev/default-alow", "deny");
        assert!(deny[0].ends_with("did you mean `portcullis.dev/default-allow`?"), "{deny:?}");
    }

    #[test]
    fn annotations_of_others_are_never_refused() {
        let names = ["config.linkerd.io/skip-subnets", "linkerd.io/injct", "a/b"];
        assert_eq!(unknown(&texts(&names)), []);
        let remarks =
            |names| suspicious(&texts(names)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            remarks(&names),
            [
                "metadata.annotations[\"config.linkerd.io/skip-subnets\"]: has no effect on this \
                 sidecar",
                "metadata.annotations[\"linkerd.io/injct\"]: has no effect; \
                 `portcullis.dev/inject` asks for a sidecar",
            ]
        );
        assert_eq!(remarks(&["config.linkerd.io/opaque-ports"]), Vec::<String>::new());
    }
}
