//! Errors of decoding, with the path of the field.

/// Result of a conversion.
pub(crate) type Result<T, E = DecodeError> = std::result::Result<T, E>;

/// A message that cannot be read. Nothing of it may be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct DecodeError {
    /// The field, from the message's root: `protocol.detect.http_routes[2].rules[0].matches[1].path`.
    pub path: String,
    /// The fault, in words.
    pub message: String,
}

impl DecodeError {
    /// Creates an error of the current value. Callers add its path from the inside out.
    pub(crate) fn here(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    /// A field or oneof that must be present and is not.
    pub(crate) fn missing() -> Self {
        Self::here("must be set")
    }

    fn inside(mut self, outer: &str) -> Self {
        if self.path.is_empty() {
            self.path = outer.to_owned();
        } else if self.path.starts_with('[') {
            self.path.insert_str(0, outer);
        } else {
            self.path.insert(0, '.');
            self.path.insert_str(0, outer);
        }
        self
    }
}

/// Adds the path of a field to the error of a failed conversion.
pub(crate) trait At<T> {
    /// Adds a field.
    fn at(self, field: &str) -> Result<T, DecodeError>;
    /// Adds one item of a field.
    fn item(self, field: &str, index: usize) -> Result<T, DecodeError>;
}

impl<T> At<T> for Result<T, DecodeError> {
    fn at(self, field: &str) -> Result<T, DecodeError> {
        self.map_err(|error| error.inside(field))
    }

    fn item(self, field: &str, index: usize) -> Result<T, DecodeError> {
        self.map_err(|error| error.inside(&format!("{field}[{index}]")))
    }
}

/// Converts every item of a repeated field; the first that fails is named by its index.
pub(crate) fn each<T, U>(
    field: &str,
    items: &[T],
    convert: impl Fn(&T) -> Result<U, DecodeError>,
) -> Result<Vec<U>, DecodeError> {
    // Collecting would guess the length: a list of one would take the room of four for good.
    let mut converted = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        converted.push(convert(item).item(field, index)?);
    }
    Ok(converted)
}

/// Converts a field that must be present.
pub(crate) fn required<T, U>(
    field: &str,
    value: Option<&T>,
    convert: impl FnOnce(&T) -> Result<U, DecodeError>,
) -> Result<U, DecodeError> {
    value.ok_or_else(DecodeError::missing).and_then(convert).at(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_reads_from_the_outside_in() {
        let inner: Result<(), _> = Err(DecodeError::missing());
        let error = inner.at("regex").at("path").item("matches", 1).at("detect").unwrap_err();
        assert_eq!(error.to_string(), "detect.matches[1].path.regex: must be set");
    }
}
