//! Classifies a connection's first line as it arrives: HTTP/1, HTTP/2, a PROXY header or something
//! else.
//!
//! Errs towards HTTP: bytes that some HTTP server would read as a request must not evade HTTP
//! policy as opaque bytes. `tests/servers` records how six servers read hostile first lines. After
//! leading blanks of any kind, a line is HTTP if
//!
//! - a word in it begins with `HTTP/`, whatever precedes that word. `RTSP/` and `ICE/` count too,
//!   because Node reads their requests as HTTP. In a line whose first word is not a token, the first
//!   four words are inspected, because no server reads further, and binary protocols carry logs;
//! - or it has a known method and a target that begins with `/`, `*` or a scheme, or another method in
//!   capitals and a target that begins with `/`: HTTP/0.9 has no version, and servers that never check
//!   the version accept any method;
//! - or it is `GET` and one word, which Python's server reads as HTTP/0.9.
//!
//! Some servers end a line at CRLF alone, so that a bare LF is a blank. Behind one, a version
//! counts only if it is the last word before CRLF. Otherwise protocols whose lines end in LF would
//! be cut off for their content.
//!
//! A PROXY header (versions 1 and 2) states a client address that is not authenticated, and hides
//! the request behind it. It is therefore distinguished from other bytes.

mod words;

use words::{
    LONGEST_METHOD, LONGEST_VERSION, METHODS, VERSIONS, is_blank, is_ordinary_blank, is_token,
};

/// Protocol of a connection's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireProtocol {
    /// HTTP/1, or bytes that some server reads as such.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// A PROXY header.
    Proxy,
    /// Anything else.
    Other,
}

/// Classification of a first line after some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The protocol; no further byte changes it.
    Known(WireProtocol),
    /// The bytes may begin a request: wait for more.
    Incomplete,
    /// The bytes do not look like a request, but the end of the line could still make them one to a
    /// lenient server: forward them, and end the connection if it does.
    Doubtful,
}

/// Incremental classifier of a first line. Pieces of any size give the same verdict.
#[derive(Clone, Debug, Default)]
pub struct FirstLine {
    /// The protocol, once no byte can change it.
    protocol: Option<WireProtocol>,
    read: u32,
    /// Match of all bytes so far with the HTTP/2 preface, and with a binary PROXY header.
    preface: Prefix,
    signature: Prefix,
    line: Line,
}

/// Match of the bytes so far with a fixed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Prefix {
    #[default]
    Possible,
    Whole,
    No,
}

impl Prefix {
    /// The match after `byte` at `position` of the connection.
    fn step(self, text: &[u8], position: u32, byte: u8) -> Self {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        match self {
            Self::Possible if text.get(position) == Some(&byte) => {
                if position.saturating_add(1) == text.len() { Self::Whole } else { Self::Possible }
            }
            Self::Possible | Self::No => Self::No,
            Self::Whole => Self::Whole,
        }
    }
}

impl FirstLine {
    /// Reads the next bytes. Never [`Verdict::Incomplete`] beyond 8 KiB, nor [`Verdict::Doubtful`]
    /// beyond 128 KiB.
    pub fn feed(&mut self, bytes: &[u8]) -> Verdict {
        for byte in bytes {
            if self.protocol.is_some() {
                break;
            }
            self.step(*byte);
        }
        match self.protocol {
            Some(protocol) => Verdict::Known(protocol),
            None if self.line.plausible || self.is_prefix() => Verdict::Incomplete,
            None => Verdict::Doubtful,
        }
    }

    /// True if the bytes so far begin no known method and name no path. A client of HTTP does not stop
    /// there; one of another protocol may (`ruok`, `JDWP-Handshake`).
    pub fn is_unlikely(&self) -> bool {
        let line = &self.line;
        let known = || METHODS.iter().any(|method| line.method.begins(method));
        !self.is_prefix() && line.part != Part::Lead && !line.path && !known()
    }

    fn is_prefix(&self) -> bool {
        self.preface == Prefix::Possible || self.signature == Prefix::Possible
    }

    fn step(&mut self, byte: u8) {
        self.preface = self.preface.step(PREFACE, self.read, byte);
        self.signature = self.signature.step(SIGNATURE, self.read, byte);
        self.read = self.read.saturating_add(1);
        self.line.step(byte);
        self.protocol = match (self.preface, self.signature) {
            (Prefix::Whole, _) => Some(WireProtocol::Http2),
            (_, Prefix::Whole) => Some(WireProtocol::Proxy),
            // The line's verdict waits until the bytes are not the preface.
            (Prefix::Possible, _) | (_, Prefix::Possible) => None,
            (Prefix::No, Prefix::No) => self.line.protocol.or_else(|| self.at_bound()),
        };
    }

    /// A request line that is too long to classify is HTTP/1, whose parser bounds its length.
    fn at_bound(&self) -> Option<WireProtocol> {
        match self.line.plausible {
            true if self.read > MAX_LINE => Some(WireProtocol::Http1),
            false if self.read > MAX_DOUBTFUL => Some(WireProtocol::Other),
            true | false => None,
        }
    }
}

/// State of the line's words.
#[derive(Clone, Debug)]
struct Line {
    protocol: Option<WireProtocol>,
    part: Part,
    method: Text<LONGEST_METHOD>,
    /// True if HTTP servers know the method.
    known: bool,
    /// True if the method is a token (RFC 9110 section 5.6.2), and if it is one in capitals.
    token: bool,
    capitals: bool,
    /// True if the target begins with `/`.
    path: bool,
    /// Bytes of `://` that follow a scheme at the beginning of the target; absent: the target has
    /// no scheme.
    scheme: Option<u8>,
    /// The beginning of the current word.
    word: Text<LONGEST_VERSION>,
    /// Number of words so far (saturating).
    words: u8,
    /// True if the last word begins with a version that counts only before CRLF.
    version: bool,
    /// True if the last byte was a CR, and if there was an LF without one.
    after_cr: bool,
    bare_lf: bool,
    /// True if a client that speaks HTTP could have sent the bytes so far.
    plausible: bool,
}

/// The part of a line that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Blanks and empty lines before everything.
    Lead,
    Method,
    /// Blanks between the method and the target.
    Gap,
    Target,
    /// Everything behind the target.
    Rest,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            protocol: None,
            part: Part::Lead,
            method: Text::default(),
            known: false,
            token: true,
            capitals: true,
            path: false,
            scheme: None,
            word: Text::default(),
            words: 0,
            version: false,
            after_cr: false,
            bare_lf: false,
            plausible: true,
        }
    }
}

impl Line {
    fn step(&mut self, byte: u8) {
        if self.protocol.is_some() {
            return;
        }
        let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
        if byte == b'\n' && self.part != Part::Lead {
            self.end_line(after_cr);
        }
        if self.protocol.is_none() {
            self.follow_word(byte);
        }
        if self.protocol.is_none() {
            self.follow_part(byte);
        }
    }

    /// Handles an LF, which ends the line if a CR precedes it.
    fn end_line(&mut self, after_cr: bool) {
        let is_get = self.method.bytes.starts_with(b"GET") && self.method.length == 3;
        if (is_get && self.words == 2) || (after_cr && self.version) {
            self.protocol = Some(WireProtocol::Http1);
        } else if after_cr {
            self.protocol = Some(WireProtocol::Other);
        }
        self.bare_lf = true;
    }

    /// Counts words, and looks for a version at the beginning of each.
    fn follow_word(&mut self, byte: u8) {
        if is_blank(byte) {
            self.word = Text::default();
            return;
        }
        if self.word.length == 0 {
            self.words = self.words.saturating_add(1);
            self.version = false;
        }
        self.word.push(byte);
        if self.words > MAX_WORDS && !self.token {
            self.protocol = Some(WireProtocol::Other);
        } else if VERSIONS.iter().any(|version| self.word.is(version)) {
            self.version = true;
            self.protocol = (!self.bare_lf).then_some(WireProtocol::Http1);
        }
    }

    fn follow_part(&mut self, byte: u8) {
        let blank = is_blank(byte);
        match self.part {
            Part::Lead if blank => self.plausible &= matches!(byte, b'\r' | b'\n'),
            Part::Lead | Part::Method if !blank => self.push_method(byte),
            Part::Lead | Part::Method => self.end_method(byte),
            Part::Gap if blank => self.plausible &= self.known || is_ordinary_blank(byte),
            Part::Gap => self.begin_target(byte),
            Part::Target if blank => {
                self.part = Part::Rest;
                if self.path && self.capitals && self.plausible {
                    self.protocol = Some(WireProtocol::Http1);
                }
                self.plausible &= is_ordinary_blank(byte);
            }
            Part::Target => self.push_target(byte),
            Part::Rest if blank => self.plausible &= is_ordinary_blank(byte),
            Part::Rest => {
                self.plausible &= VERSIONS.iter().any(|version| self.word.begins(version));
            }
        }
    }

    fn push_method(&mut self, byte: u8) {
        let first = self.part == Part::Lead;
        self.capitals &= if first { byte.is_ascii_uppercase() } else { !byte.is_ascii_lowercase() };
        self.part = Part::Method;
        self.method.push(byte);
        self.token &= is_token(byte);
        self.plausible &= self.token;
    }

    fn end_method(&mut self, blank: u8) {
        self.part = Part::Gap;
        // Parsers of PROXY headers compare the first letters alone.
        if self.method.bytes.get(..PROXY.len()).is_some_and(|own| own.eq_ignore_ascii_case(PROXY)) {
            self.protocol = Some(WireProtocol::Proxy);
        }
        self.known = METHODS.iter().any(|known| self.method.is(known));
        self.plausible &= self.known || is_ordinary_blank(blank);
    }

    fn begin_target(&mut self, byte: u8) {
        self.part = Part::Target;
        self.path = byte == b'/';
        if self.known && matches!(byte, b'/' | b'*') {
            self.protocol = Some(WireProtocol::Http1);
        }
        self.scheme = byte.is_ascii_alphabetic().then_some(0);
        self.plausible &= byte.is_ascii_graphic();
    }

    /// Matches a scheme: letters, digits, `+`, `-` and `.`, then `://`.
    fn push_target(&mut self, byte: u8) {
        self.scheme = match (self.scheme, byte) {
            (Some(0), b':') => Some(1),
            (Some(0), b'+' | b'-' | b'.') => Some(0),
            (Some(0), byte) if byte.is_ascii_alphanumeric() => Some(0),
            (Some(1), b'/') => Some(2),
            (Some(2), b'/') => {
                if self.known {
                    self.protocol = Some(WireProtocol::Http1);
                }
                None
            }
            (Some(_) | None, _) => None,
        };
        self.plausible &= byte.is_ascii_graphic();
    }
}

/// The first bytes of a word, as many as the longest known word has.
#[derive(Clone, Copy, Debug)]
struct Text<const LEN: usize> {
    bytes: [u8; LEN],
    /// Bytes of the word (saturating).
    length: u8,
}

impl<const LEN: usize> Default for Text<LEN> {
    fn default() -> Self {
        Self { bytes: [0; LEN], length: 0 }
    }
}

impl<const LEN: usize> Text<LEN> {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
        }
        self.length = self.length.saturating_add(1);
    }

    fn is(&self, name: &str) -> bool {
        usize::from(self.length) == name.len() && self.begins(name)
    }

    /// True if `name` begins with it.
    fn begins(&self, name: &str) -> bool {
        let length = usize::from(self.length);
        let (own, name) = (self.bytes.get(..length), name.as_bytes().get(..length));
        own.zip(name).is_some_and(|(own, name)| own.eq_ignore_ascii_case(name))
    }
}

/// RFC 9113 section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The PROXY protocol, section 2.2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The PROXY protocol, section 2.1.
const PROXY: &[u8] = b"PROXY";
/// Words that are inspected in a line whose first word is not a token.
const MAX_WORDS: u8 = 4;
/// Bytes beyond which a line that may still become a request counts as HTTP/1.
const MAX_LINE: u32 = 8 * 1024;
/// Bytes beyond which a doubtful line counts as opaque: no request has begun with as many, and no
/// server reads further (twice the 64 KiB of Python's).
const MAX_DOUBTFUL: u32 = 128 * 1024;

#[cfg(test)]
mod tests;
