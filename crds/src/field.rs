//! Paths of fields, as errors write them: `spec.rules[0].path.value`,
//! `metadata.labels["app.kubernetes.io/name"]`.

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Into a mapping.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// The path of `base` and then `key`; keys that are not plain words are quoted in brackets.
pub fn join_key(base: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'));
    if !plain {
        return format!("{base}[{key:?}]");
    }
    if base.is_empty() { key.to_owned() } else { format!("{base}.{key}") }
}

/// The path of `base` and then the element `index`.
pub fn join_index(base: &str, index: usize) -> String {
    format!("{base}[{index}]")
}

/// The steps of a path. An unreadable part ends it, so that the nearest parent is found.
pub(crate) fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let step = match rest.strip_prefix('[') {
            Some(inner) => bracket(inner),
            None => Some(word(rest.strip_prefix('.').unwrap_or(rest))),
        };
        let Some((step, after)) = step else { break };
        steps.push(step);
        rest = after;
    }
    steps
}

fn word(text: &str) -> (Step, &str) {
    let (word, _) = text.split_once(['.', '[']).unwrap_or((text, ""));
    (Step::Key(word.to_owned()), text.strip_prefix(word).unwrap_or_default())
}

fn bracket(inner: &str) -> Option<(Step, &str)> {
    if !inner.starts_with('"') {
        let (number, after) = inner.split_once(']')?;
        return Some((Step::Index(number.parse().ok()?), after));
    }
    // A key is written by `Debug`; the closing `"]` is the first one outside an escape.
    let mut escaped = false;
    for (at, c) in inner.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let (quoted, after) = inner.split_at_checked(at.saturating_add(1))?;
                return Some((Step::Key(unescape(quoted)?), after.strip_prefix(']')?));
            }
            _ => {}
        }
    }
    None
}

/// Undoes the escapes of `Debug` for `str`.
fn unescape(quoted: &str) -> Option<String> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        text.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            '0' => '\0',
            'u' => {
                let code: String =
                    chars.by_ref().skip_while(|c| *c == '{').take_while(|c| *c != '}').collect();
                char::from_u32(u32::from_str_radix(&code, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_back_into_the_steps_it_was_joined_from() {
        for key in ["a", "a-b", "app.kubernetes.io/name", "", "q\"]x", "tab\t", "é\u{1}", "back\\"]
        {
            let path = join_index(&join_key(&join_key("metadata", "labels"), key), 12);
            let expected = vec![
                Step::Key("metadata".into()),
                Step::Key("labels".into()),
                Step::Key(key.into()),
                Step::Index(12),
            ];
            assert_eq!(steps(&path), expected, "{path}");
        }
    }

    #[test]
    fn an_unreadable_rest_is_dropped() {
        assert_eq!(steps("a[x]"), [Step::Key("a".into())]);
        assert_eq!(steps("a[\"x"), [Step::Key("a".into())]);
        assert_eq!(steps(""), []);
    }
}
