//! Filters of log lines that name a program mean the libraries it is made of, too.

/// The filter of log lines, as `tracing_subscriber` reads it, with each directive about the program `name`
/// repeated for the libraries that it is made of.
pub fn of_all_crates(filter: &str, name: &str, libraries: &[&str]) -> String {
    let mut directives: Vec<String> = Vec::new();
    for directive in directives_of(filter) {
        directives.push(directive.to_owned());
        let Some(rest) = directive.trim_start().strip_prefix(name) else { continue };
        directives.extend(libraries.iter().map(|library| format!("{library}{rest}")));
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
    use super::of_all_crates as expanded;

    const NAME: &str = "policy_controller";
    const LIBRARIES: [&str; 2] = ["policy_engine", "policy_kube"];

    fn of_all_crates(filter: &str) -> String {
        expanded(filter, NAME, &LIBRARIES)
    }

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
    }
}
