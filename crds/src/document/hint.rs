//! Hints beside syntax errors, for texts that are no manifests yet: templates that are not rendered, and text that
//! was copied from a page.

use super::definition::SyntaxError;

/// Adds what the lines of an error suggest to its message.
pub(super) fn add(text: &str, error: &mut SyntaxError) {
    let at = error.location.line.saturating_sub(1);
    // The library finds some mistakes a line too late.
    let lines = text.lines().enumerate().skip(at.saturating_sub(1)).take(2);
    let hint = lines.filter(|(number, _)| *number <= at).find_map(|(number, line)| {
        of_line(line).map(|hint| format!("; line {} {hint}", number.saturating_add(1)))
    });
    error.message.push_str(&hint.unwrap_or_default());
}

fn of_line(line: &str) -> Option<String> {
    if line.contains("{{") || line.trim_start().starts_with("{%") {
        return Some("is of a template: render it first, as by `helm template`".to_owned());
    }
    if line.starts_with("```") {
        return Some("is Markdown around a manifest".to_owned());
    }
    let is_strange = |c: &char| c.is_whitespace() && *c != ' ' && *c != '\t' || *c == '\u{200b}';
    let mut indentation = line.chars().take_while(|c| c.is_whitespace() || *c == '\u{200b}');
    let strange = indentation.find(is_strange)?;
    let code = u32::from(strange);
    Some(format!("is indented by a character that only looks like a blank (U+{code:04X})"))
}

#[cfg(test)]
mod tests {
    use super::super::read;

    fn errors(text: &str) -> Vec<String> {
        let documents = read(text);
        let errors = documents.iter().filter_map(|document| document.value.as_ref().err());
        errors.map(|error| error.message.clone()).collect()
    }

    #[test]
    fn what_is_no_manifest_yet_is_told_apart_from_a_slip() {
        for (text, hint) in [
            ("kind: A\nname: {{ .Values.name }}\n", "line 2 is of a template"),
            ("kind: A\n{{- if .Values.a }}\nb: c\n{{- end }}\n", "line 2 is of a template"),
            ("{% if a %}\nkind: A\n", "line 1 is of a template"),
            ("```yaml\nkind: A\n```\n", "line 1 is Markdown"),
            (
                "a:\n\u{a0} b: 1\n  c: 2\n",
                "line 2 is indented by a character that only looks like a blank (U+00A0)",
            ),
        ] {
            let found = errors(text);
            assert!(found[0].contains(hint), "{text:?}: {found:?}");
        }
        let plain = errors("a: [\nb: c\n");
        assert!(plain.iter().all(|it| !it.contains("; line")), "{plain:?}");
        assert!(errors("a: '{{ b }}'\n").is_empty());
    }
}
