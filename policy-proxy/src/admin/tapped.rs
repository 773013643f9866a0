//! `/tap`: its filter, and its response.

use super::answer::{AdminBody, lines};
use super::query::Query;
use crate::tap::{MAX_RATE, RATE, TapClient, TapDecision, TapFilter, TapReader, TapReason};
use http::Response;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Reads the filter of a stream.
///
/// # Errors
/// A parameter is invalid.
pub(super) fn filter(query: &Query) -> Result<TapFilter, String> {
    let decision = |text: &str| {
        let known = TapDecision::ALL.into_iter().find(|own| own.as_str() == text);
        known.ok_or_else(|| invalid("decision", text, "allow, audit or deny"))
    };
    let reason = |text: &str| {
        let named = TapReason::parse(text);
        let known = !named.is_empty();
        known.then_some(named).ok_or_else(|| invalid("reason", text, "a reason of a refusal"))
    };
    let port = |text: &str| text.parse::<NonZeroU16>().map_err(|_| invalid("port", text, "a port"));
    let rate = query.parsed::<u32>("rate", "a number")?.unwrap_or(RATE);
    if rate == 0 || rate > MAX_RATE {
        return Err(format!("rate: `{rate}`: expected 1 to {MAX_RATE} decisions per second"));
    }
    Ok(TapFilter {
        clients: query.all("client").map(TapClient::parse).collect(),
        reasons: query.all("reason").map(reason).collect::<Result<Vec<_>, _>>()?.concat(),
        routes: query.all("route").map(str::to_owned).collect(),
        decisions: query.all("decision").map(decision).collect::<Result<_, _>>()?,
        ports: query.all("port").map(port).collect::<Result<_, _>>()?,
        rate,
    })
}

fn invalid(name: &str, text: &str, expected: &str) -> String {
    format!("{name}: `{}`: expected {expected}", text.escape_default())
}

/// The response of a stream; `open` is held while it goes on.
pub(super) fn stream(reader: TapReader, open: Arc<()>) -> Response<AdminBody> {
    lines(futures_util::stream::unfold((reader, open), |(mut reader, open)| async move {
        let line = reader.next().await;
        Some((line, (reader, open)))
    }))
}
