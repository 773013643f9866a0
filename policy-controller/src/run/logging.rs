//! Log lines: which are written, and how.

use super::error::RunError;
use crate::args::LogFormat;
use std::io;
use tracing_subscriber::EnvFilter;

/// What filters call the controller.
const NAME: &str = "policy_controller";

/// The libraries that it is made of. What a filter says of the controller it says of them.
const LIBRARIES: [&str; 5] =
    ["policy_engine", "policy_kube", "policy_discovery", "policy_webhooks", "policy_issuer"];

/// Writes log lines from now on.
///
/// # Errors
/// The filter cannot be read.
pub(super) fn init_logging(filter: &str, format: LogFormat) -> Result<(), RunError> {
    let parsed = EnvFilter::builder().parse(of_all_crates(filter)).map_err(|error| {
        RunError::LogLevel { filter: filter.to_owned(), reason: error.to_string() }
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr);
    match format {
        LogFormat::Plain => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}

/// The filter with each directive about the controller repeated for its libraries.
fn of_all_crates(filter: &str) -> String {
    let mut directives: Vec<String> = Vec::new();
    for directive in directives_of(filter) {
        directives.push(directive.to_owned());
        let Some(rest) = directive.trim_start().strip_prefix(NAME) else { continue };
        directives.extend(LIBRARIES.iter().map(|library| format!("{library}{rest}")));
    }
    directives.join(",")
}

/// The directives of a filter. Fields of spans, in braces, may have commas of their own.
fn directives_of(filter: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    filter.split(move |character| {
        match character {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_controller_is_said_of_its_libraries() {
        let all = |rest: &str| {
            let names = [NAME].into_iter().chain(LIBRARIES);
            names.map(|name| format!("{name}{rest}")).collect::<Vec<_>>().join(",")
        };
        assert_eq!(of_all_crates("policy_controller=info,warn"), all("=info") + ",warn");
        assert_eq!(of_all_crates("policy_controller"), all(""));
        let span = "[watch{kind=a,b}]=debug";
        assert_eq!(
            of_all_crates(&format!("hyper=off,{NAME}{span}")),
            "hyper=off,".to_owned() + &all(span)
        );
        for other in ["", "debug", "kube=trace,policy_proxy=debug"] {
            assert_eq!(of_all_crates(other), other);
        }
        for filter in ["policy_controller=info,warn", "policy_controller::serve=debug"] {
            EnvFilter::builder().parse(of_all_crates(filter)).unwrap();
        }
    }
}
