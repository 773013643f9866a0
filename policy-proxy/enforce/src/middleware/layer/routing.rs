//! The target that is decided on, where a router has read the request before the layer.

use crate::middleware::authorizer::Targets;
use http::Uri;
use http::request::Parts;

/// A router's part in the target of a request.
#[derive(Debug)]
pub(super) struct Routing {
    targets: Targets,
    /// The target that the router left, while the original one is decided on.
    left: Option<Uri>,
}

impl Routing {
    /// Puts the original target of a request into its head, if a router has kept one.
    pub(super) fn begin(whole_service: bool, head: &mut Parts) -> Self {
        let Some(original) = original_target(head) else {
            let targets =
                if whole_service { Targets::WithCanonicalForm } else { Targets::Canonical };
            return Self { targets, left: None };
        };
        let left = Some(std::mem::replace(&mut head.uri, original));
        Self { targets: Targets::Canonical, left }
    }

    /// Returns the targets that may be forwarded.
    pub(super) fn targets(&self) -> Targets {
        self.targets
    }

    /// Puts the path that the router left beside the authority that was decided on.
    pub(super) fn end(self, head: &mut Parts) {
        let Some(left) = self.left else { return };
        let mut parts = head.uri.clone().into_parts();
        parts.path_and_query = left.path_and_query().cloned();
        head.uri = Uri::from_parts(parts).unwrap_or(left);
    }
}

/// Returns the target as axum's outermost router received it. Inside of a nested router the head has
/// a part of it.
#[cfg(feature = "axum")]
fn original_target(head: &Parts) -> Option<Uri> {
    head.extensions.get::<axum::extract::OriginalUri>().map(|original| original.0.clone())
}

#[cfg(not(feature = "axum"))]
fn original_target(_: &Parts) -> Option<Uri> {
    None
}
