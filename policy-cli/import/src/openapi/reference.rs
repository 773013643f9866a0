//! References inside a document. Others are never followed.

use crate::file::SourceNode;
use policy_crds::quote;

/// The most references in a row.
const MAX_HOPS: usize = 32;

/// The value that references lead to.
pub(super) enum Resolved<'a> {
    /// A value of the document.
    Here(SourceNode<'a>),
    /// A value of another document.
    Elsewhere(String),
}

/// Follows `$ref`, as long as there is one.
///
/// # Errors
/// A reference leads to itself, or to nothing.
pub(super) fn resolve(node: SourceNode<'_>) -> Result<Resolved<'_>, String> {
    let mut at = node;
    for _ in 0..MAX_HOPS {
        let Some(reference) = at.get("$ref") else { return Ok(Resolved::Here(at)) };
        let text = reference.text()?;
        let Some(pointer) = text.strip_prefix('#') else {
            return Ok(Resolved::Elsewhere(text.to_owned()));
        };
        let target = follow(&reference, pointer);
        at = target.ok_or_else(|| reference.error(format!("{} leads to nothing", quote(text))))?;
    }
    let allowed = format!("at most {MAX_HOPS} references in a row are allowed, and no loop");
    Err(at.error(format!("the references have no end: {allowed}")))
}

/// The value of a JSON pointer (RFC 6901) in a fragment.
fn follow<'a>(from: &SourceNode<'a>, pointer: &str) -> Option<SourceNode<'a>> {
    let mut at = from.root()?;
    let mut steps = pointer.split('/');
    if !steps.next()?.is_empty() {
        return None;
    }
    for step in steps {
        let step = percent_decoded(step)?.replace("~1", "/").replace("~0", "~");
        at = at.step(&step)?;
    }
    Some(at)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}
