//! Regular expressions over paths, brought to the match form (see [`crate::match_form`]).
//!
//! An expression is written for the text that an application reads: `/café/.*`. In the match form
//! `é` is `%C3%A9`, so that the expression as written would match nothing, and a tighter route
//! would protect nothing. What is rewritten is the parsed expression, not its text, so that flags,
//! escapes, classes and repetition keep their meaning.
//!
//! `.`, `[^/]` and `\w` stay as they are and mean characters of the match form, of which `%C3%A9`
//! has six. The edge of a word (`\b`) is another one there: between `%20` and `a` there is none, and
//! one is before `%C3`. So an expression that has to be rewritten has none of them.

use crate::expression_texts::{InPath, useless_part};
use crate::path_form::{OctetEncoding, is_plain, next, push};
use regex_syntax::hir::print::Printer;
use regex_syntax::hir::{
    Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition,
};
use regex_syntax::utf8::{Utf8Range, Utf8Sequences};

/// The most characters that a class may have which only percent-encodings stand for, if it has others
/// beside them. Those of a larger one, such as `[^/]` and `\w`, are not added.
const MAX_ENCODED: u32 = 256;

/// Error of bringing a regular expression to the match form of paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathExpressionError {
    /// A `%` that begins no percent-encoding.
    #[error("`%` begins no percent-encoding here; write `%25` for the character itself")]
    StrayPercent,
    /// A character that ends a path.
    #[error(
        "has `{0}`, which ends a path; match queries by `queryParams`, and write `{1}` for the \
         character itself"
    )]
    EndOfPath(char, &'static str),
    /// An edge of a word beside characters that are rewritten.
    #[error(
        "has the edge of a word (such as `\\b`) and characters that are percent-encoded in paths, where \
         the edge is at another place; write the characters that may come before and after it"
    )]
    EdgeOfWord,
    /// Too long or too large in the match form.
    #[error("is too large once its characters are percent-encoded: {0}")]
    TooLarge(String),
    /// It, or an alternative of it, matches no path.
    #[error(
        "`{0}` matches no path: a path begins with `/`, and every character but letters, digits \
         and `-._~!$&'()*+,;=:@/` is percent-encoded there, with upper-case digits"
    )]
    MatchesNothing(String),
}

/// Returns the text of `source` over match forms; `None` if it is one already, or no expression.
pub(crate) fn in_match_form(source: &str) -> Result<Option<String>, PathExpressionError> {
    if source.bytes().all(is_evidently_kept) {
        return Ok(None);
    }
    let Ok(parsed) = regex_syntax::parse(source) else { return Ok(None) };
    let mut percent = Percent { begins: true, classes: 0 };
    let mut form = rewrite(&parsed, &mut percent)?;
    let is_useless = |form: &Hir| {
        useless_part::<InPath>(&printed(form)).is_some_and(|part| printed(&part) == "%")
    };
    if percent.classes > 0 && form.as_ref().is_some_and(is_useless) {
        if percent.classes > 1 {
            return Err(PathExpressionError::StrayPercent);
        }
        percent.begins = false;
        form = rewrite(&parsed, &mut percent)?;
    }
    if form.is_some() && parsed.properties().look_set().contains_word() {
        return Err(PathExpressionError::EdgeOfWord);
    }
    Ok(form.map(|form| printed(&form)))
}

/// Returns the text of a parsed expression over match forms, with as few groups as that takes. Match
/// forms are ASCII, so of a class that has ASCII characters no others are written.
pub(crate) fn printed(parsed: &Hir) -> String {
    match parsed.kind() {
        HirKind::Empty => String::new(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => regex_syntax::escape(text),
            Err(_) => printed_as_parsed(parsed),
        },
        HirKind::Class(class) => printed_class(class).unwrap_or_else(|| printed_as_parsed(parsed)),
        HirKind::Look(_) => printed_as_parsed(parsed),
        HirKind::Repetition(repetition) => {
            let Repetition { min, max, greedy, sub } = repetition;
            let count = match (min, max) {
                (0, None) => "*".to_owned(),
                (1, None) => "+".to_owned(),
                (0, Some(1)) => "?".to_owned(),
                (min, None) => format!("{{{min},}}"),
                (min, Some(max)) if min == max => format!("{{{min}}}"),
                (min, Some(max)) => format!("{{{min},{max}}}"),
            };
            let one = match sub.kind() {
                HirKind::Class(_) | HirKind::Capture(_) => printed(sub),
                HirKind::Literal(literal) if literal.0.len() == 1 => printed(sub),
                HirKind::Empty
                | HirKind::Literal(_)
                | HirKind::Look(_)
                | HirKind::Repetition(_)
                | HirKind::Concat(_)
                | HirKind::Alternation(_) => format!("(?:{})", printed(sub)),
            };
            format!("{one}{count}{}", if *greedy { "" } else { "?" })
        }
        HirKind::Capture(Capture { sub, .. }) => format!("({})", printed(sub)),
        HirKind::Concat(parts) => parts.iter().map(printed_part).collect(),
        HirKind::Alternation(arms) => arms.iter().map(printed).collect::<Vec<_>>().join("|"),
    }
}

fn printed_part(part: &Hir) -> String {
    let text = printed(part);
    if matches!(part.kind(), HirKind::Alternation(_)) { format!("(?:{text})") } else { text }
}

fn printed_as_parsed(parsed: &Hir) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = Printer::new().print(parsed, &mut text);
    text
}

/// `None`: there is no shorter text than that of the class as it was parsed.
fn printed_class(class: &Class) -> Option<String> {
    let Class::Unicode(class) = class else { return None };
    let ascii = ClassUnicode::new([range('\0', '\x7f')]);
    let mut others = class.clone();
    others.negate();
    let listed = |class: &ClassUnicode| {
        let one = |own: &ClassUnicodeRange| match (character(own.start()), character(own.end())) {
            (start, end) if start == end => start,
            (start, end) => format!("{start}-{end}"),
        };
        class.iter().map(one).collect::<String>()
    };
    if others.is_ascii() && !others.ranges().is_empty() {
        let is_dot = others == ClassUnicode::new([range('\n', '\n')]);
        return Some(if is_dot { ".".to_owned() } else { format!("[^{}]", listed(&others)) });
    }
    let mut own = class.clone();
    own.intersect(&ascii);
    (!own.ranges().is_empty()).then(|| format!("[{}]", listed(&own)))
}

/// A character of a class.
fn character(character: char) -> String {
    if character.is_ascii_graphic() || character.is_alphanumeric() {
        regex_syntax::escape(character.encode_utf8(&mut [0; 4]))
    } else {
        format!("\\x{{{:X}}}", u32::from(character))
    }
}

/// Returns true if the byte has no part in anything that is rewritten.
fn is_evidently_kept(byte: u8) -> bool {
    is_plain(byte) || matches!(byte, b'|')
}

/// The reading of `%` in classes.
struct Percent {
    /// True if it may begin an encoding, besides being the character.
    begins: bool,
    /// The number of classes that have it.
    classes: usize,
}

/// `None`: nothing is to be rewritten. The parser bounds the depth.
fn rewrite(parsed: &Hir, percent: &mut Percent) -> Result<Option<Hir>, PathExpressionError> {
    Ok(match parsed.kind() {
        HirKind::Empty | HirKind::Look(_) => None,
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => Some(literal_form(text)?).filter(|form| form != text).map(|form| {
                let bytes = form.into_bytes();
                Hir::literal(bytes)
            }),
            Err(_) => None,
        },
        HirKind::Class(class) => class_form(class, percent),
        HirKind::Repetition(repetition) => {
            rewrite(&repetition.sub, percent)?.map(|sub| Hir::repetition(repetition.with(sub)))
        }
        HirKind::Capture(Capture { index, name, sub }) => rewrite(sub, percent)?.map(|sub| {
            let (index, name, sub) = (*index, name.clone(), Box::new(sub));
            Hir::capture(Capture { index, name, sub })
        }),
        HirKind::Concat(parts) => rewrite_each(parts, percent)?.map(Hir::concat),
        HirKind::Alternation(arms) => rewrite_each(arms, percent)?.map(Hir::alternation),
    })
}

fn rewrite_each(
    parts: &[Hir],
    percent: &mut Percent,
) -> Result<Option<Vec<Hir>>, PathExpressionError> {
    let forms = parts.iter().map(|part| rewrite(part, percent));
    let forms: Vec<Option<Hir>> = forms.collect::<Result<_, _>>()?;
    if forms.iter().all(Option::is_none) {
        return Ok(None);
    }
    let whole = parts.iter().zip(forms).map(|(part, form)| form.unwrap_or_else(|| part.clone()));
    Ok(Some(whole.collect()))
}

/// The match form of a literal. An encoding that the literal only begins, as in `%C3%A[0-9]`, keeps
/// what it has, in upper case.
fn literal_form(text: &str) -> Result<String, PathExpressionError> {
    let mut form = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((octet, written, after)) = next(rest) {
        let is_plainly = written == OctetEncoding::Plain;
        match (octet, after) {
            (b'%', []) if is_plainly => form.push('%'),
            (b'%', [digit]) if is_plainly && digit.is_ascii_hexdigit() => {
                form.push('%');
                form.push(char::from(digit.to_ascii_uppercase()));
                return Ok(form);
            }
            (b'%', _) if is_plainly => return Err(PathExpressionError::StrayPercent),
            (b'?', _) if is_plainly => return Err(PathExpressionError::EndOfPath('?', "%3F")),
            (b'#', _) if is_plainly => return Err(PathExpressionError::EndOfPath('#', "%23")),
            (octet, _) => push(octet, written.canonical(octet) == OctetEncoding::Plain, &mut form),
        }
        rest = after;
    }
    Ok(form)
}

/// The class with the encodings of its characters that the match form encodes; `None` if it has none
/// of these, or stays as it is. `%` may be meant as the character, which is encoded, too, or begin an
/// encoding, as in `[0-9A-F%]+`.
fn class_form(class: &Class, reading: &mut Percent) -> Option<Hir> {
    let whole = match class {
        Class::Unicode(class) => class.clone(),
        Class::Bytes(class) => class.to_unicode_class()?,
    };
    let percent = ClassUnicode::new([range('%', '%')]);
    let (mut plain, mut encoded) = (whole.clone(), whole.clone());
    plain.intersect(&plain_characters());
    encoded.difference(&plain_characters());
    let mut begins = whole;
    begins.intersect(&percent);
    encoded.union(&begins);
    // No request that is decided has one.
    encoded.difference(&ClassUnicode::new([range('\0', '\x1f'), range('\x7f', '\x7f')]));
    if !plain.ranges().is_empty() {
        // Added to `k` and `s` by the flag `i`; nobody means them.
        encoded.difference(&ClassUnicode::new([range('\u{17f}', '\u{17f}')]));
        encoded.difference(&ClassUnicode::new([range('\u{212a}', '\u{212a}')]));
        if count(&encoded) > MAX_ENCODED {
            return None;
        }
    }
    if encoded.ranges().is_empty() {
        return None;
    }
    let sequences = encoded.iter().flat_map(|own| Utf8Sequences::new(own.start(), own.end()));
    let sequences = sequences.map(|sequence| {
        let octets = sequence.as_slice().iter().map(octets);
        Hir::concat(octets.collect())
    });
    plain.difference(&percent);
    let plain = (!plain.ranges().is_empty()).then(|| Hir::class(Class::Unicode(plain)));
    let has_percent = !begins.ranges().is_empty();
    reading.classes = reading.classes.saturating_add(has_percent.into());
    let begins = (has_percent && reading.begins).then(|| Hir::literal(*b"%"));
    Some(Hir::alternation(plain.into_iter().chain(sequences).chain(begins).collect()))
}

/// The characters that stand for themselves in a match form, or begin a percent-encoding there.
fn plain_characters() -> ClassUnicode {
    let kept = |byte: &u8| is_plain(*byte) || matches!(byte, b';' | b'%');
    let bytes = (0..=0x7f_u8).filter(kept).map(char::from);
    ClassUnicode::new(bytes.map(|own| range(own, own)))
}

fn range(start: char, end: char) -> ClassUnicodeRange {
    ClassUnicodeRange::new(start, end)
}

fn count(class: &ClassUnicode) -> u32 {
    let length = |own: &ClassUnicodeRange| {
        u32::from(own.end()).saturating_sub(own.start().into()).saturating_add(1)
    };
    class.iter().map(length).fold(0, u32::saturating_add)
}

/// An expression for the encodings of a range of octets.
fn octets(range: &Utf8Range) -> Hir {
    let (low, high) = (range.start, range.end);
    let (first, last) = (low >> 4, high >> 4);
    if first == last {
        return encoding((first, last), (low & 0xf, high & 0xf));
    }
    let between = (first.saturating_add(1), last.saturating_sub(1));
    let between = (between.0 <= between.1).then(|| encoding(between, (0, 0xf)));
    let ends =
        [encoding((first, first), (low & 0xf, 0xf)), encoding((last, last), (0, high & 0xf))];
    Hir::alternation(between.into_iter().chain(ends).collect())
}

/// An expression for `%` and one digit of each range.
fn encoding(first: (u8, u8), second: (u8, u8)) -> Hir {
    let digit = |(low, high): (u8, u8)| {
        let digits = (low..=high).filter_map(|value| char::from_digit(value.into(), 16));
        let digits = digits.map(|digit| digit.to_ascii_uppercase());
        Hir::class(Class::Unicode(ClassUnicode::new(digits.map(|own| range(own, own)))))
    };
    Hir::concat(vec![Hir::literal(*b"%"), digit(first), digit(second)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::{canonical_path, match_form};
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    fn form(source: &str) -> Result<Option<String>, String> {
        let pattern = Pattern::parse(source).unwrap();
        pattern.check_path().map_err(|error| error.to_string())?;
        let form = pattern.in_match_form().unwrap();
        Ok(form.map(|form| form.source().to_owned()))
    }

    #[track_caller]
    fn matches(source: &str, paths: &[&str], others: &[&str]) {
        let pattern = Pattern::parse(source).unwrap();
        assert_eq!(pattern.check_path(), Ok(()), "{source}");
        let form = pattern.in_match_form().unwrap().unwrap_or(&pattern);
        for path in paths {
            assert!(form.matches(path), "{source} as {} on {path}", form.source());
        }
        for path in others {
            assert!(!form.matches(path), "{source} as {} on {path}", form.source());
        }
        assert_eq!(form.in_match_form(), Ok(None), "the form of a form is itself");
    }

    #[test]
    fn an_expression_with_characters_that_paths_encode_matches_their_encoding() {
        matches("/ru/café/.*", &["/ru/caf%C3%A9/x"], &["/ru/cafe/x", "/ru/café/x"]);
        matches("/a b|/c", &["/a%20b", "/c"], &["/a b"]);
        matches(r#"/["`<>]x"#, &["/%22x", "/%60x", "/%3Cx"], &["/x"]);
        matches(r"/\[a\]\{\^\|", &["/%5Ba%5D%7B%5E%7C"], &[]);
        matches("/[é-ü]{2}", &["/%C3%A9%C3%BC", "/%C3%B0%C3%AF"], &["/%C3%A8%C3%BC", "/%C3%A9"]);
        matches("(?i)/É", &["/%C3%A9", "/%C3%89"], &["/%C3%A8"]);
        matches(r"/\x{e9}+", &["/%C3%A9%C3%A9"], &["/%C3%A9%A9"]);
        matches("/caf(e|é)", &["/cafe", "/caf%C3%A9"], &["/caf"]);
        matches("/[a-z ]+", &["/a%20b"], &["/%20B"]);
        matches("/caf%c3%a9|/a%3ab", &["/caf%C3%A9", "/a:b"], &["/a%3Ab"]);
        matches(r"/\p{Cyrillic}+", &["/%D0%B6%D1%8F"], &["/%C3%A9"]);
    }

    #[test]
    fn a_percent_in_a_class_is_the_character_and_begins_an_encoding() {
        matches("/[%x]secret", &["/%25secret", "/xsecret"], &["/secret"]);
        matches("/[0-9A-F%]+", &["/%25", "/%C3%A9", "/0"], &["/g"]);
        matches("/[% ]", &["/%25", "/%20"], &["/%"]);
        matches("/[!-~]", &["/%25", "/%22", "/a"], &["/%20"]);
        matches("/[%x]{2}", &["/%25x", "/xx"], &["/%25"]);
        assert_eq!(form("/[%x][%y]z"), Err(PathExpressionError::StrayPercent.to_string()));
        assert_eq!(form("/[%]x"), Err(PathExpressionError::StrayPercent.to_string()));
    }

    #[test]
    fn an_edge_of_a_word_beside_what_is_rewritten_is_an_error() {
        let edge = || Err(PathExpressionError::EdgeOfWord.to_string());
        assert_eq!(form(r"/ \bbooks"), edge());
        assert_eq!(form(r"/(books|caf\bé)"), edge());
        assert_eq!(form(r"/[% ]+\Bbooks"), edge());
        assert_eq!(form(r"/books\b.*"), Ok(None));
        matches(r"/\bbooks\b.*", &["/books", "/books/x", "/books%20x"], &["/booksx"]);
        matches(r"/a(?m:$)|(?m:^)/b", &["/a", "/b"], &["/a/b"]);
    }

    #[test]
    fn an_expression_that_can_match_as_it_is_written_stays() {
        for source in [
            "/.*",
            "/[^/]+/x",
            r"/\w+",
            r"/\d{3}",
            "(?i)/books",
            "/a%20b",
            "/%[0-9A-F]{2}",
            "/a;b",
            "/%C3%A[0-9]",
            r"\*",
            "(/a)?",
            "(?:/a|/b)?",
            "/(%|20)+",
        ] {
            assert_eq!(form(source), Ok(None), "{source}");
        }
    }

    #[test]
    fn an_expression_that_matches_nothing_in_any_form_is_an_error() {
        let nothing =
            |part: &str| Err(PathExpressionError::MatchesNothing(part.into()).to_string());
        let stray = || Err(PathExpressionError::StrayPercent.to_string());
        let kept = r"/%C3%A9[0-9A-Z_a-z]+[^/]{2,}?(.*x|)";
        let end = |at, form| Err(PathExpressionError::EndOfPath(at, form).to_string());
        assert_eq!(form("books/.*"), nothing("books/.*"));
        assert_eq!(form("/a|bc"), nothing("bc"));
        assert_eq!(form("/(a|%[a-f]0|c.)/x"), nothing("%[a-f]0"));
        assert_eq!(form("/100%"), nothing("/100%"));
        assert_eq!(form("/100%/x"), stray());
        assert_eq!(form(r"/a\Bb|/%20\bb"), nothing(r"/%20\bb"));
        assert_eq!(form(r"/(\Bb|c)"), nothing(r"\Bb"));
        assert_eq!(form(r"/a\b{end}b"), nothing(r"/a\b{end}b"));
        assert_eq!(form("/a^b"), nothing(r"/a\Ab"));
        assert_eq!(form("/(a$|b)/c"), nothing(r"a\z"));
        assert_eq!(form(r"/search\?q=.*"), end('?', "%3F"));
        assert_eq!(form("/a#b"), end('#', "%23"));
        assert_eq!(form(r"/[?#]"), Ok(Some("/(?:%23|%3F)".into())));
        assert_eq!(form(r"/é\w+[^/]{2,}?(.*x|)"), Ok(Some(kept.into())));
        assert!(form(&"/é".repeat(1000)).unwrap_err().starts_with("is too large once"));
    }

    /// An expression as it is written, and over decoded paths.
    fn expression() -> impl Strategy<Value = (String, String)> {
        let same = |text: &'static str| Just((text.to_owned(), text.to_owned()));
        let other =
            |text: &'static str, means: &'static str| Just((text.to_owned(), means.to_owned()));
        let leaf = prop_oneof![
            same("a"),
            same("b"),
            same("k"),
            same("/"),
            same("é"),
            same(" "),
            same("\""),
            same(r"\["),
            same(r"\x{e9}"),
            same("(?i:É)"),
            same("(?i:K)"),
            same(r"\w{0}"),
            same("[é-ü]"),
            same("[ \"]"),
            same("[a-c]"),
            same("[aé]"),
            same("[a-c ]"),
            same(":"),
            other("%C3%A9", "é"),
            other("%c3%a9", "é"),
            other("%20", " "),
            other("%3A", ":"),
            other("%5b", r"\["),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let each = |parts: &[(String, String)], with: &str| {
                let of = |text: fn(&(String, String)) -> &String| {
                    let parts: Vec<_> = parts.iter().map(|part| text(part).as_str()).collect();
                    format!("(?:{})", parts.join(with))
                };
                (of(|part| &part.0), of(|part| &part.1))
            };
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(move |all| each(&all, "")),
                prop::collection::vec(inner.clone(), 1..4).prop_map(move |all| each(&all, "|")),
                (inner, prop::sample::select(vec!["*", "+", "?", "{2}"])).prop_map(
                    |((written, means), by)| {
                        (format!("(?:{written}){by}"), format!("(?:{means}){by}"))
                    }
                ),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn an_expression_matches_the_form_of_a_path_if_it_matches_what_the_path_means(
            (written, means) in expression(),
            texts in prop::collection::vec("/([abké \"\\[:]|é|ü){0,4}", 1..3),
            spelling in prop::collection::vec(0..3_u8, 24),
        ) {
            let mut path = String::new();
            let decoded = texts.concat();
            for (octet, spelling) in decoded.bytes().zip(spelling.into_iter().chain([1; 64])) {
                let is_plain = is_plain(octet) && (spelling == 0 || octet == b'/');
                let mut own = String::new();
                push(octet, is_plain, &mut own);
                path.push_str(&if spelling == 2 && !is_plain { own.to_lowercase() } else { own });
            }
            prop_assert_eq!(percent_decode_str(&path).decode_utf8().unwrap(), decoded.clone());
            if let Ok(path) = canonical_path(&path) {
                let pattern = Pattern::parse(&written).unwrap();
                let form = pattern.in_match_form().unwrap().unwrap_or(&pattern);
                prop_assert_eq!(
                    form.matches(&match_form(&path)),
                    Pattern::parse(&means).unwrap().matches(&decoded),
                    "{} as {} on {}", written, form.source(), path
                );
            }
        }
    }
}
