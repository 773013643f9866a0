//! Each kind of name, wrong in a page: the lookup has to find it.

use crate::pages::{Fault, Page};
use crate::{commands, files, flags, keys, links, names, values};

/// The faults of a page with one line, by class and name.
fn found(text: &str) -> Vec<(&'static str, String)> {
    let page = Page::new("docs/example.md", text);
    let mut all: Vec<Fault> = links::faults(&page, std::slice::from_ref(&page)).1;
    for faults in [files::faults, values::faults, keys::faults, names::faults] {
        all.extend(faults(&page).1);
    }
    for faults in [commands::faults, flags::faults] {
        all.extend(faults(&page).1);
    }
    let number = text.lines().position(|line| line.contains("WRONG")).map(|line| line + 1);
    for fault in &all {
        assert_eq!(fault.page, "docs/example.md");
        assert!(number.is_none_or(|number| fault.line == number), "{fault}");
    }
    all.sort();
    all.dedup();
    all.into_iter().map(|fault| (fault.class, fault.name)).collect()
}

#[test]
fn a_wrong_name_of_each_kind_is_found() {
    let rows: &[(&str, &str, &str)] = &[
        ("`--controler-namespace` names it", "flag", "--controler-namespace"),
        ("`portcullis identity` takes `--all-ports`", "flag", "--all-ports"),
        ("`status --keep` shows", "flag", "--keep"),
        ("with `--probe-routes=never` of the controller", "flag", "--probe-routes=never"),
        ("give `portcullis whom` a client", "command", "portcullis whom"),
        ("`policy-controller start` begins", "command", "policy-controller start"),
        ("set `PORTCULLIS_MAX_HEADER`", "variable", "PORTCULLIS_MAX_HEADER"),
        ("set `LINKERD2_PROXY_INBOUND_PORT`", "variable", "LINKERD2_PROXY_INBOUND_PORT"),
        ("`policy_watch_nack_total` grows", "metric", "policy_watch_nack_total"),
        ("`identity_failures_total{causse=\"token\"}`", "label", "causse"),
        ("`identity_failures_total{reason=\"rootz\"}`", "label", "reason=\"rootz\""),
        ("`portcullis.dev/acces-log` logs", "annotation or label", "portcullis.dev/acces-log"),
        ("`config.linkerd.io/opaque-port`", "annotation or label", "config.linkerd.io/opaque-port"),
        ("`policy.linkerd.io/v1beta9`", "annotation or label", "policy.linkerd.io/v1beta9"),
        ("the condition `Enforced` says", "condition", "Enforced"),
        ("`Progammed=False` says", "condition", "Progammed"),
        ("with reason `NoSidecars`", "reason", "NoSidecars"),
        ("reasons `NoSidecar` and `NotRuning`", "reason", "NotRuning"),
        ("the reason `policy_missing`", "reason", "policy_missing"),
        ("answered `target_dot_segments`", "reason", "target_dot_segments"),
        ("an Event (`SidecarGone`)", "Event", "SidecarGone"),
        ("the alert `PortcullisAllDenied`", "alert", "PortcullisAllDenied"),
        ("`injector.bypas` of the chart", "value", "injector.bypas"),
        ("`helm upgrade x --set polcy.default=deny`", "value", "polcy.default"),
        ("see `policy-core/src/evaluater.rs`", "file", "policy-core/src/evaluater.rs"),
        ("see `examples/shops`", "file", "examples/shops"),
        ("see [it](instal.md)", "link", "instal.md"),
        ("see [it](install.md#8-remove)", "anchor", "install.md#8-remove"),
        ("`make tests` runs", "target", "tests"),
        ("`cargo test -p policy-test`", "crate", "policy-test"),
        ("`PolicyLayr` checks", "name", "PolicyLayr"),
    ];
    for (text, class, name) in rows {
        let found = found(&format!("# A page\n\n{text} WRONG\n"));
        assert_eq!(found, [(*class, (*name).to_owned())], "{text}");
    }
}

#[test]
fn a_wrong_command_line_is_found_in_a_fence_and_a_wrong_column_in_a_table() {
    let line = |line: &str| found(&format!("```sh\n{line} # WRONG\n```\n"));
    assert_eq!(line("portcullis status -n shop"), []);
    assert_eq!(line("kubectl exec x -c y -- portcullis request http://web/"), []);
    let wrong = line("portcullis status --namespaces shop");
    assert_eq!(wrong[1], ("flag", "--namespaces".to_owned()), "{wrong:?}");
    assert_eq!(wrong[0].0, "command line", "{wrong:?}");
    assert_eq!(line("PORTCULLIS_LOG=debug cargo run --release -- chek x")[0].0, "command");
    let theirs = "| flag of Linkerd's | here |\n|---|---|\n| `--user` | `--usr` WRONG |\n";
    assert_eq!(found(theirs), [("flag", "--usr".to_owned())]);
    let field = "| field | |\n|---|---|\n| `findings[].severety` | WRONG |\n";
    assert_eq!(found(field), [("field", "severety".to_owned())]);
    let row = "| metric | reason |\n|---|---|\n| `inbound_http_denied` | `NoReason` WRONG |\n";
    assert_eq!(
        found(row),
        [("metric", "inbound_http_denied".to_owned()), ("reason", "NoReason".to_owned())]
    );
}
