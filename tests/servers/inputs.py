"""The inputs: first lines that hostile clients send, and targets with characters that servers may decode.

A first line is followed by REST, so that a server which reads a request in it has the whole of one.
"""

REST = b"Host: a\r\n\r\n"
LINE = b"GET /admin HTTP/1.1\r\n"

# What some reader takes for a blank or a line's end: each is tried wherever a blank may be.
BLANKS = [
    *(bytes([byte]) for byte in (0x20, 0x09, 0x0A, 0x0D, 0x0B, 0x0C, 0x1C, 0x1D, 0x1E, 0x1F, 0x85, 0xA0)),
    *(bytes([byte]) for byte in (0x00, 0x01, 0x07, 0x08, 0x7F, 0xFF)),
    b"\r\n",
    *(character.encode() for character in "\u0085\u00a0\u1680\u2000\u2003\u200b\u2028\u2029\u202f\u3000\ufeff"),
]
# Of these also two, and one beside a space.
PLAIN_BLANKS = [bytes([byte]) for byte in (0x20, 0x09, 0x0B, 0x0C, 0x0D, 0x1C, 0x1F, 0x85, 0xA0, 0x00)]

TOKEN = b"!#$%&'*+-.^_`|~"
NO_TOKEN = b'"(),/:;<=>?@[\\]{}\x01\x7f\x80\xa0\xff'


def named(data):
    """A few bytes as the README writes them."""
    names = {0x20: "SP", 0x09: "HT", 0x0A: "LF", 0x0D: "CR", 0x0B: "VT", 0x0C: "FF", 0x00: "NUL"}
    if len(data) > 1 and data[0] >= 0xC2:
        return f"U+{ord(data.decode()):04X}"
    return " ".join(names.get(byte, chr(byte) if 0x21 <= byte <= 0x7E else f"0x{byte:02x}") for byte in data)


def ordinary():
    for method in (
        "GET HEAD POST PUT DELETE PATCH OPTIONS TRACE CONNECT QUERY PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK "
        "SEARCH ACL REPORT M-SEARCH NOTIFY SUBSCRIBE PURGE LINK UNLINK MKCALENDAR SOURCE"
    ).split():
        yield method.encode() + b" /admin HTTP/1.1\r\n", f"method {method}"
    yield b"GET / HTTP/1.1\r\n", "the root"
    yield b"GET /admin HTTP/1.0\r\n", "version 1.0"
    yield b"GET /admin?x=1 HTTP/1.1\r\n", "a query"
    yield b"OPTIONS * HTTP/1.1\r\n", "the target *"
    yield b"CONNECT a:80 HTTP/1.1\r\n", "a target that is an authority"
    yield b"GET http://a/admin HTTP/1.1\r\n", "a target that is a URL"


def method_length():
    for length in (
        *(1, 2, 8, 15, 16, 17, 24, 31, 32, 33, 34, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257),
        *(1000, 2000, 4000, 4096, 8000, 8100, 8192, 9000, 16000),
    ):
        yield b"A" * length + b" /admin HTTP/1.1\r\n", f"a method of {length} letters"
    for length in (32, 33, 64, 200):
        yield b"a" * length + b" /admin HTTP/1.1\r\n", f"a method of {length} small letters"
        yield b"GET".ljust(length, b"T") + b" /admin HTTP/1.1\r\n", f"GET, filled to {length} letters"
        yield b"-" * length + b" /admin HTTP/1.1\r\n", f"a method of {length} hyphens"
    yield b"A" * 33 + b" http://a/admin HTTP/1.1\r\n", "33 letters and a URL"
    yield b"A" * 33 + b" /admin\r\n", "33 letters without a version"
    yield b"A" * 33 + b" admin HTTP/1.1\r\n", "33 letters and no slash"


def method_unknown():
    for method in (
        "FOO foo Foo get Get gET GeT geT post Post head Head delete X x G GE GETX GETGET GET1 1GET 123 0 BREW brew "
        "HTTP HTTP/1.1 PRI STOP METHOD WHEN SSH PROXY GET/admin _ __ G_T G-T GET_ -GET PROP-FIND M_SEARCH "
        "RPC_IN_DATA BASELINE-CONTROL VERSION-CONTROL"
    ).split():
        yield method.encode() + b" /admin HTTP/1.1\r\n", f"method {method}"


def method_character():
    for byte in TOKEN + NO_TOKEN:
        one = bytes([byte])
        yield b"G" + one + b"T /admin HTTP/1.1\r\n", f"{named(one)} in the method"
        yield one + b"GET /admin HTTP/1.1\r\n", f"{named(one)} before the method"
        yield b"GET" + one + b" /admin HTTP/1.1\r\n", f"{named(one)} after the method"
    yield b'"GET" /admin HTTP/1.1\r\n', "the method in quotes"
    yield b"'GET' /admin HTTP/1.1\r\n", "the method in single quotes"
    yield b'"GET /admin HTTP/1.1"\r\n', "the line in quotes"
    yield "GÉT /admin HTTP/1.1\r\n".encode(), "U+00C9 in the method"
    yield "ＧＥＴ /admin HTTP/1.1\r\n".encode(), "full-width letters"
    yield bytes(byte | 0x80 for byte in b"GET") + b" /admin HTTP/1.1\r\n", "letters with the eighth bit"


def leading():
    for blank in BLANKS:
        yield blank + LINE, f"{named(blank)} before the method"
        yield blank * 2 + LINE, f"{named(blank)} twice before the method"
        yield b"\r\n" + blank + LINE, f"an empty line and {named(blank)} before the method"
    for count in (3, 4, 5, 10, 20, 100, 1000):
        yield b"\r\n" * count + LINE, f"{count} empty lines"
        yield b"\n" * count + LINE, f"{count} times LF"
        yield b" " * count + LINE, f"{count} spaces"
    for blank in PLAIN_BLANKS:
        yield blank + b" " + LINE, f"{named(blank)} and SP before the method"
        yield b" " + blank + LINE, f"SP and {named(blank)} before the method"
        yield blank + b"\r\n" + LINE, f"a line of {named(blank)}"
        yield blank + b"GET /admin\r\n", f"{named(blank)} before a line without a version"
        yield blank + b"FOO /admin HTTP/1.1\r\n", f"{named(blank)} before an unknown method"
    yield b"\n\r\n\r" + LINE, "LF CR LF CR before the method"
    yield b"\r\r\n\n" + LINE, "CR CR LF LF before the method"


def separator():
    for blank in BLANKS:
        if blank == b" ":
            continue
        first, second = b"GET", b"/admin"
        yield first + blank + b"/admin HTTP/1.1\r\n", f"{named(blank)} between method and target"
        yield b"GET /admin" + blank + b"HTTP/1.1\r\n", f"{named(blank)} between target and version"
        yield blank.join((first, second, b"HTTP/1.1\r\n")), f"{named(blank)} at both places"
        yield blank.join((b"FOO", second, b"HTTP/1.1\r\n")), f"{named(blank)} at both places, unknown method"
    for blank in PLAIN_BLANKS:
        for pair in {blank * 2: 0, blank + b" ": 0, b" " + blank: 0}:
            yield b"GET" + pair + b"/admin HTTP/1.1\r\n", f"{named(pair)} between method and target"
            yield b"GET /admin" + pair + b"HTTP/1.1\r\n", f"{named(pair)} between target and version"
    yield b"GET" + b" " * 1000 + b"/admin" + b" " * 1000 + b"HTTP/1.1\r\n", "a thousand spaces at both places"
    yield b"GET/admin HTTP/1.1\r\n", "no blank between method and target"
    yield b"GET /adminHTTP/1.1\r\n", "no blank between target and version"
    yield b"GET/adminHTTP/1.1\r\n", "no blank at all"


def trailing():
    for blank in BLANKS:
        yield b"GET /admin HTTP/1.1" + blank + b"\r\n", f"{named(blank)} after the version"
        if blank in PLAIN_BLANKS:
            yield b"GET /admin HTTP/1.1" + blank * 2 + b"\r\n", f"{named(blank)} twice after the version"
            yield b"GET /admin" + blank + b"\r\n", f"{named(blank)} after the target, no version"
    yield b"GET /admin HTTP/1.1 x\r\n", "a word after the version"
    yield b"GET /admin HTTP/1.1 HTTP/1.1\r\n", "the version twice"
    yield b"GET /admin x HTTP/1.1\r\n", "a word before the version"


def version():
    for text in (
        "HTTP/ HTTP/1 HTTP/1. HTTP/.1 HTTP/1.2 HTTP/1.9 HTTP/1.10 HTTP/1.11 HTTP/1.01 HTTP/01.1 HTTP/10.1 HTTP/11.1 "
        "HTTP/0.9 HTTP/0.0 HTTP/2 HTTP/2.0 HTTP/3 HTTP/3.0 HTTP/9.9 HTTP/1.1.1 HTTP/-1.1 HTTP/+1.1 HTTP/1.-1 HTTP/1_1.1 "
        "HTTP/1.1x HTTP/1.x HTTP/x.y HTTP/1,1 HTTP/A.B HTTP//1.1 HTTP1.1 HTTP-1.1 HTTP:1.1 HTTP\\1.1 HTTP http/1.1 "
        "Http/1.1 hTTP/1.1 HTTP/1.1; HTTP/1.1, \"HTTP/1.1\" XHTTP/1.1 HTTPS/1.1 HTTPX/1.1 HTTP/1.1HTTP/1.1 HTCPCP/1.0 "
        "HTCPCP-TEA/1.0 RTSP/1.0 SIP/2.0 ICAP/1.0 SHTTP/1.3 ICY/1.0 SSDP/1.1 FTP/1.1 X/1.1 1.1 1 x HTTP/1.1\0 HTTP/1\x001 "
        "HTTP/\u0661.\u0661 \uff28\uff34\uff34\uff30/1.1"
    ).split(" "):
        yield b"GET /admin " + text.encode() + b"\r\n", f"version {text}".encode("ascii", "backslashreplace").decode()
    for text in ("HTTP/+1.1", "HTTP/-1.1", "HTTP/+0.9", "HTTP/x", "HTTP/"):
        yield b"FOO /admin " + text.encode() + b"\r\n", f"an unknown method and version {text}"
        yield b"\0\x01 /admin " + text.encode() + b"\r\n", f"binary bytes and version {text}"
    yield b"GET\n/admin HTTP/1.1\r\n", "LF between the method and the target"
    yield b"FOO\n/admin\nHTTP/1.1\r\n", "LF between all parts"
    yield b"X\nY /admin HTTP/1.1\r\n", "LF within the method"
    yield b"GET /admin HTTP/ 1.1\r\n", "a space within the version"
    yield b"GET /admin HTTP /1.1\r\n", "a space before the version's slash"
    yield b"GET /admin HTTP/1. 1\r\n", "a space within the number"
    yield b"GET /admin HTTP/1 .1\r\n", "a space before the dot"
    yield b"GET /admin HTTP/\t1.1\r\n", "HT within the version"
    yield b"GET /admin HTTP/1.1/2\r\n", "a slash after the version"
    yield b"GET /admin HTTP/" + b"0" * 100 + b"1.1\r\n", "a hundred zeros"
    yield b"GET /admin HTTP/1." + b"1" * 100 + b"\r\n", "a hundred digits"
    yield b"FOO /admin HTCPCP/1.0\r\n", "an unknown method and another protocol"
    yield b"GET /admin H\r\n", "H"
    yield b"GET /admin \r\n", "a blank and no version"


def no_version():
    for text in (
        "GET /admin|get /admin|Get /admin|POST /admin|HEAD /admin|PUT /admin|DELETE /admin|FOO /admin|foo /admin|"
        "GET admin|GET http://a/admin|GET *|GET  /admin|GET\t/admin| GET /admin|\x0cGET\x0c/admin|GET\x1c/admin|GET|GET |GET /|"
        "GET /admin?x|GET //admin|/admin|admin|GET/admin|GET key|GET 1|GET :a|SET /admin x|G /admin|PRI *|CONNECT a:80"
    ).split("|"):
        yield text.encode() + b"\r\n", "no version"
    for method in (
        "ACL ANNOUNCE BIND CHECKOUT COPY DESCRIBE FLUSH GET_PARAMETER LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL "
        "MKREDIRECTREF MOVE NOTIFY OPTIONS ORDERPATCH PATCH PAUSE PLAY PROPFIND PROPPATCH PURGE QUERY REBIND RECORD "
        "REDIRECT REPORT SEARCH SET_PARAMETER SETUP SOURCE SUBSCRIBE TEARDOWN TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE "
        "UPDATEREDIRECTREF"
    ).split(" "):
        yield method.encode() + b" /admin\r\n", "a known method and no version"
    yield b"GET /admin\n", "no version, and LF alone"
    yield b"GET /admin\r\n\r\n", "no version and an empty line"
    yield b"GET\xa0/admin\r\n", "no version, and 0xa0 for a blank"
    yield b"GET\x85/admin\r\n", "no version, and 0x85 for a blank"
    yield b"GET /" + b"a" * 9000 + b"\r\n", "no version and a long target"


def target():
    for text in (
        "|admin|?|?x|#|#x|/admin#x|/admin?x#y|*|**|*/admin|\\admin|\\\\a\\admin|//admin|///admin|a:80|:80|a:80/admin|.|..|"
        "./admin|../admin|%2Fadmin|;/admin|@/admin|http://a/admin|HTTP://a/admin|https://a/admin|ftp://a/admin|"
        "ws://a/admin|x://a/admin|http:/admin|http:admin|http://|http:///admin|http://a|http://a?x|http://a:80/admin|"
        "http://u@a/admin|http://b/admin|://a/admin|/admin\"|\"/admin\"|'/admin'|</admin>|[/admin]|{/admin}|"
        "/admin\x01|/admin\x7f|1|-|=|&|~/admin|javascript:x|file:///admin|urn:a|unix:/admin|[::1]:80|http://[::1]/admin|"
        "GET|HTTP/1.1"
    ).split("|"):
        yield b"GET " + text.encode() + b" HTTP/1.1\r\n", f"target {text!r}" if text else "no target, two blanks"
    yield b"GET HTTP/1.1\r\n", "no target"
    yield b"GET / admin HTTP/1.1\r\n", "a space in the target"
    yield b"GET /a b c HTTP/1.1\r\n", "several words"
    yield b"GET a b c HTTP/1.1\r\n", "several words without a slash"
    yield b"GET /a HTTP/1.1 /b HTTP/1.1\r\n", "a version within the line"
    yield b"GET /admin\xff HTTP/1.1\r\n", "0xff in the target"
    yield b"GET \xff/admin HTTP/1.1\r\n", "0xff before the target"
    yield "GET /é HTTP/1.1\r\n".encode(), "U+00E9 in the target"
    yield b"GET /\xe9 HTTP/1.1\r\n", "0xe9 in the target"
    yield b"FOO admin HTTP/1.1\r\n", "an unknown method and no slash"
    yield b"FOO http://a/admin HTTP/1.1\r\n", "an unknown method and a URL"
    yield b"FOO * HTTP/1.1\r\n", "an unknown method and *"
    yield b"CONNECT /admin HTTP/1.1\r\n", "CONNECT with a path"
    yield b"CONNECT http://a/admin HTTP/1.1\r\n", "CONNECT with a URL"
    for length in (4000, 8000, 8180, 9000, 16000, 33000):
        yield b"GET /" + b"a" * length + b" HTTP/1.1\r\n", f"a target of {length + 1} bytes"


def line_end():
    for end in (
        *(b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r \n", b" \r\n", b" \n", b"\n\n", b"\0\r\n", b"\0\n"),
        *(b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\x85", b"\xa0", "\u2028".encode(), b";", b""),
    ):
        yield b"GET /admin HTTP/1.1" + end, f"{named(end) if end else 'nothing'} ends the line"
    yield b"GET /admin HTTP/1.1\nHost: a\n\n", "LF ends every line"
    yield b"GET /admin HTTP/1.1\rHost: a\r\r", "CR ends every line"
    yield b"GET /admin HTTP/1.0\r\r", "CR ends a head without headers"
    yield b"GET /admin HTTP/1.1\r\n\r\n", "no header"
    yield b"GET /admin HTTP/1.0\r\n\r\n", "no header, version 1.0"
    yield b"GET /admin HTTP/1.0\n\n", "no header, LF"
    yield b"GET /admin HTTP/1.1\r\n Host: a\r\n", "the first header begins with a blank"
    yield b"GET /admin\r\n HTTP/1.1\r\n", "the version on a folded line"
    yield b"GET\r\n /admin HTTP/1.1\r\n", "the target on a folded line"
    yield b"GET\r\n/admin HTTP/1.1\r\n", "a line's end for the first blank"
    yield b"GET /admin\r\nHTTP/1.1\r\n", "a line's end for the second blank"
    yield b"GET \\\r\n/admin HTTP/1.1\r\n", "a continued line"


def line_before():
    for text in (
        b"hello", b"# comment", b"// comment", b"/* comment */", b"\0", b" ", b"\t", b".", b"GET", b"X: y", b"Host: b",
        b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"\xef\xbb\xbf", b"--", b"0", b"\x0c", b"\x1b[0m", b"HELO a",
        b"EHLO a", b"QUIT", b"PING", b"<x>", b"{}", b"SSH-2.0-x", b"\xff\xfe", b"STARTTLS", b"OPTIONS", b"FOO",
        b"FOO /x", b"GET /x", b"FOO bar baz", b"CONNECT a:80", b"GET /x HTTP/0.9", b"FOO /x HTTP/9.9",
    ):
        yield text + b"\r\n" + LINE, "a line before the request line"
    yield b"hello\n" + LINE, "a line before the request line, LF"
    yield b"hello\r\n\r\n" + LINE, "a line and an empty one before the request line"
    yield b"hello\n\n" + LINE, "a line and an empty one before the request line, LF"
    yield b"\0" * 4 + b"\r\n\r\n" + LINE, "zeros and an empty line"
    yield b"x" * 9000 + b"\r\n" + LINE, "a long line before the request line"


SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def proxy_header():
    for text in (
        b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2", b"PROXY TCP6 ::1 ::1 1 2", b"PROXY UNKNOWN", b"PROXY UNKNOWN x",
        b"proxy TCP4 1.1.1.1 2.2.2.2 1 2", b"PROXY", b"PROXY TCP4", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 HTTP/1.1",
        b"PROXY  TCP4 1.1.1.1 2.2.2.2 1 2", b" PROXY TCP4 1.1.1.1 2.2.2.2 1 2",
    ):
        yield text + b"\r\n" + LINE, "version 1"
    yield b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n" + LINE, "version 1, LF"
    addresses = bytes([1, 1, 1, 1, 2, 2, 2, 2, 0, 1, 0, 2])
    yield SIGNATURE + b"\x21\x11\0\x0c" + addresses + LINE, "version 2, TCP over IPv4"
    yield SIGNATURE + b"\x21\x21\0\x24" + b"\1" * 36 + LINE, "version 2, TCP over IPv6"
    yield SIGNATURE + b"\x20\0\0\0" + LINE, "version 2, LOCAL"
    yield SIGNATURE + b"\x21\0\0\0" + LINE, "version 2, no addresses"
    yield SIGNATURE + b"\x21\x11\0\x10" + addresses + b"\x04\0\x01\n" + LINE, "version 2 with a field that ends in LF"
    yield SIGNATURE + LINE, "the signature of version 2 alone"
    yield SIGNATURE[:12] + b"\x11\x11\0\x0c" + addresses + LINE, "the signature with version 1"


def http2():
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield preface, "the preface"
    yield preface + b"\0\0\0\4\0\0\0\0\0", "the preface and SETTINGS"
    yield b"PRI * HTTP/2.0\r\n", "the preface's first line"
    yield b"PRI * HTTP/2.0\r\n\r\n", "the preface without its end"
    yield b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "the preface with another end"
    yield b"PRI * HTTP/2.0\r\n\r\n" + LINE, "the preface's head and a request"
    yield preface + LINE, "the preface and a request"
    yield preface.lower(), "the preface in small letters"
    yield preface.replace(b"\r\n", b"\n"), "the preface with LF"
    yield b"\r\n" + preface, "an empty line before the preface"
    yield b" " + preface, "a blank before the preface"
    yield b"PRI * HTTP/1.1\r\n", "the preface's method with version 1.1"
    yield b"PRI * HTTP/2.0 \r\n", "a blank after the version"
    yield b"PRI /admin HTTP/2.0\r\n", "a path in the preface"
    yield b"PRI /admin HTTP/1.1\r\n", "PRI as an ordinary method"
    yield b"PRI  * HTTP/2.0\r\n\r\nSM\r\n\r\n", "two blanks in the preface"
    yield b"GET * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET in the preface"
    yield b"PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n", "version 3.0 in the preface"


def binary_prefix():
    for count in range(1, 17):
        for byte in (0x00, 0x80, 0xFF):
            yield bytes([byte]) * count + LINE, f"{count} times 0x{byte:02x}"
        yield bytes(range(1, count + 1)) + LINE, f"the bytes 1 to {count}"
        yield bytes(range(1, count + 1)) + b"\r\n" + LINE, f"the bytes 1 to {count} and a line's end"
    yield b"\x16\x03\x01\x00\xc8" + LINE, "the header of a TLS record"
    yield (len(LINE) + len(REST)).to_bytes(4, "big") + LINE, "the length in four bytes"
    yield (len(LINE) + len(REST)).to_bytes(2, "big") + LINE, "the length in two bytes"
    yield b"\x1f\x8b\x08\0\0\0\0\0" + LINE, "the header of gzip"
    yield "GET /admin HTTP/1.1\r\n".encode("utf-16-le"), "UTF-16, little end first"
    yield "\ufeffGET /admin HTTP/1.1\r\n".encode("utf-16-le"), "UTF-16 with a mark, little end first"
    yield "GET /admin HTTP/1.1\r\n".encode("utf-16-be"), "UTF-16, big end first"
    yield "GET /admin HTTP/1.1\r\n".encode("cp500"), "EBCDIC"
    yield b"+AEc-ET /admin HTTP/1.1\r\n", "UTF-7"


def protocol():
    yield from protocols_of_text()
    yield from protocols_of_bytes()


def protocols_of_text():
    for name, text in (
        ("SMTP", b"EHLO mail.example\r\n"), ("SMTP", b"HELO a\r\n"), ("LMTP", b"LHLO a\r\n"),
        ("POP3", b"USER a\r\n"), ("POP3", b"CAPA\r\n"), ("IMAP", b"a001 LOGIN a b\r\n"), ("IMAP", b"* OK ready\r\n"),
        ("FTP", b"USER anonymous\r\n"), ("FTP", b"HOST a\r\n"), ("FTP", b"DELE /admin\r\n"), ("NNTP", b"MODE READER\r\n"),
        ("IRC", b"NICK a\r\nUSER a 0 * :a\r\n"), ("IRC", b"PASS a\r\n"), ("IRC", b"CAP LS 302\r\n"),
        ("Redis", b"*1\r\n$4\r\nPING\r\n"), ("Redis", b"*2\r\n$3\r\nGET\r\n$6\r\n/admin\r\n"), ("Redis", b"PING\r\n"),
        ("Redis", b"SET key value\r\n"), ("Redis", b"GET key\r\n"), ("Redis", b"GET /admin\r\n"), ("Redis", b"HELLO 3\r\n"),
        ("Redis", b"SUBSCRIBE channel\r\n"), ("Redis", b"COPY a b\r\n"), ("Redis", b"MOVE /a 1\r\n"),
        ("memcached", b"get key\r\n"), ("memcached", b"GET key\r\n"), ("memcached", b"get /admin\r\n"),
        ("memcached", b"set key 0 0 1\r\nx\r\n"), ("memcached", b"version\r\n"), ("memcached", b"mg key v\r\n"),
        ("memcached", b"delete /admin\r\n"), ("NATS", b'CONNECT {"verbose":false,"pedantic":false}\r\n'),
        ("NATS", b"PUB a 0\r\n\r\n"), ("NATS", b'INFO {"server_id":"a"}\r\n'), ("NSQ", b"  V2"), ("NSQ", b"  V2IDENTIFY\n\0\0\0\2{}"),
        ("STOMP", b"CONNECT\naccept-version:1.2\nhost:a\n\n\0"), ("STOMP", b"STOMP\naccept-version:1.2\nhost:a\n\n\0"),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"), ("VNC", b"RFB 003.008\n"), ("rsync", b"@RSYNCD: 31.0\n"),
        ("git", b"003fgit-upload-pack /project.git\0host=a\0\0version=2\0"), ("Gopher", b"/admin\r\n"), ("finger", b"a\r\n"),
        ("WHOIS", b"example.org\r\n"), ("Gemini", b"gemini://a/admin\r\n"), ("XMPP", b"<?xml version='1.0'?><stream:stream to='a'>"),
        ("SIP", b"REGISTER sip:a SIP/2.0\r\n"), ("SIP", b"OPTIONS sip:a SIP/2.0\r\n"), ("RTSP", b"OPTIONS rtsp://a/m RTSP/1.0\r\n"),
        ("RTSP", b"DESCRIBE rtsp://a/m RTSP/1.0\r\n"), ("RTSP", b"GET_PARAMETER /admin RTSP/1.0\r\n"), ("ICAP", b"OPTIONS icap://a/s ICAP/1.0\r\n"),
        ("ICAP", b"REQMOD icap://a/s ICAP/1.0\r\n"), ("MSRP", b"MSRP a SEND\r\n"), ("syslog", b"<34>1 2003-10-11T22:14:15Z a b - - - c\n"),
        ("syslog", b"40 <34>1 2003-10-11T22:14:15Z a b - - - c"), ("Graphite", b"a.b.c 1 1\n"), ("StatsD", b"a:1|c\n"),
        ("InfluxDB", b"cpu,host=a value=1\n"), ("OpenTSDB", b"put a 1 1 host=a\n"), ("beanstalk", b"put 0 0 60 5\r\nhello\r\n"),
        ("beanstalk", b"stats\r\n"), ("ZooKeeper", b"ruok"), ("JSON-RPC", b'{"jsonrpc":"2.0","method":"a","id":1}\n'),
        ("LSP", b"Content-Length: 2\r\n\r\n{}"), ("SCGI", b"24:CONTENT_LENGTH\x000\0SCGI\x001\0,"), ("BitTorrent", b"\x13BitTorrent protocol"),
        ("ClamAV", b"zPING\0"), ("HAProxy", b"show info\n"), ("X11", b"l\0\x0b\0\0\0\0\0\0\0\0\0"), ("SQL", b"SELECT 1;\n"),
        ("Sentinel", b"AUTH a\r\n"), ("spamd", b"PING SPAMC/1.5\r\n"), ("spamd", b"PROCESS SPAMC/1.5\r\n"), ("RESP", b"+PING\r\n"),
    ):
        yield text, name


def protocols_of_bytes():
    for name, text in (
        ("TLS", b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(range(32)) + b"\0"),
        ("SSL 2", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"), ("PostgreSQL", b"\0\0\0\x08\x04\xd2\x16\x2f"),
        ("PostgreSQL", b"\0\0\0\x10\0\x03\0\0user\0a\0\0"), ("MySQL", b"\x55\0\0\x01\x85\xa6\x3f\x20\0\0\0\1\x21" + b"\0" * 23 + b"root\0"),
        ("TDS", b"\x12\x01\0\x2f\0\0\1\0\0\0\x1a\0\x06\1\0\x20"), ("Oracle", b"\0\x3a\0\0\1\0\0\0\1\x38\1\x2c\0\0\x08\0\x7f\xff"),
        ("MQTT", b"\x10\x12\0\x04MQTT\x04\x02\0\x3c\0\x06client"), ("AMQP 0-9-1", b"AMQP\0\0\x09\1"), ("AMQP 1.0", b"AMQP\0\1\0\0"),
        ("AMQP with SASL", b"AMQP\x03\1\0\0"), ("Kafka", b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4test"),
        ("MongoDB", b"\x3a\0\0\0\1\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x10ismaster\0\1\0\0\0\0"),
        ("Cassandra", b"\x04\0\0\0\1\0\0\0\x16\0\1\0\x0bCQL_VERSION\0\x053.0.0"), ("Thrift", b"\0\0\0\x11\x80\1\0\1\0\0\0\4ping\0\0\0\1\0"),
        ("Thrift", b"\x80\1\0\1\0\0\0\4ping\0\0\0\1\0"), ("ZooKeeper", b"\0\0\0\x2d" + b"\0" * 12 + b"\0\0\x75\x30" + b"\0" * 8 + b"\0\0\0\x10" + b"\0" * 17),
        ("LDAP", b"0\x0c\x02\1\1`\x07\x02\1\x03\x04\0\x80\0"), ("DNS", b"\0\x1d\x12\x34\1\0\0\1\0\0\0\0\0\0\x07example\x03org\0\0\1\0\1"),
        ("Telnet", b"\xff\xfd\x18\xff\xfd\x20"), ("memcached", b"\x80\x0b" + b"\0" * 22), ("SOCKS 4", b"\x04\1\0\x50\x7f\0\0\1a\0"),
        ("SOCKS 5", b"\x05\1\0"), ("RDP", b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\1\0\x08\0\x03\0\0\0"), ("SMB", b"\0\0\0\x45\xffSMB\x72\0\0\0\0"),
        ("Elasticsearch", b"ES\0\0\0\x06\0\0\0\0\0\0\0\1"), ("Zabbix", b"ZBXD\1\x0d\0\0\0\0\0\0\0agent.version"), ("AJP", b"\x12\x34\0\x01\x0a"),
        ("FastCGI", b"\1\1\0\1\0\x08\0\0\0\1\0\0\0\0\0\0"), ("uwsgi", b"\0\x1a\0\0\x0eREQUEST_METHOD\x03\0GET"), ("Fluentd", b"\x93\xa1a\xce\x5f\0\0\0\x80"),
        ("ClickHouse", b"\0\x11ClickHouse client\x14\x03"), ("Modbus", b"\0\1\0\0\0\6\1\3\0\0\0\1"), ("BGP", b"\xff" * 16 + b"\0\x1d\1\4"),
        ("Java serialization", b"\xac\xed\0\5"), ("RMI", b"JRMI\0\2\x4b"), ("Erlang", b"\0\x15n\0\5\0\3\x49\x9ca@example.org"), ("Hazelcast", b"CP2"),
        ("WebSocket frame", b"\x81\x85\1\2\3\4abcde"), ("gRPC message", b"\0\0\0\0\2\x08\1"), ("Aerospike", b"\2\1\0\0\0\0\0\6build\n"),
    ):
        yield text, name


CLASSES = (
    ordinary, method_length, method_unknown, method_character, leading, separator, trailing, version, no_version,
    target, line_end, line_before, proxy_header, http2, binary_prefix, protocol,
)


def first_lines():
    """Every first line: its class, its bytes, a comment. Sorted by class and bytes."""
    found = {}
    for made in CLASSES:
        for line, comment in made():
            found.setdefault(line, {"class": made.__name__.replace("_", "-"), "bytes": line, "comment": comment})
    return sorted(found.values(), key=lambda row: (row["class"], row["bytes"]))


WRITTEN_TWICE = b":@/\\.%;!? \0~+&=$,'()*#"


def of_bytes():
    for byte in (*range(0x00, 0x80), 0x80, 0x85, 0xA0, 0xC3, 0xE9, 0xFF):
        if byte not in (0x0A, 0x0D, 0x20):
            yield byte, "raw", bytes([byte])
        yield byte, "encoded", b"%%%02X" % byte
        if b"%%%02X" % byte != b"%%%02x" % byte:
            yield byte, "encoded-lower", b"%%%02x" % byte
        if byte in WRITTEN_TWICE:
            yield byte, "encoded-twice", b"%%25%02X" % byte


OTHER_TARGETS = (
    "/admin /admin/ /admin// //admin ///admin /a//admin //a/admin /ADMIN /%61dmin /%41dmin /%61%64%6d%69%6e /%2561dmin "
    "/admin/. /admin/./ /admin/.. /admin/../ /admin/... /./admin /a/./admin /../admin /a/../admin /a/b/../../admin /a/..//admin "
    "/a//../admin /%2e/admin /%2E/admin /%2e%2e/admin /a/%2e%2e/admin /a/%2E%2E/admin /a/.%2e/admin /a/%2e./admin "
    "/a/%252e%252e/admin /a/..%2fadmin /a/..%2Fadmin /a%2f..%2fadmin /a%2F%2E%2E%2Fadmin /a/..%5cadmin /a%5c..%5cadmin /a\\..\\admin "
    "/\\admin \\admin /a\\admin /a%5Cadmin /a%2Fadmin /a%2fadmin /%2Fadmin /%2fadmin /%5Cadmin /admin%2F /admin%2Fx "
    "/admin; /admin;x /admin;x=1 /admin;x=1/b /admin;/b /;x/admin /a;x/../admin /a/..;/admin /a/..;x=1/admin /a/.;/admin /..;/admin "
    "/admin%3B /admin%3Bx=1 /admin%3bx=1/b /a/..%3B/admin /admin%00 /admin%00.html /admin%0A /admin%0d%0a /admin%20 /admin%09 "
    "/admin% /admin%4 /admin%zz /admin%4g /admin%g1 /admin%u0061 /admin%%41 /admin%25 /admin%2541 /admin%252F "
    "/%c0%ae%c0%ae/admin /a/%c0%ae%c0%ae/admin /a%c0%afadmin /%e0%80%afadmin /%ef%bc%8fadmin /a%e2%88%95admin /%ef%bc%a1dmin /%c3%a9 /%C3%A9 "
    "/%e9 /%ff /%f0%9f%98%80 /%ed%a0%80 /admin? /admin?x /admin??x /admin?x=/../b /admin?x#y /admin# /admin#x /admin#?x /admin%3Fx /admin%23x "
    "/admin.html /admin. /admin.. /admin%2E /admin%2Ejson /admin:x /admin:%78 /admin+x /admin%2Bx /a+b /~admin /%7Eadmin /%7eadmin "
    "/v1/a:undelete /v1/a%3Aundelete /v1/a%3aundelete /@a/b /%40a/b /a=b/c /a%3Db/c /a,b /a%2Cb /a'b /a%27b /(a) /%28a%29 /a!b /a%21b /$a /%24a "
    "/a&b /a%26b /a*b /a%2Ab /a|b /a%7Cb /a^b /a%5Eb /a`b /a%60b /{a} /%7Ba%7D /[a] /%5Ba%5D /<a> /%3Ca%3E /a\"b /a%22b "
    "http://a/admin http://a/admin%3Ax http://a/a/../admin http://a//admin http://a http://a?x http://b/admin HTTP://A/admin * admin %2Fadmin"
).split(" ")


def targets():
    """Every target: its bytes, and which byte it has in which spelling. Sorted by these."""
    found = {}
    for byte, form, spelling in of_bytes():
        target = b"/admin" + spelling + b"x"
        found[target] = {"target": target, "byte": byte, "form": form}
    for text in OTHER_TARGETS:
        found.setdefault(text.encode(), {"target": text.encode(), "form": "other"})
    return sorted(found.values(), key=lambda row: (row.get("byte", 256), row["form"], row["target"]))


def request(target):
    """The first line that asks for a target."""
    return b"GET " + target + b" HTTP/1.1\r\n"
