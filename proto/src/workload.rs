//! The token by which a proxy names its workload. Opaque to the proxy; its injector wrote it.

use policy_core::{WorkloadKey, WorkloadKind};
use std::sync::Arc;

/// Error of parsing the name of a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It begins like JSON and is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// A key that must be there is not, or is not a string.
    #[error("key `{0}` must be present and a string")]
    Missing(&'static str),
    /// Neither `pod` nor `external_workload`.
    #[error("one of the keys `pod` and `external_workload` must be present")]
    NoKind,
    /// Both `pod` and `external_workload`.
    #[error("only one of the keys `pod` and `external_workload` may be present")]
    TwoKinds,
    /// Not JSON, and without a colon.
    #[error("expected `namespace:pod` or a JSON object, got `{0}`")]
    NoColon(String),
    /// One side of the colon is empty.
    #[error("{0} is empty in `{1}`")]
    Empty(&'static str, String),
}

/// Reads a token: `{"ns":"…","pod":"…"}` or `{"ns":"…","external_workload":"…"}`, further keys and
/// white space at the end being ignored; else `namespace:pod`.
pub fn parse_workload(token: &str) -> Result<WorkloadKey, TokenError> {
    if token.starts_with('{') { parse_json(token) } else { parse_legacy(token) }
}

/// Writes the token: JSON in one line with a line feed at the end, as Linkerd's injector does.
pub fn format_workload(workload: &WorkloadKey) -> String {
    let WorkloadKey { namespace, kind, name } = workload;
    let key = match kind {
        WorkloadKind::Pod => "pod",
        WorkloadKind::ExternalWorkload => "external_workload",
    };
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    format!("{{\"ns\":{},\"{key}\":{}}}\n", quote(namespace), quote(name))
}

fn parse_json(token: &str) -> Result<WorkloadKey, TokenError> {
    let value: serde_json::Value =
        serde_json::from_str(token).map_err(|error| TokenError::Syntax(error.to_string()))?;
    let text = |key: &'static str| match value.get(key) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(Arc::from(text))),
            None => Err(TokenError::Missing(key)),
        },
    };
    let namespace = text("ns")?.ok_or(TokenError::Missing("ns"))?;
    let (kind, name) = match (text("pod")?, text("external_workload")?) {
        (Some(name), None) => (WorkloadKind::Pod, name),
        (None, Some(name)) => (WorkloadKind::ExternalWorkload, name),
        (Some(_), Some(_)) => return Err(TokenError::TwoKinds),
        (None, None) => return Err(TokenError::NoKind),
    };
    Ok(WorkloadKey { namespace, kind, name })
}

fn parse_legacy(token: &str) -> Result<WorkloadKey, TokenError> {
    let shown = || shorten(token);
    let (namespace, name) = token.split_once(':').ok_or_else(|| TokenError::NoColon(shown()))?;
    if namespace.is_empty() {
        return Err(TokenError::Empty("namespace", shown()));
    }
    if name.is_empty() {
        return Err(TokenError::Empty("pod", shown()));
    }
    Ok(WorkloadKey::pod(namespace, name))
}

/// Enough of a stranger's text to recognise it.
fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_pod() {
        assert_eq!(
            parse_workload("{\"ns\":\"a\",\"pod\":\"b\"}\n"),
            Ok(WorkloadKey::pod("a", "b"))
        );
        assert_eq!(
            parse_workload("{\"x\":1,\"pod\":\"b\",\"ns\":\"a\"}  "),
            Ok(WorkloadKey::pod("a", "b"))
        );
        assert_eq!(parse_workload("a:b"), Ok(WorkloadKey::pod("a", "b")));
        assert_eq!(parse_workload("a:b:c"), Ok(WorkloadKey::pod("a", "b:c")));
    }

    #[test]
    fn a_written_token_reads_back() {
        for kind in [WorkloadKind::Pod, WorkloadKind::ExternalWorkload] {
            let name = WorkloadKey { namespace: "a\"b".into(), kind, name: "ü\n".into() };
            let token = format_workload(&name);
            assert!(token.ends_with("}\n"), "{token}");
            assert_eq!(parse_workload(&token), Ok(name));
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (token, message) in [
            ("web", "expected `namespace:pod` or a JSON object, got `web`"),
            (":web", "namespace is empty in `:web`"),
            ("ns:", "pod is empty in `ns:`"),
            ("", "expected `namespace:pod` or a JSON object, got ``"),
            ("{\"ns\":\"a\"}", "one of the keys `pod` and `external_workload` must be present"),
            ("{\"pod\":\"a\"}", "key `ns` must be present and a string"),
            ("{\"ns\":1,\"pod\":\"a\"}", "key `ns` must be present and a string"),
            (
                "{\"ns\":\"a\",\"pod\":\"a\",\"external_workload\":\"a\"}",
                "only one of the keys `pod` and `external_workload` may be present",
            ),
        ] {
            assert_eq!(parse_workload(token).unwrap_err().to_string(), message);
        }
        let syntax = parse_workload("{\"ns\":").unwrap_err().to_string();
        assert!(syntax.starts_with("not valid JSON: EOF"), "{syntax}");
    }
}
