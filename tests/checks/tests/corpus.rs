//! The corpora of the fuzz targets (`tests/fuzz`), replayed, and changed at random within a bound.

use policy_checks::{Check, TARGETS, large, manifest, sidecar};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of changed inputs that follow each corpus.
const CHANGED: usize = 10_000;

/// Most time for them; a slow machine tries fewer.
const BOUND: Duration = Duration::from_secs(4);

/// A generator of numbers that is the same every time (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() % bound.max(1)
    }
}

/// One to four changes as fuzzers make them, `other` being another input.
fn change(numbers: &mut Numbers, data: &[u8], other: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len());
        match numbers.below(6) {
            0 if !data.is_empty() => data[at] ^= 1 << numbers.below(8),
            1 if !data.is_empty() => {
                data[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b':', b' '][numbers.below(8)]
            }
            2 => data.truncate(at),
            3 => {
                let end = (at + numbers.below(16)).min(data.len());
                data.drain(at..end);
            }
            4 => {
                let end = (at + numbers.below(16)).min(data.len());
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
            _ => {
                let from = numbers.below(other.len());
                let piece = other[from..(from + numbers.below(64)).min(other.len())].to_vec();
                data.splice(at..at, piece);
            }
        }
    }
    data
}

fn inputs(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

/// A folder of the repository.
fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Folder of a target's inputs.
fn corpus(target: &str) -> PathBuf {
    folder("tests/fuzz/corpus").join(target)
}

fn replay(target: &str) {
    let (_, check) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let inputs = inputs(&corpus(target));
    assert!(inputs.len() >= 8, "the corpus of {target} has {} inputs", inputs.len());
    replay_and_change(&inputs, *check);
}

fn replay_and_change(inputs: &[(String, Vec<u8>)], check: Check) {
    for (name, data) in inputs {
        if let Err(wrong) = check(data) {
            panic!("{name}: {wrong}");
        }
    }
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let begun = Instant::now();
    for _ in 0..CHANGED {
        if begun.elapsed() > BOUND {
            break;
        }
        let (name, data) = &inputs[numbers.below(inputs.len())];
        let (_, other) = &inputs[numbers.below(inputs.len())];
        let changed = change(&mut numbers, data, other);
        let result = std::panic::catch_unwind(|| check(&changed));
        let escaped = || changed.escape_ascii().to_string();
        match result {
            Ok(Ok(())) => {}
            Ok(Err(wrong)) => panic!("{name} changed to b\"{}\": {wrong}", escaped()),
            Err(_) => panic!("{name} changed to b\"{}\" panics", escaped()),
        }
    }
}

#[test]
fn a_client_hello_is_told_from_its_first_bytes() {
    replay("hello");
}

#[test]
fn requests_mean_to_the_sidecar_what_they_mean_to_hyper() {
    replay("http1");
}

#[test]
fn responses_mean_to_the_sidecar_what_they_mean_to_hyper() {
    replay("reply");
}

/// Generators of nearly valid heads and bodies, of requests and responses.
mod nearly {
    use proptest::prelude::*;

    pub(super) fn end() -> impl Strategy<Value = &'static str> {
        prop_oneof![24 => Just("\r\n"), 2 => Just("\n"), 1 => Just("\r"), 1 => Just("\r\r\n"),
            1 => Just("\r\n "), 1 => Just("\0\r\n")]
    }

    pub(super) fn message(
        line: impl Strategy<Value = String>,
        fields: impl Strategy<Value = Vec<(String, &'static str)>>,
        body: impl Strategy<Value = &'static str>,
    ) -> impl Strategy<Value = String> {
        (line, end(), fields, end(), body).prop_map(|(line, one, fields, two, body)| {
            let fields: String =
                fields.into_iter().flat_map(|(field, end)| [field, end.into()]).collect();
            format!("{line}{one}{fields}{two}{body}")
        })
    }
}

/// Responses that are nearly right.
mod nearly_right_responses {
    use super::nearly::{end, message};
    use policy_checks::reply;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = String> {
        let version = prop_oneof![8 => Just("HTTP/1.1"), 2 => Just("HTTP/1.0"), 1 => Just("HTTP/1.2"),
            1 => Just("http/1.1"), 1 => Just("HTTP/1.1 ")];
        let status = prop_oneof![8 => Just("200"), 1 => Just("100"), 1 => Just("101"), 1 => Just("103"),
            1 => Just("204"), 1 => Just("304"), 1 => Just("404"), 1 => Just("099"), 1 => Just("999"),
            1 => Just("20"), 1 => Just("2000"), 1 => Just("")];
        let reason = prop_oneof![6 => Just(" OK"), 1 => Just(""), 1 => Just(" "), 1 => Just("  x"),
            1 => Just(" \u{e4}"), 1 => Just(" a\rb"), 1 => Just(" \0")];
        (version, status, reason)
            .prop_map(|(version, status, reason)| format!("{version} {status}{reason}"))
    }

    fn field() -> impl Strategy<Value = String> {
        let name = prop_oneof![
            3 => Just("Content-Length"), 3 => Just("Transfer-Encoding"), 2 => Just("Connection"),
            1 => Just("Trailer"), 1 => Just("Upgrade"), 1 => Just("X_y"), 1 => Just("X y"),
            1 => Just("")];
        let colon = prop_oneof![12 => Just(": "), 2 => Just(":"), 1 => Just(" :"), 1 => Just(":\t"),
            1 => Just("")];
        let value = prop_oneof![
            Just("0"),
            Just("3"),
            Just("+3"),
            Just("3, 3"),
            Just("3, 4"),
            Just("03"),
            Just("18446744073709551616"),
            Just("18446744073709551615"),
            Just("0x3"),
            Just("chunked"),
            Just("Chunked"),
            Just("gzip, chunked"),
            Just("chunked, gzip"),
            Just("xchunked"),
            Just("chunked;q=1"),
            Just(""),
            Just("close"),
            Just("keep-alive"),
            Just("close, keep-alive"),
            Just("a\rb")
        ];
        (name, colon, value).prop_map(|(name, colon, value)| format!("{name}{colon}{value}"))
    }

    fn body() -> impl Strategy<Value = &'static str> {
        prop_oneof![4 => Just(""), 2 => Just("abc"), 2 => Just("abcdef"),
            4 => Just("3\r\nabc\r\n0\r\n\r\n"), 1 => Just("0\r\n\r\n"),
            1 => Just("3;x=\"y\"\r\nabc\r\n0\r\nX-A: b\r\n\r\n"), 1 => Just("3\nabc\n0\n\n"),
            1 => Just("3\r\nabcd\r\n0\r\n\r\n"), 1 => Just("3\r\nabc\r\n"), 1 => Just("g\r\n"),
            1 => Just("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")]
    }

    fn response() -> impl Strategy<Value = String> {
        message(line(), prop::collection::vec((field(), end()), 0..4), body())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn responses_mean_to_the_sidecar_what_they_mean_to_hyper(
            responses in prop::collection::vec(response(), 1..3),
        ) {
            let data = responses.concat();
            if let Err(wrong) = reply::check(data.as_bytes()) {
                return Err(TestCaseError::fail(format!("{data:?}: {wrong}")));
            }
        }
    }
}

/// Requests that are nearly right, several behind each other.
mod nearly_right {
    use super::nearly::{end, message};
    use policy_checks::http1;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = String> {
        let method = prop_oneof![4 => Just("GET"), 3 => Just("POST"), 1 => Just("HEAD"),
            1 => Just("CONNECT"), 1 => Just("get"), 1 => Just("G\"T"), 1 => Just("")];
        let target = prop_oneof![4 => Just("/"), 2 => Just("/a?b=c"), 1 => Just("*"),
            1 => Just("a:80"), 1 => Just("http://a/b"), 1 => Just("/a b"), 1 => Just("/a#b"),
            1 => Just("/\u{e4}"), 1 => Just("//"), 1 => Just("http://"), 1 => Just("/\t")];
        let version = prop_oneof![6 => Just("HTTP/1.1"), 2 => Just("HTTP/1.0"), 1 => Just("HTTP/1.2"),
            1 => Just("HTTP/2.0"), 1 => Just("http/1.1"), 1 => Just("HTTP/1.1 "), 1 => Just("")];
        (method, blank(), target, blank(), version).prop_map(
            |(method, one, target, two, version)| format!("{method}{one}{target}{two}{version}"),
        )
    }

    fn blank() -> impl Strategy<Value = &'static str> {
        prop_oneof![16 => Just(" "), 1 => Just("  "), 1 => Just("\t"), 1 => Just("")]
    }

    fn field() -> impl Strategy<Value = String> {
        let name = prop_oneof![
            Just("Host"),
            Just("Content-Length"),
            Just("content-length"),
            Just("Transfer-Encoding"),
            Just("transfer-encoding"),
            Just("Connection"),
            Just("Expect"),
            Just("TE"),
            Just("Upgrade"),
            Just("X_y"),
            Just("Trailer"),
            Just("X y"),
            Just("")
        ];
        let colon = prop_oneof![12 => Just(": "), 2 => Just(":"), 1 => Just(" :"), 1 => Just(":\t"),
            1 => Just(""), 1 => Just(":  ")];
        let value = prop_oneof![
            Just("a"),
            Just("0"),
            Just("3"),
            Just("+3"),
            Just("3, 3"),
            Just("03"),
            Just("18446744073709551616"),
            Just("0x3"),
            Just("chunked"),
            Just("Chunked"),
            Just("gzip, chunked"),
            Just("chunked, gzip"),
            Just("xchunked"),
            Just("chunked;q=1"),
            Just("\u{b}chunked"),
            Just(" chunked "),
            Just("identity"),
            Just(""),
            Just("close"),
            Just("keep-alive"),
            Just("close, keep-alive"),
            Just("100-continue"),
            Just("trailers"),
            Just("websocket"),
            Just("a\rb")
        ];
        (name, colon, value).prop_map(|(name, colon, value)| format!("{name}{colon}{value}"))
    }

    fn body() -> impl Strategy<Value = &'static str> {
        prop_oneof![6 => Just(""), 3 => Just("abc"), 3 => Just("3\r\nabc\r\n0\r\n\r\n"),
            1 => Just("0\r\n\r\n"), 1 => Just("3;x=\"y\"\r\nabc\r\n0\r\nX-A: b\r\n\r\n"),
            1 => Just("3 \r\nabc\r\n0\r\n\r\n"), 1 => Just("3\nabc\n0\n\n"), 1 => Just("g\r\n"),
            1 => Just("3\r\nabcd\r\n0\r\n\r\n"), 1 => Just("10000000000000003\r\nabc\r\n0\r\n\r\n"),
            1 => Just("00\r\nContent-Length: 3\r\n\r\n"), 1 => Just("-3\r\nabc\r\n0\r\n\r\n")]
    }

    fn request() -> impl Strategy<Value = String> {
        message(line(), prop::collection::vec((field(), end()), 0..5), body())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn requests_mean_to_the_sidecar_what_they_mean_to_hyper(
            requests in prop::collection::vec(request(), 1..4),
        ) {
            let data = requests.concat();
            if let Err(wrong) = http1::check(data.as_bytes()) {
                return Err(TestCaseError::fail(format!("{data:?}: {wrong}")));
            }
        }
    }
}

#[test]
fn linkerds_messages_are_policies_or_are_refused() {
    replay("compat");
}

#[test]
fn answers_about_destinations_are_taken_whole_or_not_at_all() {
    replay("destination");
}

#[test]
fn native_updates_are_applied_whole_or_not_at_all() {
    replay("native");
}

#[test]
fn any_bytes_are_objects_or_complaints() {
    replay("manifest");
}

#[test]
fn any_bytes_are_imported_or_refused() {
    replay("import");
}

/// The hard files that the parser's own tests keep.
#[test]
fn hard_manifests_are_objects_or_complaints() {
    replay_and_change(&inputs(&folder("crds/tests/seeds")), manifest::check);
}

#[test]
fn canonical_targets_are_canonical_and_are_what_is_forwarded() {
    replay("target");
}

#[test]
fn both_evaluators_decide_alike() {
    replay("agreement");
}

#[test]
fn no_request_is_called_something_else_in_whatever_pieces_it_comes() {
    replay("detection");
}

#[test]
fn a_stream_of_updates_says_in_pieces_what_it_says_as_a_whole() {
    replay("stream");
}

#[test]
fn what_a_tree_answers_was_handed_down_and_less_permits_no_more() {
    replay("trees");
}

#[test]
fn nothing_reaches_the_application_that_was_not_judged_as_it_arrives() {
    replay("sidecar");
}

/// Not changed at random: each takes megabytes through the sidecar.
#[test]
fn the_largest_heads_are_forwarded_whole_or_refused() {
    for (name, data) in inputs(&corpus("large")) {
        large::check(&data).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}

#[test]
fn many_lines_without_a_cookie_reach_the_application_as_one() {
    let data = fs::read(corpus("large").join("http1-empty-crumbs")).unwrap();
    let carried = large::carry(&data).unwrap();
    let answer = carried.answer.to_ascii_lowercase();
    let lines = answer.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"cookie:"));
    assert_eq!((carried.forwarded, lines.collect::<Vec<_>>()), (1, vec![&b"cookie: \r"[..]]));
}

/// The checks of `sidecar` and `large` say nothing of connections on which nothing is forwarded.
#[test]
fn requests_of_both_versions_reach_the_application() {
    for (name, forwarded) in FORWARDED {
        let data = fs::read(corpus("sidecar").join(name)).unwrap();
        let carry = || sidecar::carry(&data).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        // On a machine that is busy a client may take the silence for the end.
        let tries = || (0..TRIES).map(|_| carry());
        let carried = tries().find(|carried| carried.forwarded >= forwarded).unwrap_or_else(carry);
        assert_eq!(carried.forwarded, forwarded, "{name}: {}", carried.answer.escape_ascii());
    }
}

const TRIES: usize = 8;

/// Number of permitted requests in each input of `sidecar`.
const FORWARDED: [(&str, usize); 9] = [
    ("http1-open", 1),
    ("http1-closed", 0),
    ("http1-pipelined", 3),
    ("http1-chunked", 1),
    ("http1-roles", 2),
    ("http2-open", 1),
    ("http2-several", 2),
    ("http2-body", 1),
    // Behind a frame on an idle stream, with which the connection ends.
    ("http2-idle-data", 0),
];

/// Each target has its program, its check and its corpus.
#[test]
fn every_target_is_replayed() {
    let programs = inputs(&folder("tests/fuzz/fuzz_targets"));
    let programs: Vec<_> = programs
        .iter()
        .map(|(path, _)| Path::new(path).file_stem().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(programs, TARGETS.map(|(name, _)| name));
    let this = include_str!("corpus.rs");
    for (name, _) in TARGETS {
        assert!(corpus(name).is_dir(), "{name} has no corpus");
        let replayed =
            ["replay(", "corpus("].iter().any(|f| this.contains(&format!("{f}\"{name}\")")));
        assert!(replayed, "{name} is not replayed");
    }
}
