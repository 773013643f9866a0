//! Lines of a stream as rows of a table.

use serde_json::Value;

/// The names of the columns.
pub(crate) const HEADER: &str = "TIME          DECISION  POD:PORT                        CLIENT                          REQUEST";

/// The row of a decision, of which `source` is the sidecar; `None` if the line is none.
pub(crate) fn row(source: &str, line: &Value) -> Option<String> {
    let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).map(visible);
    let decision = text("/decision")?;
    let at = text("/at").unwrap_or_default();
    let time = at.split_once('T').map_or(at.as_str(), |(_, time)| time.trim_end_matches('Z'));
    let is_dialled = line.get("dialled").is_some();
    let port = line.pointer("/port").and_then(Value::as_u64).filter(|_| !is_dialled);
    let dialled = || match (text("/dialled/service"), text("/dialled/address")) {
        (Some(service), Some(address)) => Some(format!("(to {service}, {address})")),
        (to, address) => to.or(address).map(|to| format!("(to {to})")),
    };
    let client = text("/client/identity").or_else(|| text("/client/address")).or_else(dialled);
    let client = client.unwrap_or_default();
    let request = match (text("/request/method"), text("/request/path")) {
        (Some(method), Some(path)) => {
            let status = line.pointer("/request/status").and_then(Value::as_u64);
            format!("{method} {path} {}", status.map_or(String::new(), |status| status.to_string()))
        }
        (_, _) if is_dialled => "own connection".to_owned(),
        (_, _) => "connection".to_owned(),
    };
    let mut row = format!(
        "{time:<12}  {decision:<8}  {:<30}  {client:<30}  {request}",
        match port {
            Some(port) => format!("{}:{port}", visible(source)),
            None => visible(source),
        }
    );
    for (name, pointer) in [
        ("reason", "/reason"),
        ("route", "/route"),
        ("authorization", "/authorization"),
        ("id", "/id"),
    ] {
        if let Some(value) = text(pointer) {
            row.push_str(&format!("  {name}={value}"));
        }
    }
    Some(row)
}

/// The number of decisions that a line says were left out.
pub(crate) fn left_out(line: &Value) -> Option<u64> {
    line.pointer("/leftOut/decisions").and_then(Value::as_u64)
}

/// Text of others without what a terminal would obey.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_has_who_what_and_why() {
        let line = json!({
            "at": "2026-11-29T21:05:00.123Z", "port": 8080, "decision": "deny",
            "client": {"identity": "cart.shop", "address": "10.0.0.1:1"}, "reason": "unauthorized",
            "route": "HTTPRoute shop/api", "authorization": null, "id": "kwy4000001",
            "request": {"method": "GET", "path": "/a\u{1b}[1m", "status": 403},
        });
        let told = row("shop/web-0", &line).unwrap();
        let words: Vec<&str> = told.split_whitespace().collect();
        let expected = [
            "21:05:00.123",
            "deny",
            "shop/web-0:8080",
            "cart.shop",
            "GET",
            "/a\u{fffd}[1m",
            "403",
            "reason=unauthorized",
            "route=HTTPRoute",
            "shop/api",
            "id=kwy4000001",
        ];
        assert_eq!(words, expected);
        let own = json!({
            "at": "2026-11-29T21:05:00Z", "decision": "deny", "reason": "no_endpoint",
            "dialled": {"service": "cart.shop", "address": "10.0.0.1:80"}, "id": null,
        });
        let told = row("shop/web-0", &own).unwrap();
        let words: Vec<&str> = told.split_whitespace().collect();
        let expected = [
            "21:05:00",
            "deny",
            "shop/web-0",
            "(to",
            "cart.shop,",
            "10.0.0.1:80)",
            "own",
            "connection",
            "reason=no_endpoint",
        ];
        assert_eq!(words, expected);
        assert_eq!(row("a", &json!({"begun": {}})), None);
        assert_eq!(left_out(&json!({"leftOut": {"decisions": 7}})), Some(7));
    }
}
