//! Rights, asked of the API server one by one.

use super::read::{Read, Unread};
use crate::cluster::refusal::{is_forbidden, words};
use futures_util::StreamExt;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use serde_json::{Value, json};
use std::fmt;

/// Questions that wait for an answer at a time.
const AT_ONCE: usize = 16;

/// A right: to do something to a resource, or to one object of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// API group.
    pub(crate) group: String,
    /// The resource, with a subresource after a slash.
    pub(crate) resource: String,
    /// What is done.
    pub(crate) verb: String,
    /// The one object; none: any.
    pub(crate) name: Option<String>,
    /// Where; none: in the whole cluster.
    pub(crate) namespace: Option<String>,
}

/// `list servers.policy.linkerd.io`
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, verb, name, namespace } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Who is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose<'a> {
    /// Whoever asks.
    Mine,
    /// A service account: its namespace and name.
    Account(&'a str, &'a str),
}

/// The single rights of rules, in a namespace or in the whole cluster.
pub(crate) fn of_rules(rules: &[PolicyRule], namespace: Option<&str>) -> Vec<Right> {
    let mut rights = Vec::new();
    for rule in rules {
        let names: Vec<Option<&String>> = match rule.resource_names.as_deref() {
            None | Some([]) => vec![None],
            Some(names) => names.iter().map(Some).collect(),
        };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    rights.extend(names.iter().map(|name| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.cloned(),
                        namespace: namespace.map(str::to_owned),
                    }));
                }
            }
        }
    }
    rights
}

/// Those of the rights that somebody does not have.
pub(crate) async fn lacking(
    client: &Client,
    whose: Whose<'_>,
    rights: Vec<Right>,
) -> Read<Vec<Right>> {
    let asked = rights.into_iter().map(|right| async move {
        let allowed = allowed(client, whose, &right).await?;
        Ok::<_, Unread>((!allowed).then_some(right))
    });
    let mut answers = futures_util::stream::iter(asked).buffered(AT_ONCE);
    let mut lacking = Vec::new();
    while let Some(answer) = answers.next().await {
        lacking.extend(answer?);
    }
    Ok(lacking)
}

async fn allowed(client: &Client, whose: Whose<'_>, right: &Right) -> Read<bool> {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, subresource),
        None => (right.resource.as_str(), ""),
    };
    let attributes = json!({
        "group": right.group, "resource": resource, "subresource": subresource,
        "verb": right.verb, "name": right.name, "namespace": right.namespace,
    });
    let (kind, plural, spec) = match whose {
        Whose::Mine => (
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": attributes}),
        ),
        Whose::Account(namespace, name) => (
            "SubjectAccessReview",
            "subjectaccessreviews",
            json!({
                "resourceAttributes": attributes,
                "user": format!("system:serviceaccount:{namespace}:{name}"),
                "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated"],
            }),
        ),
    };
    let path = format!("/apis/authorization.k8s.io/v1/{plural}");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let failed = |error: kube::Error| {
        if is_forbidden(&error) {
            let right = format!(
                "{{apiGroups: [authorization.k8s.io], resources: [{plural}], verbs: [create]}} in \
                 the whole cluster"
            );
            return Unread::Forbidden { right, words: words(&error) };
        }
        Unread::Failed(words(&error))
    };
    let unsent = |error: &dyn fmt::Display| Unread::Failed(error.to_string());
    let body = serde_json::to_vec(&review).map_err(|error| unsent(&error))?;
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| unsent(&error))?;
    let answer: Value = client.request(request).await.map_err(failed)?;
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_all_its_single_rights() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rule = PolicyRule {
            api_groups: Some(texts(&[""])),
            resources: Some(texts(&["pods", "pods/status"])),
            verbs: texts(&["get", "list"]),
            ..PolicyRule::default()
        };
        let named = PolicyRule {
            api_groups: Some(texts(&["coordination.k8s.io"])),
            resources: Some(texts(&["leases"])),
            verbs: texts(&["get"]),
            resource_names: Some(texts(&["one"])),
            ..PolicyRule::default()
        };
        let told: Vec<String> =
            of_rules(&[rule, named], Some("shop")).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "get pods in namespace shop",
                "list pods in namespace shop",
                "get pods/status in namespace shop",
                "list pods/status in namespace shop",
                "get leases.coordination.k8s.io one in namespace shop",
            ]
        );
    }
}
