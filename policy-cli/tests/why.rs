//! `portcullis why` on the misconfigurations of `tests/why`: the first cause, the least change, and the
//! page that is written from them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod why {
    pub(crate) mod access;
    pub(crate) mod case;
    pub(crate) mod page;
}

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use why::access::{Access, accesses};
use why::case::{cases, portcullis, root};
use why::page::page;

#[test]
fn the_first_cause_of_each_misconfiguration_is_told_in_the_first_line() {
    let mut wrong = Vec::new();
    for case in cases() {
        let answer = case.ask(&case.folder);
        let first = answer["answers"][0]["causes"][0]["summary"].as_str().unwrap().to_owned();
        let text = case.text();
        let line = text.lines().next().unwrap_or_default();
        let verdict = &answer["answers"][0]["verdict"];
        let told = first.contains(&case.expected.cause) && line.contains(&case.expected.cause);
        if !told || *verdict != *case.expected.verdict {
            wrong.push(format!(
                "{}: {verdict}\n  {line}\n  wanted {}",
                case.name, case.expected.cause
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_topic_has_four_misconfigurations() {
    let all = cases();
    for topic in ["grants", "delegation", "requests", "outbound", "identities"] {
        let number = all.iter().filter(|case| case.expected.topic == topic).count();
        assert!(number >= 4, "{topic} has {number}");
    }
    assert!(all.len() >= 20, "{}", all.len());
}

/// A proposal is applied as it is printed, and the question is asked again.
#[test]
fn the_least_change_works_when_it_is_applied_and_allows_nothing_that_is_not_said() {
    for case in cases() {
        let answer = case.ask(&case.folder);
        let proposals =
            answer["answers"][0]["leastChange"]["proposals"].as_array().unwrap().clone();
        assert_eq!(!proposals.is_empty(), case.expected.change, "{}: {answer:#}", case.name);
        for proposal in proposals {
            let applied = TempDir::new().unwrap();
            copy(&case.folder.join("manifests.yaml"), &applied.path().join("manifests.yaml"));
            let objects = proposal["objects"].as_array().unwrap();
            for (number, object) in objects.iter().enumerate() {
                let file = applied.path().join(format!("change-{number}.json"));
                fs::write(file, object.to_string()).unwrap();
            }
            let after = case.ask(applied.path());
            assert_eq!(after["answers"][0]["verdict"], "allow", "{}: {proposal:#}", case.name);
            let what = |one: &Access| {
                (one.client.clone(), one.workload.clone(), one.port, one.request.clone())
            };
            let before: BTreeSet<_> =
                accesses(&case.folder.join("manifests.yaml")).iter().map(what).collect();
            let mut newly = accesses(applied.path());
            newly.retain(|one| !before.contains(&what(one)));
            assert!(!newly.is_empty(), "{}: {proposal:#}", case.name);
            for access in newly {
                assert!(is_said(&proposal, &access), "{}: {access:?} {proposal:#}", case.name);
            }
        }
    }
}

/// The YAML that people copy is that of the objects.
#[test]
fn the_printed_change_is_yaml_that_can_be_applied() {
    for case in cases().into_iter().filter(|case| case.expected.change) {
        let text = case.text();
        let (_, yaml) = text.split_once("\n---\n").expect("a change");
        let applied = TempDir::new().unwrap();
        copy(&case.folder.join("manifests.yaml"), &applied.path().join("manifests.yaml"));
        fs::write(applied.path().join("change.yaml"), yaml).unwrap();
        let after = case.ask(applied.path());
        assert_eq!(after["answers"][0]["verdict"], "allow", "{}", case.name);
    }
}

#[test]
fn nothing_that_is_proposed_names_more_clients_than_this_one() {
    for case in cases() {
        let answer = case.ask(&case.folder);
        for proposal in answer["answers"][0]["leastChange"]["proposals"].as_array().unwrap() {
            for object in proposal["objects"].as_array().unwrap() {
                let kind = object["kind"].as_str().unwrap();
                let known = [
                    "AuthorizationPolicy",
                    "MeshTLSAuthentication",
                    "NetworkAuthentication",
                    "Server",
                ];
                assert!(known.contains(&kind), "{}: {kind}", case.name);
                let text = object.to_string();
                assert!(!text.contains('*'), "{}: {text}", case.name);
                if kind == "AuthorizationPolicy" {
                    let refs = object["spec"]["requiredAuthenticationRefs"].as_array().unwrap();
                    assert_eq!(refs.len(), 1, "{}: {text}", case.name);
                }
                assert_eq!(object["metadata"]["namespace"], "shop", "{}", case.name);
            }
        }
    }
}

/// `docs/why.md` is written from the cases: `PORTCULLIS_WRITE_DOCS=1 cargo test -p policy-cli --test why`.
#[test]
fn the_page_is_that_of_the_cases() {
    let path = root().join("docs/why.md");
    let written = page(&cases());
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        fs::write(&path, &written).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, written, "PORTCULLIS_WRITE_DOCS=1 writes docs/why.md");
}

/// The 403 of `voting`, which the README's first example shows.
#[test]
fn the_readme_tells_why_voting_is_refused() {
    let arguments = ["--from", "sa/emojivoto/voting", "--to", "svc/web:80", "GET", "/api"];
    let arguments = [&["why", "-f", "examples/emojivoto"][..], &arguments].concat();
    let (code, out, errors) = portcullis(&arguments);
    assert_eq!(code, 0, "{errors}");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = format!(
        "```sh\ncargo run --release -- {}\n```\n\n```text\n{out}```\n",
        arguments.join(" ")
    );
    assert!(readme.contains(&block), "README.md lacks\n{block}");
}

#[test]
fn wrong_questions_are_answered_with_what_is_meant() {
    let folder = root().join("tests/why/a-server-before-its-policies/manifests.yaml");
    let folder = folder.to_str().unwrap();
    let asked = |to: &str| portcullis(&["why", "-f", folder, "--from", "sa/shop/cart", "--to", to]);
    for (to, message) in [
        ("deploy/wbe:8080", "no pod of Deployment wbe was found"),
        ("shop/web-9:8080", "there is no workload shop/web-9 in"),
        ("deplyo/web:8080", "did you mean `deploy`?"),
    ] {
        let (code, _, errors) = asked(to);
        assert_eq!(code, 1, "{to}: {errors}");
        assert!(errors.contains(message), "{to}: {errors}");
    }
    for (to, near) in [("deploy/wbe:8080", "is it web?"), ("shop/web-9:8080", "is it web-0?")] {
        let (_, _, errors) = asked(to);
        assert!(errors.contains(near), "{to}: {errors}");
    }
    for arguments in [
        vec!["why", "-f", folder, "--from", "cart", "--to", "deploy/web:8080"],
        vec!["why", "-f", folder, "--from", "sa/shop/cart", "--to", "deploy/web"],
        vec!["why", "-f", folder, "--from", "sa/shop/cart", "--to", "deploy/web:8080", "GET"],
    ] {
        let (code, out, errors) = portcullis(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {errors}");
    }
    let broken = TempDir::new().unwrap();
    fs::write(broken.path().join("a.yaml"), "kind: [").unwrap();
    let place = broken.path().to_str().unwrap();
    let (code, _, errors) =
        portcullis(&["why", "-f", place, "--from", "sa/shop/cart", "--to", "deploy/web:8080"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("cannot read the manifests"), "{errors}");
}

#[test]
fn a_port_that_no_container_has_is_told_first() {
    let folder = root().join("tests/why/a-server-before-its-policies/manifests.yaml");
    let folder = folder.to_str().unwrap();
    let (code, out, errors) =
        portcullis(&["why", "-f", folder, "--from", "sa/shop/cart", "--to", "deploy/web:9999"]);
    assert_eq!(code, 0, "{errors}");
    let first = out.lines().next().unwrap();
    assert!(first.contains("no container of shop/web-0 declares port 9999"), "{first}");
}

/// The answers to a question about manifests, as JSON.
fn answers(manifests: &str, arguments: &[&str]) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    fs::write(folder.path().join("all.yaml"), format!("{shop}{manifests}")).unwrap();
    let place = folder.path().to_str().unwrap();
    let (code, out, errors) =
        portcullis(&[&["why", "-o", "json", "-f", place][..], arguments].concat());
    assert_eq!(code, 0, "{errors}");
    let report: Value = serde_json::from_str(&out).unwrap();
    report["answers"].as_array().unwrap().clone()
}

fn pod(namespace: &str, name: &str, account: &str, app: &str, port: u16) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\n\
         metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {app}, pod: {name}}}}}\n\
         spec: {{serviceAccountName: {account}, containers: \
         [{{name: a, image: a, ports: [{{name: http, containerPort: {port}}}]}}]}}\n"
    )
}

fn server(pod: &str, port: u16, default: &str) -> String {
    format!(
        "---\napiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {pod}, namespace: shop}}\n\
         spec: {{podSelector: {{matchLabels: {{pod: {pod}}}}}, port: {port}, \
         proxyProtocol: HTTP/1, accessPolicy: {default}}}\n"
    )
}

#[test]
fn each_pod_of_a_service_has_its_own_port_and_a_change_that_mends_it() {
    let manifests = [
        pod("shop", "one", "web", "web", 8080),
        pod("shop", "two", "web", "web", 9090),
        server("one", 8080, "deny"),
        server("two", 9090, "deny"),
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
         spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n"
            .to_owned(),
    ];
    let asked = ["--from", "sa/shop/cart", "--to", "svc/web:80", "GET", "/"];
    let answers = answers(&manifests.concat(), &asked);
    let ports: BTreeSet<u64> = answers.iter().map(|one| one["port"].as_u64().unwrap()).collect();
    assert_eq!(ports, BTreeSet::from([8080, 9090]));
    for answer in &answers {
        let first = &answer["leastChange"]["proposals"][0]["newlyAllows"][0];
        assert_eq!(first["workload"], answer["workloads"][0], "{answer:#}");
    }
}

fn network_policy(from: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
         metadata: {{name: web, namespace: shop}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, ingress: [{{from: [{from}]}}]}}\n"
    )
}

#[test]
fn a_network_policy_that_cannot_be_decided_is_said_and_blocks_nothing() {
    let manifests = [
        pod("shop", "web", "web", "web", 8080),
        pod("bank", "cart", "cart", "cart", 8080),
        server("web", 8080, "all-unauthenticated"),
        network_policy("{namespaceSelector: {matchLabels: {team: bank}}}"),
    ];
    let asked = ["--from", "sa/bank/cart", "--to", "shop/web:8080", "GET", "/"];
    let answers = answers(&manifests.concat(), &asked);
    assert_eq!(answers[0]["verdict"], "allow", "{answers:#?}");
    let causes = answers[0]["causes"].to_string();
    assert!(causes.contains("whether NetworkPolicy shop/web lets"), "{causes}");
}

#[test]
fn a_network_policy_that_keeps_out_one_pod_of_the_client_does_not_block_it() {
    let manifests = [
        pod("shop", "web", "web", "web", 8080),
        pod("shop", "cart", "cart", "cart", 8080),
        pod("shop", "apart", "cart", "apart", 8080),
        server("web", 8080, "all-unauthenticated"),
        network_policy("{podSelector: {matchLabels: {app: cart}}}"),
    ];
    let asked = ["--from", "sa/shop/cart", "--to", "shop/web:8080", "GET", "/"];
    let answers = answers(&manifests.concat(), &asked);
    assert_eq!(answers[0]["verdict"], "allow", "{answers:#?}");
    let causes = answers[0]["causes"].to_string();
    assert!(causes.contains("from some pods of the client alone"), "{causes}");
}

/// Each change that is tried was a compilation of everything, and each pod was looked up among all: twenty
/// times as long as reading them.
#[test]
fn an_answer_about_one_of_five_thousand_pods_takes_little_longer_than_reading_them() {
    let mut manifests: Vec<String> = (0..5_000)
        .map(|number| pod("shop", &format!("p{number}"), "other", &format!("a{}", number % 50), 80))
        .collect();
    for version in 0..10 {
        manifests.extend((0..3).map(|number| {
            let name = format!("web-{version}-{number}");
            let own = pod("shop", &name, "web", "web", 8080);
            own.replace(&format!("pod: {name}"), &format!("pod: v{version}"))
        }));
        manifests.push(server(&format!("v{version}"), 8080, "deny"));
    }
    manifests.push(
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
         spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n"
            .to_owned(),
    );
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("all.yaml"), manifests.concat()).unwrap();
    let place = folder.path().to_str().unwrap();
    let timed = |to: &str| {
        let begin = Instant::now();
        let asked = ["--from", "sa/shop/other", "--to", to, "GET", "/"];
        let (code, out, _) =
            portcullis(&[&["why", "-o", "json", "-f", place][..], &asked].concat());
        (begin.elapsed(), code, out)
    };
    let (reading, code, _) = timed("shop/none:8080");
    assert_eq!(code, 1, "there is no such pod");
    let (took, code, out) = timed("svc/web:80");
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&out).unwrap();
    let answers = report["answers"].as_array().unwrap();
    let pods: usize = answers.iter().map(|one| one["workloads"].as_array().unwrap().len()).sum();
    let proposed = answers.iter().filter(|one| one["leastChange"]["proposals"][0].is_object());
    assert_eq!((answers.len(), pods, proposed.count()), (10, 30, 8));
    assert!(took < reading * 10, "{took:?}, of which reading takes {reading:?}");
}

const TWO_CONDITIONS: &str = "tests/why/one-of-two-conditions-fails/manifests.yaml";

/// The first lines of the answers to questions about the same manifests.
fn first_line(arguments: &[&str]) -> String {
    let (code, out, errors) = portcullis(&[&["why", "-f", TWO_CONDITIONS], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {errors}");
    out.lines().next().unwrap_or_default().to_owned()
}

/// The address of such a client is made up, its identity is not.
#[test]
fn an_identity_that_is_not_named_comes_before_an_address_that_is_assumed() {
    let line = first_line(&["--from", "sa/shop/billing", "--to", "deploy/web:8080", "GET", "/"]);
    let cause = "asks for identity cart.shop (set by MeshTLSAuthentication shop/cart); the client has billing.shop";
    assert!(line.contains(cause), "{line}");
    let stated = ["--address", "10.2.3.4", "--from", "sa/shop/billing", "--to", "deploy/web:8080"];
    let line = first_line(&[&stated[..], &["GET", "/"]].concat());
    assert!(line.contains("the client has 10.2.3.4"), "{line}");
}

#[test]
fn a_client_and_a_port_are_named_as_manifests_and_answers_name_them() {
    let request = ["--address", "10.1.3.4", "GET", "/"];
    for (from, to) in [
        ("sa/shop/cart", "deploy/web:8080"),
        ("cart.shop", "deploy/web:http"),
        ("deploy/cart", "pod/web-0:http"),
        ("deployment.apps/cart", "shop/web-0:http"),
    ] {
        let line = first_line(&[&["--from", from, "--to", to], &request[..]].concat());
        let grant = "allowed: AuthorizationPolicy shop/cart-may-order grants it";
        assert!(line.starts_with(grant), "{from} {to}: {line}");
    }
    for (from, to, error) in [
        (
            "sa/shop/cart",
            "deploy/web:grpc",
            "has no port of the name `grpc`: its ports are called http",
        ),
        ("deploy/absent", "deploy/web:http", "absent"),
        ("shop/cart", "deploy/web:http", "or is it sa/shop/cart?"),
    ] {
        let asked = ["why", "-f", TWO_CONDITIONS, "--from", from, "--to", to, "GET", "/"];
        let (code, _, errors) = portcullis(&asked);
        assert!(code != 0 && errors.contains(error), "{from} {to}: {code} {errors}");
    }
}

fn is_said(proposal: &Value, access: &Access) -> bool {
    let Access { client, workload, port, request: _, route } = access;
    let said = proposal["newlyAllows"].as_array().unwrap();
    said.iter().any(|one| {
        let who = one["client"].as_str().unwrap();
        let named = who == client || who.ends_with(&format!(" {client}/32"));
        named && one["workload"] == *workload && one["port"] == *port && one["route"] == **route
    })
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}
