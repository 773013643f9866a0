//! Annotations of routes for outbound traffic: they are not used, but checked as Linkerd's
//! admission does.

use crate::annotation::field;
use crate::parse::duration;
use crate::parse::input::Input;
use crate::reader::quote;

/// Reports every retry or timeout annotation that cannot be read.
pub(super) fn check(input: &Input<'_>, grpc: bool) {
    for (name, text) in &input.meta.annotations {
        let problem = match &**name {
            "retry.linkerd.io/limit" => {
                text.parse::<u16>().err().map(|_| "is not a number from 0 to 65535".to_owned())
            }
            "retry.linkerd.io/timeout"
            | "timeout.linkerd.io/response"
            | "timeout.linkerd.io/request"
            | "timeout.linkerd.io/idle" => duration::linkerd(text).err().map(str::to_owned),
            "retry.linkerd.io/http" if !grpc => items(text, is_http_condition, HTTP_FORM),
            "retry.linkerd.io/grpc" if grpc => items(text, is_grpc_condition, GRPC_FORM),
            _ => None,
        };
        if let Some(problem) = problem {
            input.root.errors().add(field(name), format!("{} {problem}", quote(text)));
        }
    }
}

const HTTP_FORM: &str = "expected `5xx`, `gateway-error`, a status from 100 to 599 or a range";
const GRPC_FORM: &str = "expected `cancelled`, `deadline-exceeded`, `internal`, \
                         `resource-exhausted` or `unavailable`";

fn items(text: &str, good: impl Fn(&str) -> bool, form: &str) -> Option<String> {
    let bad = text.split(',').map(str::trim).find(|item| !good(item))?;
    Some(format!("contains {}, {form}", quote(bad)))
}

fn is_http_condition(item: &str) -> bool {
    let status = |text: &str| text.parse::<u16>().ok().filter(|s| (100..=599).contains(s));
    match item.split_once('-') {
        _ if matches!(item, "5xx" | "gateway-error") => true,
        Some((first, last)) => {
            status(first).zip(status(last)).is_some_and(|(first, last)| first <= last)
        }
        None => status(item).is_some(),
    }
}

fn is_grpc_condition(item: &str) -> bool {
    matches!(
        item,
        "cancelled" | "deadline-exceeded" | "internal" | "resource-exhausted" | "unavailable"
    )
}
