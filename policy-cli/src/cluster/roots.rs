//! Trust roots of the mesh, as the control plane publishes them.

use super::Cluster;
use super::api_error::{explain, is_forbidden, is_not_found, message};
use super::list::one;
use anyhow::{Context, anyhow, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use std::path::Path;

/// ConfigMaps with the trust roots, in the namespace of the control plane: that of this project's
/// issuer, and Linkerd's.
pub(crate) const ROOTS: [&str; 2] =
    ["portcullis-identity-trust-roots", "linkerd-identity-trust-roots"];

/// Key of the trust bundle in both ConfigMaps.
pub(crate) const BUNDLE: &str = "ca-bundle.crt";

/// Returns the trust roots of the mesh: those of the file, or those in the control plane's
/// `namespace`.
///
/// # Errors
/// Neither can be read; the message names the alternatives.
pub(crate) async fn roots(
    cluster: &Cluster,
    namespace: &str,
    file: Option<&Path>,
) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    if let Some(path) = file {
        return read_roots(path);
    }
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut refused = Vec::new();
    for name in ROOTS {
        match one(&cluster.client, &path, name).await {
            Ok(found) => return bundle(&found, namespace, name),
            Err(error) if is_forbidden(&error) || is_not_found(&error) => {
                refused.push(message(&error));
            }
            Err(error) => {
                return Err(explain(&error, &cluster.source, "read the roots of the mesh"));
            }
        }
    }
    bail!(
        "the roots of the mesh are not known: {}; --trust-roots FILE names them",
        refused.join("; ")
    )
}

fn bundle(
    found: &Value,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = found.get("data").and_then(|data| data.get(BUNDLE)).and_then(Value::as_str);
    let text = text.ok_or_else(|| {
        anyhow!(
            "ConfigMap {namespace}/{name} has no `{BUNDLE}`; --trust-roots FILE names the roots"
        )
    })?;
    certificates(text).with_context(|| format!("`{BUNDLE}` of ConfigMap {namespace}/{name}"))
}

/// Reads the roots from a file.
///
/// # Errors
/// The file cannot be read, or contains no certificate.
pub(crate) fn read_roots(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("--trust-roots: `{}`", path.display()))?;
    certificates(&text).with_context(|| format!("--trust-roots: `{}`", path.display()))
}

/// Parses the certificates of a PEM text, at least one.
///
/// # Errors
/// The text is not PEM, or contains no certificate.
pub(crate) fn certificates(text: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| anyhow!("is not PEM: {error}"))?;
    if found.is_empty() {
        bail!("has no certificate in it");
    }
    Ok(found)
}
