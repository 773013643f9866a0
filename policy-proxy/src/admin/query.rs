//! Parameters of a query.

use std::str::FromStr;

/// The parameters of a query, in their order.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

/// Maximum number of parameters.
const MAX: usize = 128;

impl Query {
    /// Reads a query whose parameters have only these names.
    ///
    /// # Errors
    /// A parameter has another name, there are too many, or one is not UTF-8.
    pub(super) fn read(query: Option<&str>, names: &[&str]) -> Result<Self, String> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let mut read = Vec::new();
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !names.contains(&name.as_str()) {
                let known = names.join(", ");
                return Err(format!("`{}`: expected {known}", name.escape_default()));
            }
            if read.len() >= MAX {
                return Err(format!("expected at most {MAX} parameters"));
            }
            read.push((name, value));
        }
        Ok(Self(read))
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// It is given more than once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, String> {
        let mut all = self.all(name);
        match (all.next(), all.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(format!("`{name}` is given more than once")),
        }
    }

    /// All values of a parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, read as `what`.
    ///
    /// # Errors
    /// It cannot be read, or is given more than once.
    pub(super) fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, String> {
        let Some(value) = self.one(name)? else { return Ok(None) };
        let invalid = |_| format!("{name}: `{}`: expected {what}", value.escape_default());
        value.parse().map(Some).map_err(invalid)
    }
}

/// Decodes `+` and percent-encoded bytes.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                    return Err(format!("`{}` is not percent-encoded", text.escape_default()));
                };
                bytes.push(u8::try_from((high << 4) | low).unwrap_or_default());
                rest = after;
            }
            (b'%', _) => {
                return Err(format!("`{}` is not percent-encoded", text.escape_default()));
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8", text.escape_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_unknown_ones_named() {
        let query = Query::read(
            Some("port=80&path=%2Fa%3Fb&header=a:+1&header=b:2"),
            &["port", "path", "header"],
        );
        let query = query.unwrap();
        assert_eq!(query.parsed::<u16>("port", "a port"), Ok(Some(80)));
        assert_eq!(query.one("path"), Ok(Some("/a?b")));
        assert_eq!(query.all("header").collect::<Vec<_>>(), ["a: 1", "b:2"]);
        assert!(query.one("header").is_err());
        for (text, part) in [("prot=80", "`prot`"), ("port=%zz", "%zz"), ("port=%f", "%f")] {
            let error = Query::read(Some(text), &["port"]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(Query::read(Some("port=%ff"), &["port"]).unwrap_err().contains("UTF-8"));
        let query = Query::read(Some("port=http"), &["port"]).unwrap();
        let error = query.parsed::<u16>("port", "a port").unwrap_err();
        assert_eq!(error, "port: `http`: expected a port");
        assert!(Query::read(Some(&"port=1&".repeat(129)), &["port"]).is_err());
    }
}
