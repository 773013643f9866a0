//! Arguments that name an object as `kubectl` does, such as `deploy/web`.

use policy_crds::Kind;

/// Reads `KIND/NAME` where the kind is one of these.
///
/// # Errors
/// The text has another form, or names another kind.
pub(crate) fn kind_and_name<'t, const N: usize>(
    text: &'t str,
    kinds: &[Kind; N],
) -> Result<(Kind, &'t str), String> {
    let Some((word, name)) = text.split_once('/') else {
        return Err(format!("`{text}` is not KIND/NAME, for example deploy/{text}"));
    };
    let Some(kind) = kinds.iter().copied().find(|kind| kind.is_called(word)) else {
        let known = kinds.map(|kind| kind.as_str().to_ascii_lowercase()).join(", ");
        return Err(format!("`{word}` is not one of {known}"));
    };
    if name.is_empty() || name.contains('/') {
        return Err(format!("`{text}` has no name after the kind, or more than one"));
    }
    Ok((kind, name))
}
