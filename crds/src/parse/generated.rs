//! Names of objects that leave theirs to the API server (`generateName`).

use super::error::{NotAnObject, fail, not_text};
use super::name::is_dns_name;
use crate::reader::{Fields, quote, shared};
use serde_json::Value;
use std::sync::Arc;

/// Letters and digits of an API server's suffixes, which spell no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Length of a suffix.
const SUFFIX: u32 = 5;

/// Longest prefix that an API server keeps.
const MAX_PREFIX: usize = 58;

/// Returns the name of the object `root` whose `generateName` is `prefix`. An API server chooses the
/// suffix at random. Here it follows from the object, so that one that did not change keeps its name and
/// objects that differ have different ones.
pub(super) fn name(prefix: &Value, root: &Fields<'_>) -> Result<Arc<str>, NotAnObject> {
    const FIELD: &str = "metadata.generateName";
    let Value::String(prefix) = prefix else { return Err(fail(FIELD, &not_text(prefix))) };
    let kept: String = prefix.chars().take(MAX_PREFIX).collect();
    let name = format!("{kept}{}", suffix(root));
    if !is_dns_name(&name) {
        let rule = "lower-case letters, digits, `-` and `.` are allowed";
        return Err(fail(FIELD, &format!("{} begins no name: {rule}", quote(prefix))));
    }
    Ok(shared(&name))
}

fn suffix(root: &Fields<'_>) -> String {
    let mut hash = Fnv::new();
    for (key, node) in root.entries() {
        hash.add(key.as_bytes());
        hash.add(node.value().to_string().as_bytes());
    }
    let letters = u64::try_from(LETTERS.len()).unwrap_or(1);
    let letter = |place: u32| {
        let digit =
            hash.0.checked_div(letters.pow(place)).and_then(|rest| rest.checked_rem(letters));
        let at = digit.and_then(|digit| usize::try_from(digit).ok()).unwrap_or_default();
        LETTERS.get(at).map_or('x', |letter| char::from(*letter))
    };
    (0..SUFFIX).map(letter).collect()
}

/// The FNV-1a hash, the same on every machine.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
