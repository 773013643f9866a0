//! `docs/why.md`, written from the cases.

use super::case::Case;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Why was it refused, and what would allow it?

`portcullis why` answers both for one request or connection, from manifests or from a cluster's objects. The first line has the first cause, with the object, file and line that set it. Then comes the way of the decision: the port and its owner, the route that took the request and the matches that lost against it or that the request misses, each grant with what it asks for beside what the client has, and grants that take no effect. At the end is the least change that would allow it.

The same evaluator decides as in the sidecar. The least change is a new grant for the identity of the client, or, if it proves none, for its address, which admits everybody who connects from there, with an identity too. It is compiled with the objects, decided again, and its cost is counted: everything that it newly allows, as client, workload, port and route. Several are ranked by that. `why` never proposes a wildcard, a network for a client that has an identity, a route that matches less, a change of a default, limit, probe or injection setting, or of an object in another namespace: it names the owner. Where nothing is left, it says so. [cli.md](cli.md#why) has its arguments and its JSON.

A refused client may have the id of the decision (`portcullis-decision` of a response in the mesh, `decision` in a log): `portcullis why -n shop kwy4d0a1b2` explains it. `why --last 20 --to deploy/web` explains what the pods of a workload refused last, `why --log FILE` what is in a log, and `portcullis denied -A` shows what is refused most. On a cluster, a sidecar is asked what it has in force, and where that differs from the objects, it is the first line.

The misconfigurations below are the usual ones. Those with a number come from reports of users of several meshes. A test runs each command and writes this page from the answers.
";

/// The topics in their order, with their headings.
const TOPICS: [(&str, &str); 5] = [
    ("grants", "Grants, Servers and routes"),
    ("identities", "Identities"),
    ("outbound", "Outside of policy: sidecars and networks"),
    ("delegation", "Paths that are handed down"),
    ("requests", "Requests that are described once"),
];

/// The page.
pub(crate) fn page(cases: &[Case]) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (topic, heading) in TOPICS {
        write!(page, "\n## {heading}\n").unwrap();
        for case in cases.iter().filter(|case| case.expected.topic == topic) {
            section(&mut page, case);
        }
    }
    page
}

fn section(page: &mut String, case: &Case) {
    let expected = &case.expected;
    let source = match expected.source.as_str() {
        "" => String::new(),
        source => format!(" ({source})"),
    };
    let arguments: Vec<String> = expected.arguments.iter().map(|one| quoted(one)).collect();
    write!(
        page,
        "\n### {}\n\n{}{source}\n\n```sh\nportcullis why -f tests/why/{}/manifests.yaml {}\n```\n\n\
         ```text\n{}```\n\n{}\n",
        expected.title,
        expected.symptom,
        case.name,
        arguments.join(" "),
        case.text(),
        expected.mend,
    )
    .unwrap();
}

/// The argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=".contains(c);
    if argument.chars().all(plain) { argument.to_owned() } else { format!("'{argument}'") }
}
