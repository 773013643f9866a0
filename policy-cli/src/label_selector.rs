//! Label selectors of the command line, in kubectl's form: `app=web,tier in (a, b),!old`.

use policy_crds::{Expression, LabelSelector, Operator};
use std::sync::Arc;

/// Reads a selector.
///
/// # Errors
/// A requirement that has none of kubectl's forms.
pub(crate) fn label_selector(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for requirement in requirements(text) {
        let (key, operator) = expression(requirement).ok_or_else(|| {
            format!(
                "`{requirement}` is none of KEY=VALUE, KEY!=VALUE, KEY in (A, B), KEY notin (A, B), KEY \
                 and !KEY"
            )
        })?;
        selector.match_expressions.push(Expression { key: key.into(), operator });
    }
    Ok(selector)
}

/// The parts between commas that are in no parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = text.split(|character| {
        inside = character == '(' || (inside && character != ')');
        character == ',' && !inside
    });
    parts.map(str::trim).collect()
}

fn expression(text: &str) -> Option<(&str, Operator)> {
    let one = |value: &str| vec![Arc::from(value.trim())];
    if let Some(key) = text.strip_prefix('!') {
        return Some((name(key)?, Operator::DoesNotExist));
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = text.split_once(operator) {
            let is_plain = !value.trim().contains(['=', '!', '(', ')', ' ']);
            let values = is_plain.then(|| one(value))?;
            let not = operator == "!=";
            let operator = if not { Operator::NotIn(values) } else { Operator::In(values) };
            return Some((name(key)?, operator));
        }
    }
    if let Some((left, list)) = text.split_once('(') {
        let values = list.strip_suffix(')')?.split(',').map(|value| Arc::from(value.trim()));
        let values = values.collect();
        let (key, word) = left.trim().rsplit_once(char::is_whitespace)?;
        let operator = match word {
            "in" => Operator::In(values),
            "notin" => Operator::NotIn(values),
            _ => return None,
        };
        return Some((name(key)?, operator));
    }
    Some((name(text)?, Operator::Exists))
}

/// The name of a label without blanks around it.
fn name(text: &str) -> Option<&str> {
    let name = text.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.', '/'].contains(&c);
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_selector_selects_what_kubectls_selects() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<Arc<str>, Arc<str>> {
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        let web = labels(&[("app", "web"), ("tier", "front"), ("example.com/old", "")]);
        for (text, selects) in [
            ("app=web", true),
            ("app==web,tier = front", true),
            ("app!=web", false),
            ("app!=cart", true),
            ("none!=a", true),
            ("tier in (back, front)", true),
            ("tier notin (back,front),app=web", false),
            ("app", true),
            ("!app", false),
            ("!none , example.com/old", true),
            ("example.com/old=", true),
            ("app=cart", false),
        ] {
            assert_eq!(label_selector(text).unwrap().matches(&web), selects, "{text}");
        }
        for wrong in ["", "=a", "app=web,", "tier in a", "tier of (a)", "a b", "app=(a)", "a=b=c"] {
            assert!(label_selector(wrong).is_err(), "{wrong}");
        }
    }
}
