//! Files that were found or made to be hard: read whole, in pieces, and with bytes changed.

use policy_crds::{document, parse_all, pods_of};

/// Everything a source does with bytes.
fn digest(bytes: &[u8]) {
    for document in document::read_bytes(bytes) {
        if let Ok(value) = &document.value {
            for object in parse_all(value).into_iter().flatten() {
                drop(pods_of(&object));
                drop(object.remarks());
            }
        }
        let place = document.locate("spec.rules[0].matches[0].path.value");
        assert!(place.is_none_or(|place| bytes.get(place.bytes).is_some()));
    }
}

#[test]
fn every_seed_is_read_whole_and_cut_and_damaged() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        digest(&bytes);
        for at in 0..bytes.len() {
            digest(&bytes[..at]);
            for byte in [b'\0', b'\t', b'\n', b':', b'[', b'}', b'*', 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                digest(&damaged);
            }
        }
        count += 1;
    }
    assert!(count >= 8, "{count} seeds");
}
