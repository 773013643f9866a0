//! Annotations of policy that nothing reads: under a misspelt name, on an object of another kind, or as
//! labels. They protect nobody.

use crate::annotation::{
    DEFAULT_POLICY, END_KEPT_OBJECTS, OF_NAMESPACES, OF_SERVERS, OF_WORKLOADS, OPENING,
    PATH_NORMALIZATION, REQUIRE_IDENTITY, UNDECLARED_PORTS, UPSTREAM_REUSE,
};
use crate::field::join_key;
use crate::kind::Kind;
use crate::object::FieldError;
use crate::other_workload::{TEMPLATE, template_place};
use policy_core::suggest::nearest_within;
use serde_json::Value;

/// An annotation, or a label, that nothing reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadAnnotation {
    /// The field and the message.
    pub about: FieldError,
    /// True if its name is nearly one that is read on the object.
    pub is_misspelt: bool,
}

/// Most letters in which a misspelling differs, as for those that the injector refuses.
const MAX_EDITS: usize = 2;

/// Bytes of a name that is quoted; a longer one is no misspelling.
const MAX_NAME: usize = 64;

/// The message where following a suggestion could reduce protection.
const NOT_PROPOSED: &str = "nothing reads this annotation; the nearest one can admit clients with this \
                            value, so it is not proposed here";

/// Returns the annotations and labels of an object, and of the template of its pods, that look like
/// annotations of policy and that nothing reads there. `kind` is absent for a kind that is not read itself.
pub fn unread_annotations(kind: Option<Kind>, object: &Value) -> Vec<UnreadAnnotation> {
    let mut found = Vec::new();
    if let (Some(kind), Some(metadata)) = (kind, object.get("metadata")) {
        found.extend(in_metadata(kind, metadata, "metadata"));
    }
    let template = match kind {
        Some(Kind::CronJob) => Some("/spec/jobTemplate/spec/template"),
        Some(kind) => kind.makes_pods().then_some(TEMPLATE),
        None => template_place(object).or(Some(TEMPLATE)),
    };
    let template = template.map(|place| format!("{place}/metadata"));
    if let Some((place, metadata)) =
        template.and_then(|it| Some((it.clone(), object.pointer(&it)?)))
    {
        let path = place.trim_start_matches('/').replace('/', ".");
        found.extend(in_metadata(Kind::Pod, metadata, &path));
    }
    found
}

/// Those in the metadata at `path`.
fn in_metadata(kind: Kind, metadata: &Value, path: &str) -> Vec<UnreadAnnotation> {
    let read = read_on(kind);
    let mut found = Vec::new();
    for (name, value) in texts(metadata, "annotations") {
        let field = join_key(&join_key(path, "annotations"), name);
        let (message, is_misspelt) = if read.contains(&name) {
            continue;
        } else if decides(name) {
            // Annotations beside a template are reported with the place of the template.
            if kind.makes_pods() {
                continue;
            }
            (format!("nothing reads it on a {}", kind.as_str()), false)
        } else {
            // The injector reports misspelt ones of this project on what it reads.
            let is_injectors = [Kind::Pod, Kind::Namespace].contains(&kind);
            if is_injectors && name.starts_with("portcullis.dev/") {
                continue;
            }
            let Some(near) = meant(name, &read) else { continue };
            let opens =
                OPENING.iter().any(|(opening, unless)| *opening == near && *unless != value);
            let proposed = || format!("nothing reads this annotation, did you mean `{near}`?");
            // Without a prefix it may be another program's own, unless it decides about clients.
            let is_misspelt = name.contains('/') || decides(near);
            (if opens { NOT_PROPOSED.to_owned() } else { proposed() }, is_misspelt)
        };
        found.push(UnreadAnnotation { about: FieldError { field, message }, is_misspelt });
    }
    // Labels of pods are reported with the place of the template.
    let labels = texts(metadata, "labels").filter(|_| kind != Kind::Pod && !kind.makes_pods());
    for (name, _) in labels.filter(|(name, _)| read.contains(name)) {
        let field = join_key(&join_key(path, "labels"), name);
        let message = "nothing reads it as a label: it is an annotation".to_owned();
        found.push(UnreadAnnotation { about: FieldError { field, message }, is_misspelt: true });
    }
    found
}

/// The annotations of policy that are read on objects of a kind.
fn read_on(kind: Kind) -> Vec<&'static str> {
    if [Kind::Pod, Kind::ExternalWorkload].contains(&kind) {
        OF_WORKLOADS.to_vec()
    } else if kind == Kind::Namespace {
        OF_NAMESPACES.into_iter().chain([END_KEPT_OBJECTS]).collect()
    } else if kind == Kind::Server {
        OF_SERVERS.to_vec()
    } else {
        Vec::new()
    }
}

/// True if an annotation decides about clients where it is read.
fn decides(name: &str) -> bool {
    DEFAULT_POLICY.contains(&name)
        || [UNDECLARED_PORTS, REQUIRE_IDENTITY, PATH_NORMALIZATION, UPSTREAM_REUSE].contains(&name)
}

/// The annotation that is meant by another name: one with nearly its letters, or the same one behind
/// another prefix of Linkerd or of this project, or behind none.
fn meant(name: &str, read: &[&'static str]) -> Option<&'static str> {
    if name.len() > MAX_NAME {
        return None;
    }
    if let Some(near) = nearest_within(name, read, MAX_EDITS) {
        // An annotation about outbound traffic is no misspelling.
        return (!name.contains("outbound")).then_some(near);
    }
    let (prefix, rest) = name.split_once('/').unwrap_or(("", name));
    let prefix = prefix.to_ascii_lowercase();
    let is_ours = ["linkerd", "portcullis", "polixy"].iter().any(|one| prefix.contains(one));
    let same = |known: &&&str| {
        known.split_once('/').is_some_and(|(_, own)| own.eq_ignore_ascii_case(rest.trim()))
    };
    read.iter().find(same).copied().filter(|_| is_ours || prefix.is_empty())
}

/// The texts of a mapping of metadata.
fn texts<'a>(metadata: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = metadata.get(name).and_then(Value::as_object);
    let text = |(name, value): (&'a String, &'a Value)| Some((name.as_str(), value.as_str()?));
    entries.into_iter().flatten().filter_map(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(kind: Kind, metadata: &Value) -> Vec<(String, bool)> {
        let object = json!({"metadata": metadata});
        let found = unread_annotations(Some(kind), &object).into_iter();
        found.map(|one| (one.about.to_string(), one.is_misspelt)).collect()
    }

    fn annotated(name: &str, value: &str) -> Vec<(String, bool)> {
        of(Kind::Namespace, &json!({"annotations": {name: value}}))
    }

    #[test]
    fn a_default_policy_under_another_name_is_reported_and_no_annotation_of_others() {
        let near = "config.linkerd.io/default-inbound-policy";
        for name in [
            "config.linkerd.io/default-inbound-polcy",
            "config.linkerd.io/default-inbound-Policy",
            "config.linkerd.oi/default-inbound-policy",
            "linkerd.io/default-inbound-policy",
            "policy.portcullis.dev/default-inbound-policy",
            "default-inbound-policy",
        ] {
            let message = format!(
                "metadata.annotations[\"{name}\"]: nothing reads this annotation, did you mean \
                 `{near}`?"
            );
            let message = match name.contains('/') {
                true => message,
                false => message.replace(&format!("[\"{name}\"]"), &format!(".{name}")),
            };
            assert_eq!(annotated(name, "deny"), [(message, true)]);
            let [(withheld, _)] = &annotated(name, "all-unauthenticated")[..] else {
                panic!("{name} is reported once")
            };
            assert!(withheld.ends_with(NOT_PROPOSED), "{withheld}");
        }
        for name in [
            near,
            "config.linkerd.io/default-outbound-policy",
            "config.linkerd.io/proxy-cpu-limit",
            "config.linkerd.io/skip-inbound-ports",
            "example.com/default-inbound-policy",
            "portcullis.dev/inject",
        ] {
            assert_eq!(annotated(name, "deny"), [], "{name}");
        }
    }

    #[test]
    fn a_name_without_a_prefix_is_an_error_only_where_it_decides_about_clients() {
        let is_error = |name: &str| {
            let found = of(Kind::Pod, &json!({"annotations": {name: "deny"}}));
            found.iter().map(|(_, is_misspelt)| *is_misspelt).collect::<Vec<_>>()
        };
        assert_eq!(is_error("default-inbound-policy"), [true]);
        assert_eq!(is_error("access-log"), [false]);
        assert_eq!(is_error("linkerd.io/access-log"), [true]);
    }

    #[test]
    fn an_annotation_of_another_kind_and_a_label_are_reported() {
        let deny = json!({"config.linkerd.io/default-inbound-policy": "deny"});
        let on = |kind, list: &str| of(kind, &json!({list: deny}));
        let name = "\"config.linkerd.io/default-inbound-policy\"";
        for kind in [Kind::Server, Kind::Service, Kind::AuthorizationPolicy] {
            let message =
                format!("metadata.annotations[{name}]: nothing reads it on a {}", kind.as_str());
            assert_eq!(on(kind, "annotations"), [(message, false)]);
        }
        for kind in [Kind::Pod, Kind::Namespace, Kind::Service] {
            let reuse = json!({"portcullis.dev/upstream-reuse": "without-body"});
            let message = format!(
                "metadata.annotations[\"portcullis.dev/upstream-reuse\"]: nothing reads it on a {}",
                kind.as_str()
            );
            assert_eq!(of(kind, &json!({"annotations": reuse})), [(message, false)]);
        }
        let label =
            format!("metadata.labels[{name}]: nothing reads it as a label: it is an annotation");
        assert_eq!(on(Kind::Namespace, "labels"), [(label, true)]);
        for kind in [Kind::Pod, Kind::Deployment] {
            assert_eq!(on(kind, "annotations"), []);
        }
        let misspelt = json!({"annotations": {"config.linkerd.io/default-inbound-polcy": "deny"}});
        for (kind, place) in [
            (Some(Kind::Deployment), "spec.template"),
            (Some(Kind::CronJob), "spec.jobTemplate.spec.template"),
            (None, "spec.template"),
        ] {
            let template = json!({"template": {"metadata": misspelt}});
            let object = if kind == Some(Kind::CronJob) {
                json!({"spec": {"jobTemplate": {"spec": template}}})
            } else {
                json!({"spec": template})
            };
            let [one] = &unread_annotations(kind, &object)[..] else {
                panic!("{place}: reported once")
            };
            let field = "metadata.annotations[\"config.linkerd.io/default-inbound-polcy\"]";
            assert_eq!(one.about.field, format!("{place}.{field}"));
        }
    }
}
