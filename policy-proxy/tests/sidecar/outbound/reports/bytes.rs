//! Further reports of protocols other than HTTP, on a port that says nothing about its protocol.

use super::*;

/// A client that speaks first, with what it says and what it is answered, and both once more.
fn talks<'a>(
    name: &'a str,
    client: &'static [u8],
    last: &'static str,
    server: &'static [u8],
) -> Case<'a> {
    (
        name,
        vec![Send(client), Until("!"), Send(client), Until("!"), Close],
        vec![vec![Until(last), Send(server), Send(b"!"), Until(last), Send(b"!"), Rest]],
    )
}

/// An application that speaks first.
fn greets<'a>(
    name: &'a str,
    greeting: &'static [u8],
    end: &'static str,
    client: &'static [u8],
    last: &'static str,
) -> Case<'a> {
    (
        name,
        vec![Until(end), Send(client), Until("!"), Close],
        vec![vec![Send(greeting), Until(last), Send(b"!"), Rest]],
    )
}

#[tokio::test]
async fn brokers_and_stores_are_talked_to() {
    all_same(vec![
        talks("amqp", b"AMQP\0\0\x09\x01", "\x09\x01", b"\x01\0\0"),
        talks("mqtt", b"\x10\x0c\0\x04MQTT\x04\x02\0<\0\0", "\0\0", b" \x02\0\0"),
        talks("kafka", b"\0\0\0\x0c\0\x12\0\0\0\0\0\x01\0\x02ab", "ab", b"\0\0\0\x04"),
        talks("postgres asks for tls", b"\0\0\0\x08\x04\xd2\x16\x2f", "/", b"N"),
        talks("cassandra", b"\x04\0\0\0\x05\0\0\0\0", "\x05\0\0\0\0", b"\x84"),
        talks("zookeeper", b"ruok", "ruok", b"imok"),
        talks("zookeeper, mntr", b"mntr", "mntr", b"zk_version\t3\n"),
        talks("a word and another", b"AUTH secret", "secret", b"OK"),
        talks("beanstalkd", b"put 0 0 60 5\r\nhello\r\n", "hello\r\n", b"INSERTED 1\r\n"),
        talks("memcached, binary", b"\x80\x0b\0\0\0\0\0\0\0\0\0\0", "\0\0\0\0\0\0", b"\x81"),
        talks("memcached, gets", b"gets key1 key2\r\n", "key2\r\n", b"END\r\n"),
        talks("redis, hello", b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "3\r\n", b"%1\r\n"),
        talks("redis, inline", b"SET a b\r\n", "b\r\n", b"+OK\r\n"),
        talks("thrift", b"\x80\x01\0\x01\0\0\0\x04ping", "ping", b"\x80\x01"),
        talks("oracle", b"\0:\0\0\x01\0\0\0", "\x01\0\0\0", b"\0\x08"),
        talks("mssql", b"\x12\x01\0\x2f\0\0\x01\0", "\x01\0", b"\x04\x01"),
        talks("elasticsearch", b"ES\0\0\0\x02", "\x02", b"ES"),
        talks("java rmi", b"JRMI\0\x02K", "K", b"N"),
        talks("jdwp", b"JDWP-Handshake", "shake", b"JDWP-Handshake"),
        talks("gearman", b"\0REQ\0\0\0\x10\0\0\0\0", "\x10\0\0\0\0", b"\0RES"),
    ])
    .await;
}

#[tokio::test]
async fn protocols_of_lines_are_talked_to() {
    all_same(vec![
        talks(
            "sip, options",
            b"OPTIONS sip:a@b SIP/2.0\r\nVia: SIP/2.0/TCP c\r\n\r\n",
            "c\r\n\r\n",
            b"SIP/2.0 200 OK\r\n\r\n",
        ),
        talks(
            "sip, register",
            b"REGISTER sip:b SIP/2.0\r\nVia: SIP/2.0/TCP c\r\n\r\n",
            "c\r\n\r\n",
            b"SIP/2.0 200 OK\r\n\r\n",
        ),
        talks("syslog", b"<34>1 2026-10-11T22:14:15Z h app - - - a\n", "a\n", b""),
        talks("graphite", b"servers.a.load 1.5 1700000000\n", "00\n", b""),
        talks("statsd", b"a.b:1|c\n", "|c\n", b""),
        talks("influx", b"cpu,host=a value=1 1700000000\n", "00\n", b""),
        talks("gelf", b"{\"version\":\"1.1\",\"host\":\"a\"}\0", "\0", b""),
        talks("fluentd", b"\x93\xa1a\xcejson", "json", b""),
        talks("finger", b"user\r\n", "user\r\n", b"a\r\n"),
        talks("whois", b"example.com\r\n", "com\r\n", b"a\r\n"),
        talks("gopher", b"/\r\n", "/\r\n", b"i\r\n"),
        talks("git", b"0032git-upload-pack /a.git\0host=a\0", "=a\0", b"0000"),
        talks("modbus", b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x01", "\x01\x03\0\0\0\x01", b"\0\x01"),
        talks(
            "dns",
            b"\0\x1d\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01",
            "a\0\0\x01\0\x01",
            b"\0",
        ),
        talks("ldap", b"0\x0c\x02\x01\x01`\x07\x02\x01\x03\x04\0\x80\0", "`\x07\x02", b"0\x0c"),
        talks(
            "stratum",
            b"{\"id\":1,\"method\":\"mining.subscribe\",\"params\":[]}\n",
            "}\n",
            b"{}\n",
        ),
        talks("xmpp", b"<?xml version='1.0'?><stream:stream to='a'>", "'a'>", b"<a/>"),
        talks("fix", b"8=FIX.4.4\x019=5\x0135=0\x01", "35=0\x01", b"8=FIX.4.4\x01"),
    ])
    .await;
}

#[tokio::test]
async fn applications_that_greet_are_heard_first() {
    all_same(vec![
        greets("ssh", b"SSH-2.0-x\r\n", "x\r\n", b"SSH-2.0-y\r\n", "y\r\n"),
        greets("ftp", b"220 a\r\n", "a\r\n", b"USER b\r\n", "b\r\n"),
        greets("pop3", b"+OK a\r\n", "a\r\n", b"USER b\r\n", "b\r\n"),
        greets("imap", b"* OK a\r\n", "a\r\n", b"a1 LOGIN b c\r\n", "c\r\n"),
        greets("vnc", b"RFB 003.008\n", "8\n", b"RFB 003.008\n", "8\n"),
        greets("rsync", b"@RSYNCD: 31.0\n", "0\n", b"@RSYNCD: 31.0\na\n", "a\n"),
        greets("nntp", b"200 a\r\n", "a\r\n", b"MODE READER\r\n", "READER\r\n"),
        greets(
            "asterisk",
            b"Asterisk Call Manager/5.0\r\n",
            "\r\n",
            b"Action: Login\r\n\r\n",
            "Login\r\n\r\n",
        ),
        (
            "both at once",
            vec![Send(b"SSH-2.0-y\r\n"), Until("x\r\n"), Send(b"more"), Until("!"), Close],
            vec![vec![Send(b"SSH-2.0-x\r\n"), Until("more"), Send(b"!"), Rest]],
        ),
    ])
    .await;
}

#[tokio::test]
async fn bytes_end_as_their_sides_end_them() {
    let much = bytes(&[&[7; 3_000_000], b"end"]);
    all_same(vec![
        (
            "sent and closed",
            vec![Send(b"\x01log line\n"), Close],
            vec![vec![Until("line\n"), Rest]],
        ),
        (
            "much, sent and closed",
            vec![Send(much), Half, Rest],
            vec![vec![Until("end"), Rest, Close]],
        ),
        (
            "asked by an end",
            vec![Send(b"\x01a"), Half, Until("answer"), Rest],
            vec![vec![Rest, Send(b"answer"), Close]],
        ),
        (
            "the application's end first, the client goes on",
            vec![Send(b"\x01a"), Rest, Send(b"more"), Close],
            vec![vec![Until("a"), Half, Until("more"), Rest]],
        ),
        (
            "a farewell and a close",
            vec![Send(b"\x01a"), Rest],
            vec![vec![Until("a"), Send(b"bye"), Close]],
        ),
        (
            "much, and a close",
            vec![Send(b"\x01a"), Rest],
            vec![vec![Until("a"), Send(much), Close]],
        ),
        (
            "tls, an alert",
            vec![Send(b"\x16\x03\x01\0\x04abcd"), Rest],
            vec![vec![Until("abcd"), Send(b"\x15\x03\x01\0\x02\x02\x28"), Close]],
        ),
        (
            "tls in pieces",
            vec![
                Send(b"\x16"),
                Quiet(30),
                Send(b"\x03\x01\0"),
                Quiet(30),
                Send(b"\x04ab"),
                Quiet(30),
                Send(b"cd"),
                Until("x"),
                Close,
            ],
            vec![vec![Until("abcd"), Send(b"x"), Rest]],
        ),
        (
            "silence, then an end",
            vec![Send(b"\x01a"), Quiet(600), Send(b"b"), Until("c"), Close],
            vec![vec![Until("a"), Until("b"), Send(b"c"), Rest]],
        ),
    ])
    .await;
}

/// Bytes that are carried because they are unlikely to become HTTP are looked at as they go on.
#[tokio::test]
async fn a_word_that_becomes_a_request_ends_the_connection_before_the_application_has_the_request()
{
    let client = [Send(b"foo"), Quiet(200), Send(b" /x HTTP/1.1\r\nHost: a\r\n\r\n"), Rest];
    let script: &[Step] = &[Until("foo"), Rest];
    for way in [Way::Inbound, Way::BothHalves] {
        let (_, application) = observed(way, &client, &[script]).await;
        assert_eq!(application[0][0], "foo", "{way:?}");
        assert!(!application[0][1].contains('/'), "{way:?}: {application:?}");
    }
}

/// A line that an application may read as HTTP/0.9, and that a client may end without an end of line.
const HALF_A_REQUEST: &[u8] = b"FOO /admin";

#[tokio::test]
async fn a_request_line_in_pieces_and_without_an_end_never_reaches_the_application() {
    let mut scripts: Vec<Vec<Step>> = (1..=4)
        .map(|at| HALF_A_REQUEST.split_at(at))
        .map(|(word, rest)| vec![Send(word), Quiet(70), Send(rest), Quiet(70), Half, Rest])
        .collect();
    let slowly = HALF_A_REQUEST.chunks(1).flat_map(|byte| [Send(byte), Quiet(70)]);
    scripts.push(slowly.chain([Half, Rest]).collect());
    let all = scripts.iter().map(async |client| {
        let (_, application) = observed(Way::Inbound, client, &[&[Rest]]).await;
        assert!(!application.concat().concat().contains('/'), "{client:?}: {application:?}");
    });
    futures_util::future::join_all(all).await;
}
