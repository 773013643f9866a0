//! Version in the reference of an image.

/// Tag of an image; `None` without one, as with a digest alone.
pub(super) fn tag(image: &str) -> Option<&str> {
    let named = image.split_once('@').map_or(image, |(named, _digest)| named);
    let last = named.rsplit('/').next().unwrap_or(named);
    last.split_once(':').map(|(_name, tag)| tag).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_distinguished_from_ports_and_digests() {
        for (image, found) in [
            ("ghcr.io/portcullis/proxy:0.1.0", Some("0.1.0")),
            ("registry:5000/proxy:v2", Some("v2")),
            ("registry:5000/proxy", None),
            ("proxy@sha256:00", None),
            ("registry:5000/proxy:0.1.0@sha256:00", Some("0.1.0")),
            ("proxy:", None),
            ("", None),
        ] {
            assert_eq!(tag(image), found, "{image}");
        }
    }
}
