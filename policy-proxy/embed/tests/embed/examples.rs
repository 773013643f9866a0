//! The examples are as short as the guide says.

/// The lines of an example, without those about it.
fn lines(source: &str) -> usize {
    source.lines().filter(|line| !line.starts_with("//!") && !line.trim().is_empty()).count()
}

#[test]
fn a_protected_service_takes_twenty_lines_of_axum_and_twenty_five_of_tonic() {
    let axum = lines(include_str!("../../examples/protected_axum.rs"));
    let tonic = lines(include_str!("../../examples/protected_tonic.rs"));
    assert!(axum <= 20 && tonic <= 25, "{axum}, {tonic}");
}
