//! The version of a document.

use crate::file::SourceNode;
use policy_crds::quote;

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiVersion {
    /// Swagger 2.0.
    Swagger2,
    /// OpenAPI 3.0 and 3.1.
    OpenApi3,
}

/// The version that a document states.
///
/// # Errors
/// It is none that is imported.
pub(super) fn version(root: &SourceNode<'_>) -> Result<ApiVersion, String> {
    const ALLOWED: &str = "OpenAPI 3.0 and 3.1 and Swagger 2.0 are imported";
    let is = |text: &str, version: &str| {
        text.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for (key, known, version) in [
        ("openapi", &["3.0", "3.1"][..], ApiVersion::OpenApi3),
        ("swagger", &["2.0", "2"][..], ApiVersion::Swagger2),
    ] {
        let Some(node) = root.get(key) else { continue };
        let text = node.scalar().unwrap_or_default();
        if known.iter().any(|known| is(&text, known)) {
            return Ok(version);
        }
        return Err(node.error(format!("{}: {ALLOWED}", quote(&text))));
    }
    Err(root.error(format!("`openapi` or `swagger` is required: {ALLOWED}")))
}
