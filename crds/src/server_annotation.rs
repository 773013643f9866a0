//! Annotations of Servers that policy depends on.

use crate::annotation::{
    Annotations, INFORMATIONAL_HEADERS, PATH_NORMALIZATION, Reading, UPSTREAM_REUSE, unknown,
};
use policy_core::{InformationalHeaders, PathHandling, UpstreamReuse};

/// The handling of ambiguous paths on a Server: `canonical` (also if absent or unreadable) or
/// `raw`.
pub fn path_normalization(annotations: &Annotations) -> Reading<PathHandling> {
    let Some(text) = annotations.get(PATH_NORMALIZATION) else {
        return Reading { value: PathHandling::Canonical, errors: Vec::new() };
    };
    match &**text {
        "canonical" => Reading { value: PathHandling::Canonical, errors: Vec::new() },
        "raw" => Reading { value: PathHandling::Raw, errors: Vec::new() },
        text => {
            let consequence = "is read as `canonical`";
            let known = ["canonical", "raw"];
            let errors = vec![unknown(PATH_NORMALIZATION, text, &known, consequence)];
            Reading { value: PathHandling::Canonical, errors }
        }
    }
}

/// The informational headers of requests to a Server: enabled unless one of
/// [`INFORMATIONAL_HEADERS`] is `disabled`. Any other value but `enabled` is an error and enables
/// them.
pub fn informational_headers(annotations: &Annotations) -> Reading<InformationalHeaders> {
    let (mut value, mut errors) = (InformationalHeaders::Enabled, Vec::new());
    for name in INFORMATIONAL_HEADERS {
        match annotations.get(name).map(|text| &**text) {
            None | Some("enabled") => {}
            Some("disabled") => value = InformationalHeaders::Disabled,
            Some(text) => {
                let consequence = "is read as `enabled`";
                errors.push(unknown(name, text, &["disabled", "enabled"], consequence));
            }
        }
    }
    Reading { value, errors }
}

/// The reuse of connections to the application of a Server: `usual` (also if absent), or `without-body`,
/// which an unreadable value is read as.
pub fn upstream_reuse(annotations: &Annotations) -> Reading<UpstreamReuse> {
    let known = ["usual", "without-body"];
    match annotations.get(UPSTREAM_REUSE).map(|text| &**text) {
        None | Some("usual") => Reading { value: UpstreamReuse::Usual, errors: Vec::new() },
        Some("without-body") => Reading { value: UpstreamReuse::WithoutBody, errors: Vec::new() },
        Some(text) => {
            let errors = vec![unknown(UPSTREAM_REUSE, text, &known, "is read as `without-body`")];
            Reading { value: UpstreamReuse::WithoutBody, errors }
        }
    }
}
