//! The forms of the arguments of `portcullis why`.

use super::arguments::{WhyArgs, WhySubject};
use crate::why::{PortArgument, QuestionRequest, WhyClient};
use http::header::HOST;
use http::{HeaderMap, Uri};
use policy_core::DecisionId;
use std::path::PathBuf;

/// The kinds of questions.
pub(super) enum WhyForm {
    Asked(Box<(WhyClient, PortArgument, Option<QuestionRequest>)>),
    Id(DecisionId),
    Last(usize),
    Log(PathBuf, Option<(String, u16)>),
}

/// The form of the arguments, or what is wrong with them.
pub(super) fn form(args: &WhyArgs) -> Result<WhyForm, String> {
    let is_question = args.subject.is_none() && args.log.is_none() && args.last.is_none();
    let is_recorded = !is_question && !matches!(args.subject, Some(WhySubject::Method(_)));
    let is_given = !args.headers.is_empty() || args.host.is_some() || args.address.is_some();
    if is_recorded && (is_given || args.http2) {
        return Err(
            "--header, --host, --http2 and --address are of a request that is asked about; a \
                    recorded decision has its own"
                .to_owned(),
        );
    }
    if let Some(log) = &args.log {
        return Ok(WhyForm::Log(log.clone(), place(args.to.as_deref())?));
    }
    if let Some(last) = args.last {
        if args.admin_address.is_none() && !args.inventory.filename.is_empty() {
            return Err(
                "--last asks sidecars: those of a cluster, or one by --admin-address".to_owned()
            );
        }
        return Ok(WhyForm::Last(usize::from(last)));
    }
    if let Some(WhySubject::Id(id)) = &args.subject {
        if args.path.is_some() || args.from.is_some() || args.to.is_some() {
            return Err(format!(
                "`{id}` is the id of a decision, which has its client and request"
            ));
        }
        if args.admin_address.is_none() && !args.inventory.filename.is_empty() {
            return Err(
                "an id is that of a sidecar: of a cluster, or by --admin-address".to_owned()
            );
        }
        return Ok(WhyForm::Id(*id));
    }
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        return Err(match is_question {
            true => "--from CLIENT and --to WORKLOAD:PORT are missing".to_owned(),
            false => "a request needs --from CLIENT and --to WORKLOAD:PORT".to_owned(),
        });
    };
    let to = to.parse::<PortArgument>().map_err(|error: String| format!("--to: {error}"))?;
    Ok(WhyForm::Asked(Box::new((from.clone(), to, request(args)?))))
}

/// The workload and port of the lines of a log that name none.
fn place(to: Option<&str>) -> Result<Option<(String, u16)>, String> {
    let Some(to) = to else { return Ok(None) };
    to.parse::<PortArgument>().map_err(|error| format!("--to: {error}"))?;
    let (workload, port) = to.rsplit_once(':').unwrap_or((to, ""));
    let port = port.parse().map_err(|_| format!("--to: `{port}` is no number of a port"))?;
    Ok(Some((workload.to_owned(), port)))
}

/// The request of the arguments; `None`: the connection itself.
fn request(args: &WhyArgs) -> Result<Option<QuestionRequest>, String> {
    let method = match &args.subject {
        Some(WhySubject::Method(method)) => Some(method),
        Some(WhySubject::Id(_)) | None => None,
    };
    let (method, target) = match (method, &args.path, &args.grpc) {
        (None, None, Some(call)) => ("POST".to_owned(), format!("/{}", called(call)?)),
        (Some(method), Some(path), None) => (method.to_string(), path.clone()),
        (None, None, None) if args.headers.is_empty() && args.host.is_none() => return Ok(None),
        _ => return Err("a request is METHOD and PATH, or --grpc SERVICE/METHOD".to_owned()),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in &args.headers {
        headers.append(name.clone(), value.clone());
    }
    // As it is given to other clients; there is one host.
    let stated = headers.remove(HOST).and_then(|host| Some(host.to_str().ok()?.to_owned()));
    let host = args.host.clone().or(stated);
    let (host, target) = match host {
        Some(host) => (Some(host), target),
        None => of_url(&target).map_or((None, target), |(host, path)| (Some(host), path)),
    };
    let is_target = target.starts_with('/') || target.contains("://") || target == "*";
    if !is_target && method != "CONNECT" {
        return Err(format!("`{target}` is no path: it begins with `/`"));
    }
    let grpc = args.grpc.is_some();
    let h2 = grpc || args.http2;
    Ok(Some(QuestionRequest { method, target, host, headers, h2, grpc }))
}

/// The call of gRPC, `SERVICE/METHOD`.
fn called(call: &str) -> Result<&str, String> {
    let call = call.trim_start_matches('/');
    if call.contains('/') {
        return Ok(call);
    }
    let near = call.rsplit_once('.');
    let near = near.map(|(service, method)| format!("; is it {service}/{method}?"));
    Err(format!("--grpc: `{call}` is no SERVICE/METHOD{}", near.unwrap_or_default()))
}

/// The host and the path of a URL.
fn of_url(target: &str) -> Option<(String, String)> {
    let url: Uri = target.parse().ok()?;
    url.scheme()?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    Some((url.authority()?.to_string(), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    fn read(words: &[&str]) -> Result<WhyForm, String> {
        let command = WhyArgs::augment_args(Command::new("why").no_binary_name(true));
        let matches = command.try_get_matches_from(words).unwrap();
        form(&WhyArgs::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn facts_of_a_request_are_refused_beside_a_recorded_decision() {
        for of in [&["kwy4d0a1b2"][..], &["--last", "5"], &["--log", "a"]] {
            assert!(read(of).is_ok(), "{of:?}");
            for fact in [
                &["-H", "a: b"][..],
                &["--host", "web.shop"],
                &["--http2"],
                &["--address", "10.0.0.1"],
            ] {
                let refused = read(&[of, fact].concat()).err().unwrap();
                assert!(
                    refused.starts_with("--header, --host, --http2 and --address"),
                    "{refused}"
                );
            }
        }
        let asked = ["--from", "10.0.0.1", "--to", "a/b:1", "--host", "c", "GET", "/"];
        assert!(read(&asked).is_ok());
    }

    #[test]
    fn a_request_is_written_as_other_clients_take_it() {
        let asked = |words: &[&str]| {
            let from = ["--from", "10.0.0.1", "--to", "a/b:1"];
            let WhyForm::Asked(asked) = read(&[&from[..], words].concat())? else {
                panic!("another form")
            };
            let request = asked.2.unwrap();
            assert!(!request.headers.contains_key(HOST));
            Ok::<_, String>((request.host, request.target))
        };
        let expected = (Some("web.example".to_owned()), "/a?b".to_owned());
        for words in [
            &["GET", "/a?b", "-H", "Host: web.example"][..],
            &["GET", "/a?b", "--host", "web.example", "-H", "host: other"],
            &["GET", "http://web.example/a?b"],
        ] {
            assert_eq!(asked(words), Ok(expected.clone()), "{words:?}");
        }
        assert_eq!(asked(&["--grpc", "/a.B/C"]), Ok((None, "/a.B/C".to_owned())));
        assert_eq!(asked(&["OPTIONS", "*"]), Ok((None, "*".to_owned())));
        for (words, hint) in [
            (&["--grpc", "shop.Cart.Add"][..], "is it shop.Cart/Add?"),
            (&["GET", "api"], "begins with `/`"),
        ] {
            let error = asked(words).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn the_place_of_a_log_is_read_strictly() {
        let form = read(&["--log", "a", "--to", "shop/web-0:80"]).unwrap();
        let WhyForm::Log(_, place) = form else { panic!("another form") };
        assert_eq!(place, Some(("shop/web-0".to_owned(), 80)));
        for wrong in ["shop/web-0", "shop/web-0:http"] {
            let refused = read(&["--log", "a", "--to", wrong]).err().unwrap();
            assert!(refused.starts_with("--to: "), "{refused}");
        }
    }
}
