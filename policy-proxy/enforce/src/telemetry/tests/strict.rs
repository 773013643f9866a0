//! A strict OpenMetrics parser: rejects text that the specification (1.0.0) does not allow.

use std::collections::{BTreeMap, BTreeSet};

/// One family of metrics.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) samples: Vec<Sample>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Suffix of the family's name: empty, `_total`, `_bucket`, …
    pub(super) suffix: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

/// Every family by name.
///
/// # Panics
/// The error, with its line.
pub(super) fn read(text: &str) -> BTreeMap<String, Family> {
    let body = text.strip_suffix("# EOF\n").expect("# EOF ends it");
    assert!(body.is_empty() || body.ends_with('\n'), "every line ends");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.split_terminator('\n') {
        assert!(!line.is_empty() && line.trim() == line, "blanks: {line:?}");
        if let Some(meta) = line.strip_prefix("# ") {
            let (what, rest) = meta.split_once(' ').expect(line);
            let (name, value) = rest.split_once(' ').expect(line);
            assert!(is_name(name, true), "{line}");
            if name != current {
                assert!(!families.contains_key(name), "in two places: {line}");
                families.insert(name.to_owned(), Family::default());
                current = name.to_owned();
            }
            let family = families.get_mut(name).unwrap();
            assert!(family.samples.is_empty(), "metadata after samples: {line}");
            let field = match what {
                "HELP" => &mut family.help,
                "TYPE" => &mut family.kind,
                _ => panic!("neither HELP nor TYPE: {line}"),
            };
            assert!(field.is_empty() && !value.is_empty(), "twice or empty: {line}");
            *field = value.to_owned();
        } else {
            let family = families.get_mut(&current).expect("metadata first");
            let sample = sample(line, &current);
            assert!(suffixes(&family.kind).contains(&&*sample.suffix), "{line}: {}", family.kind);
            family.samples.push(sample);
        }
    }
    families.iter().for_each(|(name, family)| check(name, family));
    families
}

fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_sum", "_count"],
        "info" => &["_info"],
        _ => panic!("unknown type {kind}"),
    }
}

fn sample(line: &str, family: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect(line);
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect(line), line)),
        None => (series, BTreeMap::new()),
    };
    assert!(is_name(name, true), "{line}");
    let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("not of {family}: {line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    assert!(!value.is_nan(), "{line}");
    Sample { suffix: suffix.to_owned(), labels, value }
}

fn labels(mut text: &str, line: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect(line);
        assert!(is_name(name, false), "label {name:?} in {line}");
        let (value, rest) = quoted(rest, line);
        assert!(labels.insert(name.to_owned(), value).is_none(), "label {name} twice in {line}");
        text = match rest.strip_prefix(',') {
            Some(more) => {
                assert!(!more.is_empty(), "a comma ends {line}");
                more
            }
            None => {
                assert!(rest.is_empty(), "{line}");
                rest
            }
        };
    }
    labels
}

fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return (value, characters.as_str()),
            '\\' => match characters.next() {
                Some('n') => value.push('\n'),
                Some(escaped @ ('\\' | '"')) => value.push(escaped),
                other => panic!("escape {other:?} in {line}"),
            },
            other => value.push(other),
        }
    }
    panic!("open quote in {line}");
}

fn is_name(name: &str, colon: bool) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || colon && c == ':';
    name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit())
}

fn check(name: &str, family: &Family) {
    assert!(!family.kind.is_empty() && !family.help.is_empty(), "{name} lacks TYPE or HELP");
    let mut seen = BTreeSet::new();
    for Sample { suffix, labels, value } in &family.samples {
        assert!(seen.insert((suffix, labels)), "{name}{suffix}{labels:?} twice");
        let counts = !suffix.is_empty() && suffix != "_info";
        assert!(!counts || *value >= 0.0, "{name}{suffix} {value}");
        assert_eq!(suffix == "_bucket", labels.contains_key("le"), "{name}{suffix}{labels:?}");
    }
    if family.kind == "histogram" {
        check_histogram(name, family);
    }
}

fn check_histogram(name: &str, family: &Family) {
    type Parts = (Vec<(f64, f64)>, Option<f64>, Option<f64>);
    let mut series: BTreeMap<BTreeMap<String, String>, Parts> = BTreeMap::new();
    for Sample { suffix, labels, value } in &family.samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le").map(|le| match &*le {
            "+Inf" => f64::INFINITY,
            number => number.parse().unwrap(),
        });
        let (buckets, sum, count) = series.entry(labels).or_default();
        match (&**suffix, bound) {
            ("_bucket", Some(bound)) => buckets.push((bound, *value)),
            ("_sum", None) => *sum = Some(*value),
            _ => *count = Some(*value),
        }
    }
    for (labels, (buckets, sum, count)) in series {
        let rising = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        assert!(rising, "{name}{labels:?} {buckets:?}");
        let last = buckets.last().copied();
        assert_eq!(last, Some((f64::INFINITY, count.unwrap())), "{name}{labels:?}");
        assert!(sum.is_some(), "{name}{labels:?} has no sum");
    }
}

#[test]
fn what_openmetrics_forbids_is_refused() {
    let good = "# HELP a A.\n# TYPE a counter\na_total{x=\"1\"} 1\n# EOF\n";
    assert_eq!(read(good).len(), 1);
    for (from, to) in [
        ("# EOF\n", "# EOF"),
        ("a_total{", "a{"),
        ("a_total{", "b_total{"),
        ("x=\"1\"", "x=\"1\",x=\"2\""),
        ("x=\"1\"", "x=\"1\","),
        ("x=\"1\"", "x=\"\\t\""),
        ("x=\"1\"", "1=\"1\""),
        ("} 1", "} one"),
        ("} 1", "} -1"),
        ("} 1\n", "} 1\n\n"),
        ("} 1\n", "} 1\na_total{x=\"1\"} 2\n"),
        ("# TYPE a counter\n", ""),
        ("# TYPE a counter", "# TYPE a count"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(std::panic::catch_unwind(|| read(&bad)).is_err(), "{bad}");
    }
    let histogram = |buckets: &str| {
        let text = format!("# HELP h H.\n# TYPE h histogram\nh_sum 3\nh_count 2\n{buckets}# EOF\n");
        std::panic::catch_unwind(|| read(&text)).is_ok()
    };
    assert!(histogram("h_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n"));
    assert!(!histogram("h_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 1\n"));
    assert!(!histogram("h_bucket{le=\"1.0\"} 3\nh_bucket{le=\"+Inf\"} 2\n"));
    assert!(!histogram(
        "h_bucket{le=\"2.0\"} 1\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n"
    ));
    assert!(!histogram("h_bucket{le=\"1.0\"} 1\n"));
}
