//! Expected outputs of pages, compared with the outputs of their commands.

/// True if the output is as the page says: line by line, however words are spaced. `…` stands for any
/// part of a line, and alone on a line for any lines.
pub(crate) fn fits(said: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.trim().lines().map(words).collect()
    };
    lines_fit(&lines(said), &lines(printed))
}

fn lines_fit(said: &[String], printed: &[String]) -> bool {
    match said.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_fits(line, first) && lines_fit(rest, others)),
    }
}

fn line_fits(said: &str, printed: &str) -> bool {
    let Some((before, after)) = said.split_once('…') else { return said == printed };
    let Some(left) = printed.strip_prefix(before) else { return false };
    let ends = left.char_indices().map(|(at, _)| at).chain([left.len()]);
    ends.into_iter().any(|at| line_fits(after, &left[at..]))
}

#[test]
fn what_differs_each_time_is_left_out_and_all_else_is_compared() {
    for (said, printed, fits_it) in [
        ("a b\nc", "a   b\nc\n", true),
        ("a b", "a b\nc", false),
        ("a b\n…", "a b\nc\nd", true),
        ("…\nc", "a\nb\nc", true),
        ("…\nc", "a\nb", false),
        ("at … by x", "at 10:00 (…) by x", true),
        ("at … by x", "at 10:00 by y", false),
        ("… of 2", "1 of 2 of 2", true),
        ("a …", "b c", false),
        ("", "", true),
        ("", "x", false),
    ] {
        assert_eq!(fits(said, printed), fits_it, "{said:?} {printed:?}");
    }
}
