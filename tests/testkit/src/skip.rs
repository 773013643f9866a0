//! Tests that are skipped for lack of something, where everyone sees it.

use std::fs::OpenOptions;
use std::io::Write as _;

/// True in continuous integration, where nothing may be skipped.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false")
}

/// Says on standard error, past the test runner's capture, that this test is skipped, and counts it
/// in the file that `PORTCULLIS_SKIPPED` names.
///
/// # Panics
/// In continuous integration.
pub fn skip(missing: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!in_ci(), "skipped, which continuous integration does not allow: {missing}");
    say(&format!("SKIPPED {test}: {missing}"));
    if let Some(path) = std::env::var_os("PORTCULLIS_SKIPPED")
        && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
    {
        // Only the count is lost if it cannot be written; the line above was said.
        _ = writeln!(file, "{test}: {missing}");
    }
}

/// A line on standard error that the test runner does not swallow.
pub fn say(line: &str) {
    // Nobody is left to tell if standard error is closed.
    _ = writeln!(std::io::stderr().lock(), "{line}");
}
