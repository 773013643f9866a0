//! Permission checks by SelfSubjectAccessReview and SubjectAccessReview.

use super::fetch::{FetchError, FetchResult};
use crate::cluster::api_error::{is_forbidden, message};
use futures_util::StreamExt;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use serde_json::{Value, json};
use std::fmt;

/// Number of concurrent requests.
const CONCURRENCY: usize = 16;

/// A permission: a verb on a resource, or on one object of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permission {
    /// API group.
    pub(crate) group: String,
    /// The resource, with a subresource after a slash.
    pub(crate) resource: String,
    /// The verb.
    pub(crate) verb: String,
    /// The object's name; `None`: any.
    pub(crate) name: Option<String>,
    /// The namespace; `None`: the whole cluster.
    pub(crate) namespace: Option<String>,
}

/// `list servers.policy.linkerd.io`
impl fmt::Display for Permission {
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

/// The subject of an access review.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// The user or service account that runs the command.
    Caller,
    /// A service account: its namespace and name.
    ServiceAccount(&'a str, &'a str),
}

/// Expands rules into permissions, in a namespace or in the whole cluster.
pub(crate) fn from_rules(rules: &[PolicyRule], namespace: Option<&str>) -> Vec<Permission> {
    let mut permissions = Vec::new();
    for rule in rules {
        let names: Vec<Option<&String>> = match rule.resource_names.as_deref() {
            None | Some([]) => vec![None],
            Some(names) => names.iter().map(Some).collect(),
        };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    permissions.extend(names.iter().map(|name| Permission {
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
    permissions
}

/// Returns the permissions that the subject lacks.
pub(crate) async fn missing_permissions(
    client: &Client,
    subject: Subject<'_>,
    permissions: Vec<Permission>,
) -> FetchResult<Vec<Permission>> {
    let reviews = permissions.into_iter().map(|permission| async move {
        let is_allowed = is_allowed(client, subject, &permission).await?;
        Ok::<_, FetchError>((!is_allowed).then_some(permission))
    });
    let mut answers = futures_util::stream::iter(reviews).buffered(CONCURRENCY);
    let mut missing = Vec::new();
    while let Some(answer) = answers.next().await {
        missing.extend(answer?);
    }
    Ok(missing)
}

async fn is_allowed(
    client: &Client,
    subject: Subject<'_>,
    permission: &Permission,
) -> FetchResult<bool> {
    let (resource, subresource) = match permission.resource.split_once('/') {
        Some((resource, subresource)) => (resource, subresource),
        None => (permission.resource.as_str(), ""),
    };
    let attributes = json!({
        "group": permission.group, "resource": resource, "subresource": subresource,
        "verb": permission.verb, "name": permission.name, "namespace": permission.namespace,
    });
    let (kind, plural, spec) = match subject {
        Subject::Caller => (
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": attributes}),
        ),
        Subject::ServiceAccount(namespace, name) => (
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
            let permission = format!(
                "{{apiGroups: [authorization.k8s.io], resources: [{plural}], verbs: [create]}} in \
                 the whole cluster"
            );
            return FetchError::Forbidden { permission, message: message(&error) };
        }
        FetchError::Failed(message(&error))
    };
    let unsent = |error: &dyn fmt::Display| FetchError::Failed(error.to_string());
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
            from_rules(&[rule, named], Some("shop")).iter().map(ToString::to_string).collect();
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
