//! Tests that have a long form: `.ci/long` gives the sizes, every other run takes the short ones.

/// The number that `PORTCULLIS_LONG_<name>` says, or the short form's.
///
/// # Panics
/// If the variable is no number.
pub fn long_or(name: &str, short: usize) -> usize {
    let variable = format!("PORTCULLIS_LONG_{name}");
    match std::env::var(&variable) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{variable}: {error}: {text}")),
        Err(_) => short,
    }
}
