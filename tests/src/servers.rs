//! Reactions of real HTTP servers to hostile bytes: the data of `tests/servers`, which its README
//! explains.

use crate::sources::root;
use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;

/// The bytes that follow a first line whenever it is sent: the rest of a request's head.
pub const REST: &[u8] = b"Host: a\r\n\r\n";

/// The first lines of connections, and how each server answered them.
///
/// # Errors
/// The file cannot be read, or is not what `tests/servers/record` writes.
pub fn first_lines() -> Result<Vec<FirstLine>> {
    read("first-lines.json")
}

/// The targets with characters that servers may decode, and how each server answered them.
///
/// # Errors
/// As for [`first_lines`].
pub fn characters() -> Result<Vec<Character>> {
    read("characters.json")
}

fn read<Row: DeserializeOwned>(name: &str) -> Result<Vec<Row>> {
    let path = root().join("tests/servers").join(name);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let file: File<Row> =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    ensure!(!file.rows.is_empty() && !file.servers.is_empty(), "{} is empty", path.display());
    Ok(file.rows)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<Row> {
    servers: BTreeMap<String, String>,
    rows: Vec<Row>,
}

/// A first line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstLine {
    /// The group it belongs to, such as `leading` or `protocol`.
    pub class: String,
    /// A few words that tell it from its neighbours.
    pub comment: String,
    /// The bytes themselves, with the line's end if it has one. [`REST`] is not among them.
    #[serde(deserialize_with = "bytes")]
    pub bytes: Vec<u8>,
    /// The answer of each server, by the server's name.
    pub answers: BTreeMap<String, Answer>,
}

impl FirstLine {
    /// All bytes that were sent.
    pub fn sent(&self) -> Vec<u8> {
        [&self.bytes, REST].concat()
    }

    /// The servers that ran their handler: bytes that they take are HTTP.
    pub fn routed_by(&self) -> Vec<&str> {
        routed_by(&self.answers)
    }
}

/// A target, which was asked for with `GET`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Character {
    /// The target itself.
    #[serde(deserialize_with = "bytes")]
    pub target: Vec<u8>,
    /// The character that it has between `/admin` and `x`; absent for [`Form::Other`].
    pub byte: Option<u8>,
    /// The spelling of that character.
    pub form: Form,
    /// The answer of each server, by the server's name.
    pub answers: BTreeMap<String, Answer>,
}

impl Character {
    /// The servers that ran their handler.
    pub fn routed_by(&self) -> Vec<&str> {
        routed_by(&self.answers)
    }

    /// The servers on which the path, or a view of it, is this.
    pub fn read_as(&self, path: &[u8]) -> Vec<&str> {
        let reading = self.answers.iter().filter(|(_, answer)| answer.reads_as(path));
        reading.map(|(name, _)| name.as_str()).collect()
    }
}

fn routed_by(answers: &BTreeMap<String, Answer>) -> Vec<&str> {
    let routing = answers.iter().filter(|(_, answer)| answer.routed());
    routing.map(|(name, _)| name.as_str()).collect()
}

/// A spelling of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The byte itself.
    Raw,
    /// A percent sign and two hex digits, with capital letters.
    Encoded,
    /// The same with small letters.
    EncodedLower,
    /// The encoded form, whose percent sign is encoded again.
    EncodedTwice,
    /// Another target, with no such character.
    Other,
}

/// A server's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The method that the handler read.
    #[serde(deserialize_with = "some_bytes")]
    pub method: Option<Vec<u8>>,
    /// The path that the handler read; absent: no handler ran.
    #[serde(deserialize_with = "some_bytes")]
    pub path: Option<Vec<u8>>,
    /// The target that the handler read.
    #[serde(deserialize_with = "some_bytes")]
    pub target: Option<Vec<u8>>,
    /// Other readings of the path on the same server, by name.
    #[serde(deserialize_with = "views")]
    pub views: BTreeMap<String, Vec<u8>>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Statuses that were sent before the handler ran.
    pub before: Vec<u16>,
    /// A response without a status line, as HTTP/0.9 has it.
    pub bare: bool,
    /// An answer that came only when the client had ended its side.
    pub at_end: bool,
    /// An end of the connection without a byte.
    pub closed: bool,
    /// Silence on a connection that stays open.
    pub silent: bool,
}

impl Answer {
    /// Tells whether the server ran its handler.
    pub const fn routed(&self) -> bool {
        self.path.is_some()
    }

    /// Tells whether the path, or a view of it, is this.
    pub fn reads_as(&self, path: &[u8]) -> bool {
        self.path.as_deref() == Some(path) || self.views.values().any(|view| view == path)
    }
}

/// Bytes as the files have them: a character each, or parts of which some are runs.
#[derive(Deserialize)]
#[serde(try_from = "Written")]
struct Latin1(Vec<u8>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Plain(String),
    Run(char, u16),
}

impl TryFrom<Written> for Latin1 {
    type Error = std::char::TryFromCharError;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let parts = match written {
            Written::Plain(text) => vec![Part::Plain(text)],
            Written::Parts(parts) => parts,
        };
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                Part::Plain(text) => {
                    for character in text.chars() {
                        bytes.push(u8::try_from(character)?);
                    }
                }
                Part::Run(character, times) => {
                    let byte = u8::try_from(character)?;
                    bytes.extend(std::iter::repeat_n(byte, usize::from(times)));
                }
            }
        }
        Ok(Self(bytes))
    }
}

fn bytes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    Ok(Latin1::deserialize(from)?.0)
}

fn some_bytes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    bytes(from).map(Some)
}

fn views<'de, D>(from: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let views = BTreeMap::<String, Latin1>::deserialize(from)?;
    Ok(views.into_iter().map(|(name, view)| (name, view.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        serde_json::from_str::<Latin1>(text).ok().map(|bytes| bytes.0)
    }

    #[test]
    fn a_character_is_a_byte_and_a_list_is_joined() {
        assert_eq!(decoded(r#""a\u0000\u00ff\r""#).unwrap(), b"a\x00\xff\r");
        assert_eq!(decoded(r#"["a", ["b", 3], "c"]"#).unwrap(), b"abbbc");
    }

    #[test]
    fn a_character_that_is_no_byte_is_an_error() {
        assert_eq!(decoded(r#""\u0100""#), None);
        assert_eq!(decoded(r#"["a", ["\u0100", 3]]"#), None);
    }
}
