//! The files that are imported.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;

/// The largest file that is read, in bytes. Descriptions of hundreds of services are smaller, and what
/// is decoded of one takes a multiple of its size.
const MAX_BYTES: u64 = 32 << 20;

/// The content of a file; `-` is standard input.
pub(crate) fn read(file: &str) -> anyhow::Result<Vec<u8>> {
    if file == "-" {
        return up_to(MAX_BYTES, std::io::stdin().lock(), "standard input");
    }
    let place = format!("`{file}`");
    let open = File::open(file).with_context(|| format!("cannot read {place}"))?;
    up_to(MAX_BYTES, open, &place)
}

fn up_to(max: u64, source: impl Read, place: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut bounded = source.take(max.saturating_add(1));
    let length = bounded.read_to_end(&mut bytes).with_context(|| format!("cannot read {place}"))?;
    if u64::try_from(length).unwrap_or(u64::MAX) > max {
        bail!("{place} is larger than {max} bytes, which is the most that is imported");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_bound_is_read() {
        assert_eq!(up_to(4, &b"1234"[..], "`f`").ok().as_deref(), Some(&b"1234"[..]));
        let error = up_to(4, std::io::repeat(7), "`f`").err().map(|error| error.to_string());
        let words = "`f` is larger than 4 bytes, which is the most that is imported";
        assert_eq!(error.as_deref(), Some(words));
    }
}
