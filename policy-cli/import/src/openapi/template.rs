//! Templated paths as paths of groups.

use policy_crds::quote;
use std::collections::BTreeMap;

/// The most paths that the values of parameters make of one.
const MAX_PATHS: usize = 64;

/// The paths of a group for a templated path, in which parameters that have a few values are replaced by
/// each of them.
///
/// # Errors
/// No path of a group says it; the reason.
pub(super) fn group_paths(
    template: &str,
    values: &BTreeMap<String, Vec<String>>,
) -> Result<Vec<String>, String> {
    let Some(inner) = template.strip_prefix('/') else {
        return Err("does not begin with `/`".to_owned());
    };
    if let Some(mark) = inner.find(['?', '#']).and_then(|at| inner.get(at..)?.chars().next()) {
        return Err(format!("has a `{mark}`, which is no part of a path"));
    }
    let mut paths = vec![String::new()];
    let mut names: Vec<String> = Vec::new();
    for segment in inner.split('/') {
        let choices = match parameter(segment)? {
            None => vec![literal(segment)?.to_owned()],
            Some(name) => match values.get(name).filter(|_| !names.iter().any(|it| it == name)) {
                Some(values) => values.clone(),
                None => {
                    let own = free_name(name, &names)?;
                    let text = format!(":{own}");
                    names.push(own);
                    vec![text]
                }
            },
        };
        let longer =
            paths.iter().flat_map(|path| choices.iter().map(move |it| format!("{path}/{it}")));
        paths = longer.take(MAX_PATHS.saturating_add(1)).collect();
        if paths.len() > MAX_PATHS {
            return Err(format!("the values of its parameters make more than {MAX_PATHS} paths"));
        }
    }
    Ok(paths)
}

/// The parameter that a segment consists of; `None` if it has none.
fn parameter(segment: &str) -> Result<Option<&str>, String> {
    if !segment.contains(['{', '}']) {
        return Ok(None);
    }
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match name.filter(|name| !name.contains(['{', '}'])) {
        Some(name) => Ok(Some(name)),
        None => Err(format!(
            "has a parameter that is a part of the segment {}: a parameter stands for a whole one",
            quote(segment)
        )),
    }
}

/// A segment that stands for itself, and that a group does not read as a parameter.
fn literal(segment: &str) -> Result<&str, String> {
    if segment.starts_with(':') || segment.contains('*') {
        let rule = "a group would read a parameter in it";
        return Err(format!("has the segment {}: {rule}", quote(segment)));
    }
    Ok(segment)
}

/// The name of a parameter in a group, which has no other one of that name in its path.
fn free_name(name: &str, taken: &[String]) -> Result<String, String> {
    let readable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(readable) {
        let rule = "letters, digits, `_`, `-` and `.` are allowed";
        return Err(format!("has the parameter {}: {rule}", quote(name)));
    }
    let mut own = name.replace('.', "_");
    if !own.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        own.insert(0, '_');
    }
    let mut free = own.clone();
    let mut number = 2_usize;
    while taken.contains(&free) {
        free = format!("{own}{number}");
        number = number.saturating_add(1);
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_whole_segments_and_text_is_never_one() {
        let none = BTreeMap::new();
        let paths = |template| group_paths(template, &none);
        assert_eq!(paths("/"), Ok(vec!["/".to_owned()]));
        assert_eq!(paths("/books/{id}/edit"), Ok(vec!["/books/:id/edit".to_owned()]));
        assert_eq!(paths("/{a.b}/{a.b}/{9}"), Ok(vec!["/:a_b/:a_b2/:_9".to_owned()]));
        for refused in [
            "",
            "a",
            "/{id}.json",
            "/{a}{b}",
            "/v1/{n}:cancel",
            "/:all",
            "/a*",
            "/a?b=1",
            "/{n+}",
            "/{}",
        ] {
            assert!(paths(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_parameter_with_a_few_values_is_each_of_them() {
        let kinds = vec!["cat".to_owned(), "dog".to_owned()];
        let values = BTreeMap::from([("kind".to_owned(), kinds)]);
        let expected = vec!["/pets/cat/:id".to_owned(), "/pets/dog/:id".to_owned()];
        assert_eq!(group_paths("/pets/{kind}/{id}", &values), Ok(expected));
        let many = (0..65).map(|number| number.to_string()).collect();
        assert!(group_paths("/{n}", &BTreeMap::from([("n".to_owned(), many)])).is_err());
    }
}
