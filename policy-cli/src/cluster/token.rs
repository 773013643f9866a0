//! ServiceAccount tokens of the TokenRequest API.

use super::Cluster;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

/// Requests a token of the account `(namespace, name)` for `audience`, valid for `seconds`.
///
/// # Errors
/// The API server's: the account does not exist, or creating its tokens is forbidden.
pub(crate) async fn request(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    audience: &str,
    seconds: i64,
) -> Result<String, kube::Error> {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), namespace);
    let body = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            expiration_seconds: Some(seconds),
            bound_object_ref: None,
        },
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(name, &Default::default(), &body).await?;
    Ok(answer.status.map(|status| status.token).unwrap_or_default())
}
