//! Memory that the head of a request takes.

use http::Request;

/// Bytes of an entry of a header map beside the name and the value: the entry of 104 bytes, its place in the
/// index, and the count of those who share its bytes. A further value of a name takes 72.
const ENTRY: usize = 128;

/// Returns the bytes that the head of a request takes. A header map has room for up to twice its fields, of
/// which the shortest takes fifty times what HTTP/2 sends of it.
pub fn head_bytes<B>(request: &Request<B>) -> u64 {
    let fields = request.headers();
    let texts = fields.iter().fold(request.uri().path().len(), |sum, (name, value)| {
        sum.saturating_add(name.as_str().len()).saturating_add(value.len())
    });
    let query = request.uri().query().map_or(0, str::len);
    let further = fields.len().saturating_sub(fields.keys_len()).saturating_mul(2);
    let entries = fields.capacity().saturating_add(further).saturating_mul(ENTRY);
    u64::try_from(texts.saturating_add(query).saturating_add(entries)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn a_head_takes_no_more_memory_than_is_counted() {
        for (fields, names) in [(1_usize, 1_usize), (8, 8), (100, 100), (440, 440), (440, 1)] {
            let name = |field: usize| {
                let name = format!("x{:03}", field.checked_rem(names).unwrap());
                HeaderName::from_bytes(name.as_bytes()).unwrap()
            };
            let named: Vec<HeaderName> = (0..fields).map(name).collect();
            let mut made = None;
            let taken = allocation_counter::measure(|| {
                let mut request = Request::new(());
                for name in &named {
                    request.headers_mut().append(name.clone(), HeaderValue::from_static(""));
                }
                made = Some(request);
            });
            let counted = i64::try_from(head_bytes(&made.unwrap())).unwrap();
            let taken = taken.bytes_current;
            assert!(taken <= counted, "{fields} fields: {taken}, and {counted} counted");
            let most = taken.saturating_mul(4).saturating_add(1024);
            assert!(counted < most, "{fields} fields: {taken}, and {counted} counted");
        }
    }
}
