//! The workload token of Linkerd's API and ours (controller-semantics 3.1).

use crate::publish::WorkloadKey;
use serde::Deserialize;

/// Longest token read, in bytes: two names of at most 253 bytes and their JSON.
const MAX_TOKEN: usize = 1024;

/// Why a text is not a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Empty.
    #[error("the token is empty; it is `{{\"ns\":\"NAMESPACE\",\"pod\":\"NAME\"}}` or `NAMESPACE:POD`")]
    Empty,
    /// Longer than any token.
    #[error("the token is {0} bytes long; at most {MAX_TOKEN} are read")]
    TooLong(usize),
    /// Begins with `{` but is not a JSON object of the right types.
    #[error("the token is not valid JSON: {0}")]
    Json(String),
    /// JSON without a workload, or with two.
    #[error("the token names {0}; it must name exactly one of `pod` and `external_workload`")]
    Workload(&'static str),
    /// The legacy form without its colon.
    #[error("`{0}` is neither JSON nor `NAMESPACE:POD`: there is no colon")]
    NoColon(String),
    /// The legacy form with an empty half.
    #[error("`{0}` is not `NAMESPACE:POD`: the {1} is empty")]
    EmptyHalf(String, &'static str),
}

#[derive(Deserialize)]
struct Token {
    ns: String,
    pod: Option<String>,
    external_workload: Option<String>,
}

/// Reads a token: JSON, or `NAMESPACE:POD`. Names need not exist.
///
/// # Errors
/// What is wrong, in words that the client's operator can act on.
pub fn parse(text: &str) -> Result<WorkloadKey, TokenError> {
    if text.len() > MAX_TOKEN {
        return Err(TokenError::TooLong(text.len()));
    }
    if text.starts_with('{') {
        return json(text);
    }
    if text.trim().is_empty() {
        return Err(TokenError::Empty);
    }
    let Some((namespace, pod)) = text.split_once(':') else {
        return Err(TokenError::NoColon(text.to_owned()));
    };
    if namespace.is_empty() {
        return Err(TokenError::EmptyHalf(text.to_owned(), "namespace"));
    }
    if pod.is_empty() {
        return Err(TokenError::EmptyHalf(text.to_owned(), "pod name"));
    }
    Ok(WorkloadKey::pod(namespace, pod))
}

fn json(text: &str) -> Result<WorkloadKey, TokenError> {
    // serde_json allows white space after the value; Linkerd's proxy sends a newline.
    let token: Token =
        serde_json::from_str(text).map_err(|error| TokenError::Json(error.to_string()))?;
    match (token.pod, token.external_workload) {
        (Some(pod), None) => Ok(WorkloadKey::pod(&token.ns, &pod)),
        (None, Some(name)) => Ok(WorkloadKey::external(&token.ns, &name)),
        (Some(_), Some(_)) => Err(TokenError::Workload("two workloads")),
        (None, None) => Err(TokenError::Workload("no workload")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_token_is_read() {
        let pod = WorkloadKey::pod("ns", "web-0");
        for text in [
            "ns:web-0",
            "{\"ns\":\"ns\",\"pod\":\"web-0\"}",
            "{\"ns\":\"ns\", \"pod\":\"web-0\", \"more\": [1]}\n",
        ] {
            assert_eq!(parse(text), Ok(pod.clone()), "{text}");
        }
        let external = WorkloadKey::external("ns", "vm");
        assert_eq!(parse("{\"ns\":\"ns\",\"external_workload\":\"vm\"}"), Ok(external));
        assert_eq!(parse("ns:a:b"), Ok(WorkloadKey::pod("ns", "a:b")), "split at the first colon");
    }

    #[test]
    fn a_bad_token_is_told_what_is_wrong_with_it() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert!(said("").starts_with("the token is empty"));
        assert!(said("\n").starts_with("the token is empty"));
        assert_eq!(said("web"), "`web` is neither JSON nor `NAMESPACE:POD`: there is no colon");
        assert_eq!(said(":web"), "`:web` is not `NAMESPACE:POD`: the namespace is empty");
        assert_eq!(said("ns:"), "`ns:` is not `NAMESPACE:POD`: the pod name is empty");
        assert!(said("{\"pod\":\"p\"}").contains("missing field `ns`"));
        assert!(said("{\"ns\":\"n\"}").starts_with("the token names no workload"));
        assert!(said("{\"ns\":1,\"pod\":\"p\"}").contains("expected a string"));
        assert!(said("{\"ns\":\"n\"").contains("not valid JSON"));
        assert!(said(&"a".repeat(2000)).contains("2000 bytes"));
        let both = "{\"ns\":\"n\",\"pod\":\"p\",\"external_workload\":\"e\"}";
        assert!(said(both).starts_with("the token names two workloads"));
    }
}
