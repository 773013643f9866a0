//! Connections of a pod that carry no identity, whatever sidecar it has.

use super::container::outbound_arguments;
use super::dry_run::settings;
use super::effective_config::EffectiveConfig;
use super::element::texts;
use super::opt_in::NamespaceContext;
use super::setting::{DISABLED, Setting};
use super::skip_reason::{SkipReason, reason};
use super::unguarded::unguarded;
use serde_json::Value;

/// The reason why a connection to a skipped port is plaintext.
const SKIPPED: &str =
    "its connections to the port go around its sidecar, because skip-outbound-ports names it";
/// The reason why every connection is plaintext.
const OFF: &str =
    "its sidecar leaves the connections that it opens alone, because `outbound` is disabled";

/// Returns the reason why connections of `pod`, the JSON of a Pod or of a pod template, to this port of
/// others are plaintext without an identity; `None` if its sidecar may carry them. Defaults of an
/// installation are not known here, so that nothing is said of them.
pub fn plaintext_call(
    pod: &Value,
    context: &NamespaceContext,
    control_plane: &str,
    port: u16,
) -> Option<String> {
    if let Some(SkipReason::AlreadyInjected { .. }) = reason(pod) {
        let (is_on, skipped) = outbound_arguments(pod)?;
        let why = if is_on { skipped.contains(port).then_some(SKIPPED) } else { Some(OFF) };
        return why.map(str::to_owned);
    }
    if let Some(why) = unguarded(pod, context, control_plane).pod {
        return Some(format!("it has no sidecar: {why}"));
    }
    let annotations = texts(pod.pointer("/metadata/annotations"));
    let settings = settings();
    let config =
        EffectiveConfig::of(pod, &annotations, context, &settings.defaults, settings.hindrance());
    let config = config.ok()?;
    if config.get(Setting::Outbound) == Some(DISABLED) {
        return Some(OFF.to_owned());
    }
    config.skips_call(port).then(|| SKIPPED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(annotations: Value, port: u16) -> Option<String> {
        let pod = json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        });
        plaintext_call(&pod, &NamespaceContext::unknown("shop"), "mesh", port)
    }

    #[test]
    fn calls_that_carry_no_identity_are_told_with_the_setting() {
        let skip = json!({"portcullis.dev/skip-outbound-ports": "5432,8000-8999"});
        assert_eq!(of(skip.clone(), 8080), Some(SKIPPED.to_owned()));
        assert_eq!(of(skip, 9090), None);
        let off = json!({"portcullis.dev/outbound": "disabled"});
        assert_eq!(of(off, 8080), Some(OFF.to_owned()));
        let none = of(json!({"portcullis.dev/inject": "disabled"}), 8080).unwrap();
        assert!(none.starts_with("it has no sidecar: "), "{none}");
        assert_eq!(of(json!({}), 8080), None);
    }
}
