//! Filters of log lines: a directive for a program applies to its libraries too. Warnings of other
//! libraries are rate-limited, and so are lines that clients cause.

mod client_lines;
mod rate_limit;

pub use client_lines::ClientLines;
pub use rate_limit::RateLimitedWarnings;

/// The libraries of `policy-controller`, by their names in filters.
pub const CONTROLLER: (&str, &[&str]) = (
    "policy_controller",
    &[
        "policy_engine",
        "policy_kube",
        "policy_discovery",
        "policy_webhooks",
        "policy_issuer",
        "policy_server",
    ],
);

/// The libraries of `policy-proxy`, by their names in filters.
pub const PROXY: (&str, &[&str]) =
    ("policy_proxy", &["policy_http", "policy_tls", "policy_server", "policy_enforce"]);

/// Returns a filter for `tracing_subscriber` in which each directive for a program is repeated for
/// its libraries. A directive for a library itself comes later and wins.
pub fn of_all_crates(filter: &str, programs: &[(&str, &[&str])]) -> String {
    let mut directives: Vec<String> = Vec::new();
    for directive in directives_of(filter) {
        for (name, libraries) in programs {
            let Some(rest) = directive.trim_start().strip_prefix(name) else { continue };
            directives.extend(libraries.iter().map(|library| format!("{library}{rest}")));
        }
    }
    directives.extend(directives_of(filter).map(str::to_owned));
    directives.join(",")
}

/// Splits a filter into directives. Span fields, in braces, may contain commas.
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

    const PROGRAM: (&str, &[&str]) = ("policy_controller", &["policy_engine", "policy_kube"]);

    #[test]
    fn what_is_said_of_a_program_is_said_of_its_libraries() {
        for (filter, expected) in [
            (
                "policy_controller=info,warn",
                "policy_engine=info,policy_kube=info,policy_controller=info,warn",
            ),
            ("policy_controller", "policy_engine,policy_kube,policy_controller"),
            (
                "hyper=off,policy_controller[watch{kind=a,b}]=debug",
                "policy_engine[watch{kind=a,b}]=debug,policy_kube[watch{kind=a,b}]=debug,\
                 hyper=off,policy_controller[watch{kind=a,b}]=debug",
            ),
            // Directives for a library come later, and the later of two wins.
            (
                "policy_kube=off,policy_controller=debug",
                "policy_engine=debug,policy_kube=debug,policy_kube=off,policy_controller=debug",
            ),
            ("", ""),
            ("debug", "debug"),
            ("kube=trace,policy_proxy=debug", "kube=trace,policy_proxy=debug"),
        ] {
            assert_eq!(of_all_crates(filter, &[PROGRAM]), expected, "{filter}");
        }
    }

    #[test]
    fn several_programs_of_one_process_have_their_libraries() {
        let all = of_all_crates("policy_controller=debug,policy_proxy=info", &[CONTROLLER, PROXY]);
        for directive in ["policy_issuer=debug", "policy_http=info", "policy_tls=info"] {
            assert!(all.split(',').any(|part| part == directive), "{directive} in {all}");
        }
    }
}
