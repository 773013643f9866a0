//! The data of `tests/servers` is whole, and is what the servers of this machine say.

use policy_tests::cluster::{say, skip};
use policy_tests::servers::{Answer, Form, characters, first_lines};
use policy_tests::sources::root;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const SERVERS: [&str; 6] = ["go", "hyper", "nginx", "node", "python", "tomcat"];

#[test]
fn the_data_is_what_the_installed_servers_say() {
    let Ok(checked) = Command::new("python3")
        .arg(root().join("tests/servers/record"))
        .args(["--check", "--hyper", env!("CARGO_BIN_EXE_hyper-under-test")])
        .output()
    else {
        return skip("it needs python3");
    };
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{said}{}", String::from_utf8_lossy(&checked.stderr));
    for line in said.lines() {
        if let Some(why) = line.strip_prefix("NOT COMPARED ") {
            say(&format!("SKIPPED the comparison of tests/servers with {why}"));
        }
    }
    // This repository builds it: another release of hyper is recorded in the change that brings it.
    let hyper = said.lines().any(|line| line.starts_with("compared hyper "));
    assert!(hyper, "hyper was not compared: record anew\n{said}");
}

/// Either a handler ran, or it is said how the server refused.
#[track_caller]
fn check_answers(answers: &BTreeMap<String, Answer>, input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let names: BTreeSet<_> = answers.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(SERVERS), "{input}");
    for (server, answer) in answers {
        let said = [answer.status.is_some(), answer.bare, answer.closed, answer.silent];
        let ways = said.into_iter().filter(|way| *way).count();
        assert_eq!(ways, 1, "{server}, {input}: {answer:?}");
        assert!(!(answer.routed() && (answer.closed || answer.silent)), "{server}, {input}");
    }
}

#[test]
fn every_server_answered_every_input() {
    for line in first_lines().unwrap() {
        check_answers(&line.answers, &line.bytes);
    }
    for character in characters().unwrap() {
        check_answers(&character.answers, &character.target);
    }
}

#[test]
fn an_ordinary_request_is_routed_by_all_and_a_banner_by_none() {
    let lines = first_lines().unwrap();
    let find = |bytes: &[u8]| lines.iter().find(|line| line.bytes == bytes).unwrap();
    let ordinary = find(b"GET /admin HTTP/1.1\r\n");
    assert_eq!(ordinary.routed_by(), SERVERS);
    assert!(ordinary.answers.values().all(|answer| answer.reads_as(b"/admin")), "{ordinary:?}");
    assert_eq!(ordinary.sent(), b"GET /admin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(find(b"SSH-2.0-OpenSSH_9.2\r\n").routed_by().is_empty());
    // Why the length of a method tells nothing.
    let long = [&[b'A'; 33][..], b" /admin HTTP/1.1\r\n"].concat();
    assert_eq!(find(&long).routed_by(), ["go", "hyper", "nginx", "python", "tomcat"]);
}

#[test]
fn every_printable_character_was_sent_raw_and_encoded() {
    let rows = characters().unwrap();
    for byte in 0x21..=0x7e {
        for form in [Form::Raw, Form::Encoded] {
            let row = rows.iter().find(|row| row.byte == Some(byte) && row.form == form);
            assert!(row.is_some(), "{form:?} of {:?}", char::from(byte));
        }
    }
    let colon = rows.iter().find(|row| row.target == b"/admin%3Ax").unwrap();
    assert_eq!(colon.read_as(b"/admin:x"), SERVERS, "{colon:?}");
}
