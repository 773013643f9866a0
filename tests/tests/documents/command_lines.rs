//! Commands as pages have them: in fences of `sh`, and in the text.

use crate::pages::{Line, Page};

/// The words of a shell's line, as the shell takes them apart. Variables and substitutions stay as they
/// are written; what separates commands is a word.
pub(crate) fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut any) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    let mut depth = 0_usize;
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' if depth == 0 => {
                any = true;
                word.extend(chars.by_ref().take_while(|inner| *inner != c));
            }
            '$' if chars.peek() == Some(&'(') => {
                depth += 1;
                word.push(c);
                word.extend(chars.next());
                any = true;
            }
            ')' if depth > 0 => {
                depth -= 1;
                word.push(c);
            }
            '#' if !any && word.is_empty() && depth == 0 => break,
            ' ' if depth == 0 => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            ';' if depth == 0 => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
                words.push(";".to_owned());
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

/// The words without `>`, `<` and the file behind it.
fn without_redirections(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if [">", ">>", "<", "2>"].contains(&word.as_str()) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept
}

/// The single commands of a line.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let separators = ["|", "||", "&&", ";", "do", "then"];
    let words = without_redirections(words(text));
    let parts = words.split(|word| separators.contains(&word.as_str()));
    parts.filter(|part| !part.is_empty()).map(<[String]>::to_vec).collect()
}

/// The commands of the fences of a page. A line that ends with `\`, `|` or `&&` goes on.
pub(crate) fn fenced(page: &Page) -> Vec<(&Line, Vec<String>)> {
    let mut all = Vec::new();
    let mut begun: Option<(&Line, String)> = None;
    for line in page.lines.iter().filter(|line| line.is_shell()) {
        let (first, text) = match begun.take() {
            Some((first, before)) => (first, format!("{before} {}", line.text.trim())),
            None => (line, line.text.clone()),
        };
        let goes_on = ["\\", "|", "&&"].iter().any(|end| text.trim_end().ends_with(end));
        if goes_on {
            begun = Some((first, text.trim_end().trim_end_matches('\\').to_owned()));
        } else {
            all.extend(commands(&text).into_iter().map(|command| (first, command)));
        }
    }
    all
}

/// The commands of the fences and of the text.
pub(crate) fn all(page: &Page) -> Vec<(&Line, Vec<String>)> {
    let mut all = fenced(page);
    for line in &page.lines {
        for span in line.spans() {
            all.extend(commands(&span.code).into_iter().map(|command| (line, command)));
        }
    }
    all
}

#[test]
fn a_line_is_taken_apart_as_a_shell_does() {
    let line = r#"kubectl -n a wait --for=b 'c d' "$e" "f g" | grep -E 'x|y' && z $(a b) # end"#;
    let found = commands(line);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0][4..], ["--for=b", "c d", "$e", "f g"]);
    assert_eq!(found[1], ["grep", "-E", "x|y"]);
    assert_eq!(found[2], ["z", "$(a b)"]);
    assert_eq!(commands("a --b > now.txt"), [["a", "--b"]]);
}
