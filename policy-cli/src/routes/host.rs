//! The host that a user names.

use policy_core::HostPattern;
use policy_core::host::canonical_host;

/// Parses a host or a wildcard into its canonical form.
///
/// # Errors
/// The reason why it is none.
pub(crate) fn parse(text: &str) -> Result<HostPattern, String> {
    let wildcard = text.strip_prefix("*.");
    let name = wildcard.unwrap_or(text);
    if name.is_empty() {
        return Err("the host is empty".to_owned());
    }
    if name.contains('/') {
        return Err("a host is expected, without a scheme and without a path".to_owned());
    }
    if name.contains('*') {
        return Err("a wildcard has one `*`, which is its first label: `*.example.com`".to_owned());
    }
    if !name.is_ascii() {
        return Err(
            "has characters outside ASCII: write the form that begins with `xn--`".to_owned()
        );
    }
    let Ok(host) = canonical_host(name) else {
        let longest = name.split('.').map(str::len).max().unwrap_or_default();
        return Err(match (name.len(), longest) {
            (254.., _) => "is longer than 253 characters".to_owned(),
            (_, 64..) => "has a label of more than 63 characters".to_owned(),
            _ => "is neither a host name nor an IP address (IPv6 in brackets)".to_owned(),
        });
    };
    if host.port.is_some() || name.ends_with(':') {
        return Err("has a port: hosts are claimed without one".to_owned());
    }
    Ok(match wildcard {
        Some(_) => HostPattern::Suffix(host.name.as_ref().into()),
        None => HostPattern::Exact(host.name.as_ref().into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_host_is_the_same_host() {
        let exact = HostPattern::Exact("www.example.com".into());
        for text in ["www.example.com", "WWW.Example.com", "www.example.com."] {
            assert_eq!(parse(text), Ok(exact.clone()), "{text}");
        }
        assert_eq!(parse("*.Example.com."), Ok(HostPattern::Suffix("example.com".into())));
        assert_eq!(parse("[2001:DB8:0::1]"), Ok(HostPattern::Exact("[2001:db8::1]".into())));
    }

    #[test]
    fn what_is_no_host_says_why() {
        let long = format!("{}.example.com", "a".repeat(64));
        let longer = "a.".repeat(127) + "com";
        for (text, reason) in [
            ("", "is empty"),
            ("*.", "is empty"),
            ("https://example.com", "without a scheme"),
            ("example.com/a", "without a path"),
            ("a.*.com", "its first label"),
            ("*", "its first label"),
            ("bücher.example", "xn--"),
            ("example.com:443", "has a port"),
            ("example.com:", "has a port"),
            ("a b", "neither"),
            ("a..b", "neither"),
            ("1.2.3", "neither"),
            (&long, "63 characters"),
            (&longer, "253 characters"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
