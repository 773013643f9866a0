//! Tests of the notes on the environment, and of the page that lists it.

use super::*;
use crate::args::RunArgs;
use std::cell::RefCell;
use std::path::Path;

fn reviewed(variables: &[(&str, &str)]) -> Result<Vec<Note>, String> {
    let owned = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    review(variables.iter().map(owned)).map_err(|error| error.to_string())
}

#[test]
fn linkerds_variables_are_read_or_named_once_or_warned_about() {
    let notes = reviewed(&[
        ("LINKERD2_PROXY_LOG", "info"),
        ("LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR", "x"),
        ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", "x"),
        ("LINKERD2_PROXY_INBOUND_LISTEN_ADR", "x"),
        ("LINKERD2_PROXY_ZEBRA", "x"),
        ("PATH", "x"),
    ]);
    let ignored =
        ["LINKERD2_PROXY_DESTINATION_SVC_ADDR", "LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR"];
    let near = "LINKERD2_PROXY_INBOUND_LISTEN_ADR: unknown variable, \
                did you mean LINKERD2_PROXY_INBOUND_LISTEN_ADDR?";
    assert_eq!(
        notes,
        Ok(vec![
            Note::Ignored(ignored.map(str::to_owned).to_vec()),
            Note::Unknown(near.to_owned()),
            Note::Unknown("LINKERD2_PROXY_ZEBRA: unknown variable".to_owned()),
        ])
    );
}

#[test]
fn what_would_change_what_is_safe_is_refused_with_its_reason() {
    assert_eq!(
        reviewed(&[("LINKERD2_PROXY_IDENTITY_DISABLED", "1")]),
        Err("LINKERD2_PROXY_IDENTITY_DISABLED: an identity is switched off by --identity=none alone"
            .to_owned())
    );
    assert_eq!(reviewed(&[("LINKERD2_PROXY_IDENTITY_DISABLED", "")]), Ok(Vec::new()));
}

#[test]
fn a_mistyped_setting_of_ours_is_an_error_with_the_nearest_name() {
    assert_eq!(
        reviewed(&[("PORTCULLIS_ADMINN", "x"), ("PORTCULLIS_ADMIN", "127.0.0.1:1")]),
        Err("PORTCULLIS_ADMINN: no such setting, did you mean PORTCULLIS_ADMIN?".to_owned())
    );
    let strange = reviewed(&[("PORTCULLIS_COLOUR_OF_THE_MOON", "x")]).unwrap_err();
    assert_eq!(
        strange,
        "PORTCULLIS_COLOUR_OF_THE_MOON: no such setting; every flag of `policy-proxy run` is one \
         (docs/environment.md)"
    );
}

#[test]
fn what_kubernetes_says_of_our_services_is_no_mistake() {
    let links = [
        ("PORTCULLIS_ISSUER_SERVICE_HOST", "10.96.0.7"),
        ("PORTCULLIS_ISSUER_SERVICE_PORT", "8080"),
        ("PORTCULLIS_ISSUER_SERVICE_PORT_GRPC", "8080"),
        ("PORTCULLIS_ISSUER_PORT", "tcp://10.96.0.7:8080"),
        ("PORTCULLIS_ISSUER_PORT_8080_TCP", "tcp://10.96.0.7:8080"),
        ("PORTCULLIS_ISSUER_PORT_8080_TCP_ADDR", "10.96.0.7"),
        ("PORTCULLIS_ISSUER_PORT_8080_TCP_PROTO", "tcp"),
    ];
    assert_eq!(reviewed(&links), Ok(Vec::new()));
}

#[test]
fn a_mistyped_port_of_ours_is_not_taken_for_a_service() {
    assert_eq!(
        reviewed(&[("PORTCULLIS_ADMN_PORT", "4192")]),
        Err("PORTCULLIS_ADMN_PORT: no such setting, did you mean PORTCULLIS_ADMIN_PORT?".to_owned())
    );
}

/// All variables that are read, whatever is configured.
fn requested() -> BTreeSet<String> {
    let requested = RefCell::new(BTreeSet::new());
    for (identity, given) in [
        ("files", false),
        ("certify", false),
        ("certify", true),
        ("spiffe", false),
        ("spiffe", true),
        ("none", false),
    ] {
        let environment = |name: &str| {
            requested.borrow_mut().insert(name.to_owned());
            match name {
                "PORTCULLIS_IDENTITY" => Some(OsString::from(identity)),
                "PORTCULLIS_IDENTITY_ADDR" if given => Some("localhost.:8080".into()),
                "PORTCULLIS_IDENTITY_SPIFFE_SOCKET" if given => Some("/agent.sock".into()),
                "PORTCULLIS_IDENTITY_ID" if given => Some("spiffe://a/b".into()),
                "PORTCULLIS_IDENTITY_NAME" if given => Some("a.b".into()),
                _ => None,
            }
        };
        let _ = super::super::read(&RunArgs::default(), &environment);
        let _ = super::super::log(&RunArgs::default(), &environment);
    }
    requested.into_inner()
}

#[test]
fn the_table_names_exactly_what_is_read() {
    let requested = requested();
    let read = requested.iter().filter_map(|name| name.strip_prefix(LINKERDS));
    let theirs = read.filter(|name| !matches!(support(name), Some(Support::Refused(_)))).collect();
    let honoured: BTreeSet<&str> = LINKERD
        .iter()
        .filter(|(_, support)| *support == Support::Honoured)
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(honoured, theirs);
    let own = own_variables();
    for name in requested.iter().filter(|name| name.starts_with(OURS)) {
        assert!(own.contains(name), "{name} is read and is no flag");
    }
}

#[test]
fn the_table_is_in_order_and_names_nothing_twice() {
    let names: Vec<&str> = LINKERD.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

fn flags() -> String {
    let mut table = "| variable | flag | what it sets |\n|---|---|---|\n".to_owned();
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let mut rows: Vec<String> = run
        .get_arguments()
        .filter_map(|argument| {
            let flag = argument.get_long()?;
            let variable = flag.replace('-', "_").to_ascii_uppercase();
            let help = argument.get_help()?.to_string().replace('|', "\\|");
            Some(format!("| `{OURS}{variable}` | `--{flag}` | {help} |\n"))
        })
        .collect();
    rows.sort();
    table.extend(rows);
    table
}

fn variables() -> String {
    let mut table = "| variable | effect |\n|---|---|\n".to_owned();
    for (name, support) in LINKERD {
        let support = match support {
            Support::Honoured => "read".to_owned(),
            Support::Ignored(why) => format!("accepted, without effect: {why}"),
            Support::Refused(why) => format!("refused unless empty: {why}"),
        };
        table.push_str(&format!("| `{LINKERDS}{name}` | {support} |\n"));
    }
    table
}

#[test]
fn the_page_lists_every_variable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/environment.md");
    let mut expected = std::fs::read_to_string(&path).unwrap();
    for (mark, table) in [("flags", flags()), ("linkerd", variables())] {
        let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
        let (head, rest) = expected.split_once(&begin).expect("the table's begin");
        let (_, tail) = rest.split_once(&end).expect("the table's end");
        expected = format!("{head}{begin}{table}{end}{tail}");
    }
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap();
    assert_eq!(documented, expected, "run the test with PORTCULLIS_WRITE_DOCS=1");
}
