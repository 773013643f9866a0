//! Reading manifests: any bytes are objects or complaints, and every complaint has a place.

use policy_crds::{Body, document, parse_all, pods_of};

/// Holds a file to this.
///
/// # Errors
/// What is wrong, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    for document in document::read_bytes(data) {
        let Ok(value) = &document.value else { continue };
        for object in parse_all(value).into_iter().flatten() {
            drop(pods_of(&object));
            drop(object.remarks());
            if let Body::Invalid(invalid) = &object.body {
                if invalid.errors.is_empty() {
                    return Err(format!("`{}` is invalid without a reason", object.meta.key));
                }
                for error in &invalid.errors {
                    let place = document.locate(&error.field);
                    if place.is_some_and(|place| data.get(place.bytes.clone()).is_none()) {
                        return Err(format!("`{}` is outside the file", error.field));
                    }
                }
            }
        }
    }
    Ok(())
}
