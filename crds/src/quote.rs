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
            c => quoted.push(c),
        }
    }
    quoted.push('`');
    quoted
}
