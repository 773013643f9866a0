//! Names of objects after names of something else.

/// The name of an object after `text`: in lower case, with `-` for what Kubernetes does not take in a
/// name, and without `-` around the parts between dots. The reader of the object judges what is left:
/// it may be too long, or nothing.
pub(crate) fn object_name(text: &str) -> String {
    let kept = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' => c,
        _ => '-',
    };
    let name: String = text.chars().map(kept).collect();
    let parts = name.split('.').map(|part| part.trim_matches('-'));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_what_kubernetes_takes() {
        let cases = [
            ("books.v1.Books", "books.v1.books"),
            ("Books", "books"),
            ("my_shop.v1.Price_List", "my-shop.v1.price-list"),
            ("_internal.v1._Books_", "internal.v1.books"),
            ("a.__.B", "a.b"),
            ("é.v1.B", "v1.b"),
            ("__", ""),
            ("", ""),
        ];
        for (text, name) in cases {
            assert_eq!(object_name(text), name, "{text}");
        }
    }
}
