//! Users' values in messages.

/// Longest part of a user's value that a message repeats, in characters.
const MAX_QUOTED: usize = 80;

/// A user's value in backticks, shortened, control characters escaped.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == MAX_QUOTED {
            quoted.push('…');
            break;
        }
        match c {
            '`' => quoted.push('\''),
            c if c.is_control() => quoted.extend(c.escape_default()),
            c if is_invisible(c) => quoted.extend(c.escape_unicode()),
            c => quoted.push(c),
        }
    }
    quoted.push('`');
    quoted
}

/// True for characters that look like a blank or like nothing, as text from web pages has them.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202f}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(quote("Server\u{200b}"), "`Server\\u{200b}`");
        assert_eq!(quote("a\u{a0}b\u{1}"), "`a\\u{a0}b\\u{1}`");
        assert_eq!(quote("grün “a”"), "`grün “a”`");
    }
}
