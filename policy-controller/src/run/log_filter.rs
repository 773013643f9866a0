//! Which log lines are written.

use super::error::RunError;
use tracing_subscriber::EnvFilter;

/// The controller, as filters name it.
const CONTROLLER: &str = "policy_controller";

/// The libraries that the controller is made of, as log lines name them. Whoever filters the
/// controller's lines means theirs, too.
const PARTS: [&str; 6] = [
    "policy_discovery",
    "policy_engine",
    "policy_issuer",
    "policy_kube",
    "policy_server",
    "policy_webhooks",
];

/// Reads a filter in the syntax of tracing.
///
/// # Errors
/// [`RunError::LogLevel`] says what is wrong with it.
pub(super) fn read(filter: &str) -> Result<EnvFilter, RunError> {
    let wrong = |error: tracing_subscriber::filter::ParseError| RunError::LogLevel {
        filter: filter.to_owned(),
        reason: error.to_string(),
    };
    EnvFilter::builder().parse(filter).map_err(wrong)?;
    EnvFilter::builder().parse(of_all_parts(filter)).map_err(wrong)
}

/// The filter with what it says of the controller said of each part. What it says of a part itself
/// comes later, and counts.
fn of_all_parts(filter: &str) -> String {
    let mut directives = Vec::new();
    for directive in filter.split(',').map(str::trim) {
        let Some(level) = directive.strip_prefix(CONTROLLER) else { continue };
        if level.is_empty() || level.starts_with('=') {
            directives.extend(PARTS.map(|part| format!("{part}{level}")));
        }
    }
    directives.push(filter.to_owned());
    directives.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_controller_holds_for_its_parts() {
        let filter = of_all_parts("policy_controller=info,warn");
        for part in PARTS {
            assert!(filter.contains(&format!("{part}=info,")), "{filter}");
        }
        assert!(filter.ends_with(",policy_controller=info,warn"), "{filter}");
        let own = of_all_parts("policy_issuer=debug,policy_controller=info");
        assert!(own.find("policy_issuer=info") < own.find("policy_issuer=debug"), "{own}");
        for other in ["", "debug", "policy_controller::run=debug", "policy_controllers=info"] {
            assert_eq!(of_all_parts(other), other);
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_quoted_as_it_was_written() {
        let error = read("policy_controller=loud").unwrap_err().to_string();
        assert!(error.starts_with("--log-level: `policy_controller=loud`: "), "{error}");
    }
}
