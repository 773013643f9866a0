//! Reading a ClientHello: what was told stays told however many bytes follow, and it is told in time.

use policy_proxy::sidecar::client_hello::{MAX_SCAN, Scan, scan};

/// The most that is cut in every place.
const CUT: usize = 600;

/// Holds the first bytes of a connection to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    let whole = scan(data);
    if data.len() >= MAX_SCAN && whole == Scan::Partial {
        return Err(format!("{} bytes are not enough", data.len()));
    }
    if let Scan::ClientHello(Some(name)) = &whole {
        let odd =
            |c: char| c.is_ascii_uppercase() || c.is_ascii_control() || !c.is_ascii() || c == ' ';
        if name.is_empty() || name.contains(odd) {
            return Err(format!("`{}` is no server name", name.escape_debug()));
        }
    }
    for length in 0..data.len().min(CUT) {
        let Some(part) = data.get(..length) else { continue };
        let told = scan(part);
        if told != Scan::Partial && told != whole {
            return Err(format!("{told:?} after {length} bytes, {whole:?} after {}", data.len()));
        }
    }
    Ok(())
}
