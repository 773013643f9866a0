//! Reads from a cluster. Errors contain the missing permission.

use crate::cluster::api_error::{is_forbidden, is_not_found, message};
use crate::cluster::list::{one, pages};
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;

/// Result of a read from the cluster.
pub(crate) type FetchResult<T> = Result<T, FetchError>;

/// Error of a read from the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// 403 Forbidden.
    Forbidden {
        /// The permission, as a rule of a role.
        permission: String,
        /// The API server's words.
        message: String,
    },
    /// Another error, in words.
    Failed(String),
}

impl FetchError {
    /// The error in words.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Forbidden { message, .. } | Self::Failed(message) => message,
        }
    }

    /// The permission that would allow the read.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Forbidden { permission, .. } => {
                Some(format!("it needs the permission {permission}"))
            }
            Self::Failed(_) => None,
        }
    }

    /// Converts an API server error on `verb` of the resource of a path, or of the object with this
    /// name.
    pub(crate) fn new(error: &kube::Error, verb: &str, path: &str, name: Option<&str>) -> Self {
        if is_forbidden(error) {
            return Self::Forbidden {
                permission: permission(verb, path, name),
                message: message(error),
            };
        }
        Self::Failed(message(error))
    }
}

/// Lists the objects of a path; empty if its kind is not served.
pub(crate) async fn list(client: &Client, path: &str) -> FetchResult<Vec<Value>> {
    match pages(client, path).await {
        Ok(objects) => Ok(objects),
        Err(error) if is_not_found(&error) => Ok(Vec::new()),
        Err(error) => Err(FetchError::new(&error, "list", path, None)),
    }
}

/// Lists the objects of a path with these field selectors, such as `metadata.name=roots`.
pub(crate) async fn select(client: &Client, path: &str, fields: &str) -> FetchResult<Vec<Value>> {
    let response = async {
        let params = ListParams::default().fields(fields);
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        client.request::<Value>(request).await
    };
    match response.await {
        Ok(mut list) => match list.get_mut("items").map(Value::take) {
            Some(Value::Array(found)) => Ok(found),
            _ => Ok(Vec::new()),
        },
        // RBAC authorizes a list with this field selector as one of the object of that name.
        Err(error) => {
            Err(FetchError::new(&error, "list", path, fields.strip_prefix("metadata.name=")))
        }
    }
}

/// Reads the object of this name below a path; `None` if there is none.
pub(crate) async fn get(client: &Client, path: &str, name: &str) -> FetchResult<Option<Value>> {
    match one(client, path, name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(FetchError::new(&error, "get", path, Some(name))),
    }
}

/// Rule of a role that allows `verb` on the resource of a path. It is limited to the object with
/// this name if there is one, because a rule on every Secret would cover every private key.
fn permission(verb: &str, path: &str, name: Option<&str>) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _version, rest @ ..] => ("", rest),
        ["apis", group, _version, rest @ ..] => (*group, rest),
        rest => ("", rest),
    };
    let (place, resource) = match rest {
        ["namespaces", namespace, resource, ..] => (format!("namespace {namespace}"), *resource),
        [resource, ..] => ("the whole cluster".to_owned(), *resource),
        [] => ("the whole cluster".to_owned(), "*"),
    };
    let names = name.map(|name| format!("resourceNames: [{name}], ")).unwrap_or_default();
    format!(
        "{{apiGroups: [\"{group}\"], resources: [{resource}], {names}verbs: [{verb}]}} in {place}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_is_that_of_the_path() {
        for (path, expected) in [
            (
                "/api/v1/pods",
                "{apiGroups: [\"\"], resources: [pods], verbs: [list]} in the whole cluster",
            ),
            (
                "/api/v1/namespaces/shop/events",
                "{apiGroups: [\"\"], resources: [events], verbs: [list]} in namespace shop",
            ),
            (
                "/apis/apps/v1/namespaces/shop/deployments",
                "{apiGroups: [\"apps\"], resources: [deployments], verbs: [list]} in namespace shop",
            ),
        ] {
            assert_eq!(permission("list", path, None), expected);
        }
    }

    #[test]
    fn the_right_to_one_object_is_no_right_to_others() {
        assert_eq!(
            permission("get", "/api/v1/namespaces/mesh/secrets", Some("policy-admission-tls")),
            "{apiGroups: [\"\"], resources: [secrets], resourceNames: [policy-admission-tls], \
             verbs: [get]} in namespace mesh"
        );
    }
}
