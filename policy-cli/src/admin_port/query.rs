//! Paths with parameters of the admin port.

use std::fmt::Write;

/// A path of the admin port and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct AdminQuery {
    /// The path.
    pub(crate) path: &'static str,
    /// Parameters by name.
    pub(crate) parameters: Vec<(&'static str, String)>,
}

impl AdminQuery {
    /// The path and query of the request.
    pub(crate) fn target(&self) -> String {
        let mut target = self.path.to_owned();
        for (number, (name, value)) in self.parameters.iter().enumerate() {
            let separator = if number == 0 { '?' } else { '&' };
            // Writing to a String cannot fail.
            let _ = write!(target, "{separator}{name}={}", encoded(value));
        }
        target
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:*".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded() {
        let parameters =
            vec![("route", "HTTPRoute shop/api".to_owned()), ("client", "10.0.0.0/8&".to_owned())];
        let target = AdminQuery { path: "/tap", parameters }.target();
        assert_eq!(target, "/tap?route=HTTPRoute%20shop/api&client=10.0.0.0/8%26");
        let bare = AdminQuery { path: "/decisions", parameters: Vec::new() };
        assert_eq!(bare.target(), "/decisions");
    }
}
