//! Classification and explanation of API server errors.

use super::{QuerySource, error_chain};
use anyhow::anyhow;

/// True for 403 Forbidden.
pub(crate) fn is_forbidden(error: &kube::Error) -> bool {
    code(error) == Some(403)
}

/// True for 404 Not Found.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    code(error) == Some(404)
}

/// True for 410 Gone: the continue token has expired.
pub(crate) fn is_gone(error: &kube::Error) -> bool {
    code(error) == Some(410)
}

fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}

/// Message of the API server, or the connection error.
pub(crate) fn message(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return error_chain(error) };
    if status.message.is_empty() {
        format!("HTTP status {}", status.code)
    } else {
        status.message.clone()
    }
}

/// Converts an error into an actionable message; `doing` follows "cannot".
pub(crate) fn explain(error: &kube::Error, source: &QuerySource, doing: &str) -> anyhow::Error {
    let message = message(error);
    let server = source.server.as_deref().unwrap_or("the API server");
    match code(error) {
        Some(401) => anyhow!(
            "cannot {doing}: {server} does not accept the credentials of {source} ({message}); \
             they may have expired: log in again, or give another --context"
        ),
        Some(403) => anyhow!("cannot {doing}: {message}"),
        Some(_) => anyhow!("cannot {doing}: {server} answers: {message}"),
        None => anyhow!(
            "cannot {doing}: {server} cannot be reached ({message}); is it the cluster you mean? \
             --context and --kubeconfig choose another"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Scope;
    use kube::core::Status;

    fn refused(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "").with_code(code).boxed())
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        let source = QuerySource {
            context: Some("kind".to_owned()),
            server: Some("https://api".to_owned()),
            ..QuerySource::directory(".", &Scope::All)
        };
        let source = QuerySource { directory: None, ..source };
        let said = |code, message: &str| {
            explain(&refused(code, message), &source, "list pods").to_string()
        };
        assert_eq!(
            said(401, "Unauthorized"),
            "cannot list pods: https://api does not accept the credentials of context kind at \
             https://api, all namespaces (Unauthorized); they may have expired: log in again, or \
             give another --context"
        );
        assert_eq!(said(403, "pods is forbidden: …"), "cannot list pods: pods is forbidden: …");
        assert_eq!(said(500, "etcd"), "cannot list pods: https://api answers: etcd");
    }
}
