//! Real clients and real applications: each client runs its cases directly, through the inbound half, and
//! through both halves in mesh TLS. What it observes is the same. The programs are in `tests/traffic`.

use super::traffic::{Way, path};
use super::*;
use policy_testkit::skip;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The observations of a client, by case.
type Observed = BTreeMap<String, String>;

/// The folder of the programs.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/traffic")
}

/// Builds a program of Go; `None`: something is missing.
fn go(what: &str) -> Option<Command> {
    let name = format!("traffic-{}", what.replace('/', "-"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg(".").current_dir(folder().join(what));
    let Ok(built) = build.output() else {
        skip("go");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(Command::new(program))
}

/// The commands of a client or an application in each language; `None`: something is missing.
fn commands(what: &str) -> Option<Vec<(&'static str, Command)>> {
    let mut commands = vec![("go", go(what)?)];
    for (program, file) in [("node", format!("{what}.mjs")), ("python3", format!("{what}.py"))] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(program);
            return None;
        }
        let mut command = Command::new(program);
        command.arg(folder().join(file));
        commands.push((program, command));
    }
    Some(commands)
}

/// The commands of a client or an application of gRPC in each language; `None`: something is missing.
fn grpc(what: &str) -> Option<Vec<(&'static str, Command)>> {
    let Some(python) = std::env::var_os("PORTCULLIS_PYTHON") else {
        skip("Python with grpcio (make python, PORTCULLIS_PYTHON)");
        return None;
    };
    let mut command = Command::new(python);
    command.arg(folder().join(format!("grpc/{what}.py")));
    Some(vec![("go", go(&format!("grpc/{what}"))?), ("python", command)])
}

/// The same command again.
fn again(command: &Command) -> Command {
    let mut same = Command::new(command.get_program());
    same.args(command.get_args());
    same
}

/// An application that runs until it is dropped.
struct Application {
    process: Child,
    address: SocketAddr,
}

impl Application {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], line.trim().parse().unwrap()));
        Self { process, address }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn port(address: SocketAddr) -> String {
    address.port().to_string()
}

fn observed(name: &str, client: &mut Command) -> Observed {
    let output = client.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Arguments of curl, each a case, in front of the address and this path.
const CURL: [(&str, &str); 11] = [
    ("-i", "/fields"),
    ("-i -0", "/echo"),
    ("-i -0 -d body", "/echo"),
    ("-I", "/head"),
    ("-i -d body -H Expect:100-continue", "/echo"),
    ("-i -d body -H Expect:100-continue", "/denied"),
    ("-i -T - -H Transfer-Encoding:chunked", "/echo"),
    ("-i --path-as-is -X OPTIONS --request-target *", "/"),
    ("-i --raw", "/trailers"),
    ("-i -H TE:trailers", "/hints"),
    ("-i", "/cut"),
];

/// The same over HTTP/2, where the application speaks it. An answer that is cut is not among them: its reset may
/// overtake what came before, without a sidecar, too.
const CURL_HTTP2: [(&str, &str); 8] = [
    ("-i", "/fields"),
    ("-i -d body", "/echo"),
    ("-I", "/head"),
    ("-i", "/none/204"),
    ("-i", "/none/304"),
    ("-i", "/trailers"),
    ("-i", "/hints"),
    ("-i -d body", "/denied"),
];

fn curl(address: SocketAddr, cases: &[(&str, &str)], version: &str) -> Observed {
    let run = |(arguments, path): &(&str, &str)| {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--show-error", "--max-time", "20", version])
            .args(arguments.split(' '));
        let output =
            command.arg(format!("http://{address}{path}")).stdin(Stdio::null()).output().unwrap();
        let left = ["date:", "connection:", "keep-alive:", "server:"];
        let text = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        // The version is that of the request, or the application's.
        let text = text.replace('\r', "").replace("http/1.0 ", "http/1.1 ");
        let mut lines: Vec<&str> =
            text.lines().filter(|line| !left.iter().any(|name| line.starts_with(name))).collect();
        // Lines of different names may change places.
        lines.sort_unstable();
        let said = String::from_utf8_lossy(&output.stderr).replace(&address.to_string(), "");
        (format!("{arguments} {path}"), format!("{}\n{} {said}", lines.join("\n"), output.status))
    };
    cases.iter().map(run).collect()
}

/// Everything that the clients observe of an application on one way.
async fn all(
    way: Way,
    (language, application): (&str, &mut Command),
    clients: &[(&'static str, Command)],
) -> Seen {
    let application = Application::start(application);
    let path = path(way, server(detect(), everybody()), application.address).await;
    let mut seen = BTreeMap::from([("curl", curl(path.address, &CURL, "--http1.1"))]);
    if language == "go" {
        seen.insert("curl (HTTP/2)", curl(path.address, &CURL_HTTP2, "--http2-prior-knowledge"));
    }
    for (name, command) in clients {
        seen.insert(name, observed(name, again(command).arg(port(path.address))));
    }
    seen
}

/// Number of further tries of cases that differ.
const TRIES: usize = 2;

/// Everything that clients observed, by client and case.
type Seen = BTreeMap<&'static str, Observed>;

/// The cases in which clients observed in no try what they observed in one without a sidecar, as they were seen
/// last.
fn differences(direct: &[Seen], seen: &[Seen]) -> Vec<String> {
    let mut differ = Vec::new();
    for (client, cases) in seen.last().into_iter().flatten() {
        for (case, last) in cases {
            let is_alike =
                |direct: &Seen| seen.iter().any(|seen| seen[client][case] == direct[client][case]);
            if !direct.iter().any(is_alike) {
                let without = &direct[0][client][case];
                differ.push(format!("{client}, {case}:\n{last}\nwithout:\n{without}"));
            }
        }
    }
    differ
}

#[tokio::test]
async fn real_clients_and_applications_see_what_they_see_without_a_sidecar() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip("curl");
    }
    let (Some(clients), Some(applications)) = (commands("client"), commands("server")) else {
        return;
    };
    let mut differ = Vec::new();
    for (application, mut command) in applications {
        let mut direct = vec![all(Way::Direct, (application, &mut command), &clients).await];
        for way in [Way::Inbound, Way::BothHalves] {
            let mut seen = vec![all(way, (application, &mut command), &clients).await];
            // An application that refuses or cuts a message resets its stream: on a busy machine a client reads
            // what came before or the reset first, without a sidecar, too. Such a case has other tries.
            for _ in 0..TRIES {
                if differences(&direct, &seen).is_empty() {
                    break;
                }
                direct.push(all(Way::Direct, (application, &mut command), &clients).await);
                seen.push(all(way, (application, &mut command), &clients).await);
            }
            let found = differences(&direct, &seen);
            differ.extend(found.iter().map(|found| format!("{application}, {way:?}, {found}")));
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n\n"));
}

/// An application that answers the first request of each connection, and closes the connection when it
/// has the second one: every client that keeps its connection meets the race between its request and
/// the end of an idle connection.
///
/// On a thread of its own, because the test waits for its clients.
fn closing() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let is_whole = |request: &[u8]| {
        request.ends_with(if request.starts_with(b"POST") { b"body" } else { b"\r\n\r\n" })
    };
    let serve = move |mut stream: std::net::TcpStream| {
        for answers in [true, false] {
            let (mut request, mut piece) = (Vec::new(), [0; 512]);
            while !is_whole(&request) {
                let Ok(read @ 1..) = stream.read(&mut piece) else { return };
                request.extend_from_slice(&piece[..read]);
            }
            if answers {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Two requests of curl on one connection.
fn curl_pair(address: SocketAddr, method: &str) -> String {
    let (address, mut command) = (format!("http://{address}/"), Command::new("curl"));
    command.args(["--silent", "--max-time", "20"]);
    for part in 0..2 {
        if method == "POST" {
            command.args(["--data", "body"]);
        }
        command.args(["--write-out", " %{http_code}; ", &address]);
        if part == 0 {
            command.arg("--next");
        }
    }
    let output = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), output.status)
}

#[tokio::test]
async fn a_client_whose_kept_connection_ends_under_its_request_never_gets_an_error_of_the_sidecar()
{
    if Command::new("curl").arg("--version").output().is_err() {
        return skip("curl");
    }
    let Some(mut clients) = commands("race") else { return };
    let mut seen = Vec::new();
    for way in [Way::Direct, Way::Inbound, Way::BothHalves] {
        let application = closing();
        let path = path(way, server(detect(), everybody()), application).await;
        let mut all = BTreeMap::new();
        for (name, command) in &mut clients {
            all.insert(*name, observed(name, again(command).arg(port(path.address))));
        }
        let pair = |method: &str| (method.to_owned(), curl_pair(path.address, method));
        all.insert("curl", ["GET", "POST"].map(pair).into());
        seen.push((way, all));
    }
    for (way, all) in &seen[1..] {
        for (client, cases) in all {
            // Idempotent: sent again by the sidecar, whatever the client's rule is.
            assert_eq!(cases["GET"].matches("ok").count(), 2, "{client}, {way:?}: {cases:?}");
            // Any other: as the application closed it.
            assert_eq!(cases["POST"], seen[0].1[client]["POST"], "{client}, {way:?}");
        }
    }
}

/// Methods that end the application: within a stream, and before any answer.
const DEATHS: [&str; 2] = ["Die", "DieUnanswered"];

#[tokio::test]
async fn calls_of_grpc_end_as_they_end_without_a_sidecar_also_when_the_application_dies() {
    let (Some(clients), Some(applications)) = (grpc("client"), grpc("server")) else { return };
    for (language, application) in &applications {
        for (name, client) in &clients {
            for death in DEATHS {
                let mut seen = Vec::new();
                for way in [Way::Direct, Way::Inbound, Way::BothHalves] {
                    let application = Application::start(&mut again(application));
                    let path = path(way, server(detect(), everybody()), application.address).await;
                    let mut client = again(client);
                    let observed = observed(name, client.args([&port(path.address), death]));
                    seen.push((way, observed));
                }
                for (way, observed) in &seen[1..] {
                    assert_eq!(*observed, seen[0].1, "{name}, {language}, {way:?}");
                }
            }
        }
    }
}
