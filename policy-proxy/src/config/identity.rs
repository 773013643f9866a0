//! The settings of the proxy's identity.

use super::parse;
use super::reader::{Reader, Setting};
use crate::args::{IdentityArgs, RunArgs};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{
    AgentAddress, CertifyConfig, IdentityConfig, IdentityFiles, Roots, SpiffeConfig, TrustAnchors,
    certificates, is_dns_name, is_spiffe_id,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy)]
enum IdentityKind {
    Files,
    Certify,
    Spiffe,
    None,
}

pub(super) fn identity(args: &RunArgs, reader: &mut Reader<'_>) -> Option<IdentityConfig> {
    let args = &args.identity;
    if reader.lookup("", None, &["IDENTITY_DISABLED"]).is_some_and(is_set) {
        let text = "LINKERD2_PROXY_IDENTITY_DISABLED: not supported; use --identity=none";
        reader.fail(text.to_owned());
    }
    let given = reader.lookup("identity", args.identity.as_ref(), &[]);
    let source = match given {
        Some(_) => reader.read(given, IdentityKind::Files, source),
        None => from_linkerd(args, reader),
    };
    match source {
        IdentityKind::None => None,
        IdentityKind::Files => Some(IdentityConfig::Files(files(args, reader))),
        IdentityKind::Certify => certify(args, reader).map(IdentityConfig::Certify),
        IdentityKind::Spiffe => spiffe(args, reader).map(IdentityConfig::Spiffe),
    }
}

fn source(text: &str) -> Result<IdentityKind, &'static str> {
    match text {
        "files" => Ok(IdentityKind::Files),
        "certify" => Ok(IdentityKind::Certify),
        "spiffe" => Ok(IdentityKind::Spiffe),
        "none" => Ok(IdentityKind::None),
        _ => Err("expected files, certify, spiffe or none"),
    }
}

fn is_set(given: Setting) -> bool {
    !given.value.is_empty()
}

/// Without `--identity`, the variables that are set select the source, as for Linkerd's proxies.
fn from_linkerd(args: &IdentityArgs, reader: &mut Reader<'_>) -> IdentityKind {
    if agent(args, reader).is_some_and(is_set) {
        IdentityKind::Spiffe
    } else if issuer(args, reader).is_some_and(is_set) {
        IdentityKind::Certify
    } else {
        IdentityKind::Files
    }
}

fn agent(args: &IdentityArgs, reader: &mut Reader<'_>) -> Option<Setting> {
    let linkerd = ["IDENTITY_SPIRE_WORKLOAD_API_ADDRESS", "IDENTITY_SPIRE_SOCKET"];
    reader.lookup("identity-spiffe-socket", args.identity_spiffe_socket.as_ref(), &linkerd)
}

fn issuer(args: &IdentityArgs, reader: &mut Reader<'_>) -> Option<Setting> {
    reader.lookup("identity-addr", args.identity_addr.as_ref(), &["IDENTITY_SVC_ADDR"])
}

fn files(args: &IdentityArgs, reader: &mut Reader<'_>) -> IdentityFiles {
    let certificate = file(reader, "identity-cert", args.identity_cert.as_ref());
    let key = file(reader, "identity-key", args.identity_key.as_ref());
    if given_signed(args, reader).is_some() {
        let text = "--identity-signed-roots: used with --identity=certify alone";
        reader.fail(text.to_owned());
    }
    let roots = roots(args, reader);
    let name = server_name(args, reader);
    IdentityFiles { certificate, key, roots, name, interval: IdentityFiles::INTERVAL }
}

fn certify(args: &IdentityArgs, reader: &mut Reader<'_>) -> Option<CertifyConfig> {
    let given = issuer(args, reader);
    let address = reader.required(given, "identity-addr", "IDENTITY_SVC_ADDR");
    let typed = args.identity_service_name.as_ref();
    let server = reader.lookup("identity-service-name", typed, &["IDENTITY_SVC_NAME"]);
    let server = server.map(|given| given.value);
    let given =
        reader.lookup("identity-token", args.identity_token.as_ref(), &["IDENTITY_TOKEN_FILE"]);
    let token = reader.required(given, "identity-token", "IDENTITY_TOKEN_FILE");
    let roots = anchors(args, reader);
    let name = server_name(args, reader);
    let id = identity_id(args, reader);
    if let Some(id) = id.filter(|id| !id.value.eq_ignore_ascii_case(&name)) {
        let Setting { name: setting, value } = id;
        let text = format!("{setting}: `{value}`: expected `{name}`, as in --identity-name");
        reader.fail(text);
    }
    let given = reader.lookup("identity-dir", args.identity_dir.as_ref(), &["IDENTITY_DIR"]);
    let folder = given.filter(|given| !given.value.is_empty()).map(|given| given.value.into());
    let least = args.identity_min_refresh.as_ref();
    let least = reader.lookup("identity-min-refresh", least, &["IDENTITY_MIN_REFRESH"]);
    let most = args.identity_max_refresh.as_ref();
    let most = reader.lookup("identity-max-refresh", most, &["IDENTITY_MAX_REFRESH"]);
    if address.is_empty() {
        return None;
    }
    let issuer = match ControllerAddress::parse(&address, server.as_deref()) {
        Ok(issuer) => issuer,
        Err(error) => {
            reader.fail(format!("--identity-addr: {error} (--identity-service-name)"));
            return None;
        }
    };
    let mut config = CertifyConfig::new(issuer, &name, token.into(), roots);
    config.folder = folder;
    config.refresh = (
        reader.read(least, config.refresh.0, parse::duration),
        reader.read(most, config.refresh.1, parse::duration),
    );
    ordered(reader, "identity-min-refresh", "identity-max-refresh", config.refresh);
    config.backoff = backoff(args, reader, config.backoff);
    Some(config)
}

fn spiffe(args: &IdentityArgs, reader: &mut Reader<'_>) -> Option<SpiffeConfig> {
    // SPIFFE agents set the last one for workloads (Workload Endpoint section 4).
    let given = agent(args, reader).or_else(|| reader.plain("SPIFFE_ENDPOINT_SOCKET"));
    let linkerd = "IDENTITY_SPIRE_WORKLOAD_API_ADDRESS";
    if given.is_none() {
        reader.required(None, "identity-spiffe-socket", linkerd);
    }
    let agent = reader.read(given, None, |text| AgentAddress::parse(text).map(Some));
    let typed = [
        ("identity-roots", &args.identity_roots),
        ("identity-anchors", &args.identity_anchors),
        ("identity-signed-roots", &args.identity_signed_roots),
    ];
    for (flag, _) in typed.iter().filter(|(_, value)| value.is_some()) {
        reader.fail(format!(
            "--{flag}: not used with --identity=spiffe: the agent provides the trust roots"
        ));
    }
    let given = identity_id(args, reader);
    let id = reader.read(given, None, |text| match is_spiffe_id(text) {
        true => Ok(Some(Arc::<str>::from(text))),
        false => Err("expected a SPIFFE ID such as spiffe://cluster.local/ns/web/sa/default"),
    });
    let name = server_name(args, reader);
    let mut config = SpiffeConfig::new(agent?, id.as_deref(), &name);
    config.backoff = backoff(args, reader, config.backoff);
    Some(config)
}

/// The SNI name. Linkerd's local name, if set, is the name and the identity.
fn server_name(args: &IdentityArgs, reader: &mut Reader<'_>) -> Arc<str> {
    let names = ["IDENTITY_LOCAL_NAME", "IDENTITY_SERVER_NAME"];
    let given = reader.lookup("identity-name", args.identity_name.as_ref(), &names);
    let Some(given) = given else {
        return reader.required(None, "identity-name", "IDENTITY_SERVER_NAME").into();
    };
    reader.read(Some(given), "".into(), |text| match is_dns_name(text) {
        true => Ok(text.into()),
        false => Err("expected a DNS name"),
    })
}

fn identity_id(args: &IdentityArgs, reader: &mut Reader<'_>) -> Option<Setting> {
    let names = ["IDENTITY_LOCAL_NAME", "IDENTITY_SERVER_ID"];
    reader.lookup("identity-id", args.identity_id.as_ref(), &names)
}

/// The trust roots of the issuer's client: fixed, or followed through a signed document that others
/// may write.
fn anchors(args: &IdentityArgs, reader: &mut Reader<'_>) -> TrustAnchors {
    let Some(document) = given_signed(args, reader) else {
        return TrustAnchors::Trusted(roots(args, reader));
    };
    let given = reader.lookup("identity-anchors", args.identity_anchors.as_ref(), &[]);
    if given.is_none() {
        let text = "--identity-signed-roots: needs --identity-anchors, the roots to begin with";
        reader.fail(text.to_owned());
    }
    if reader.lookup("identity-roots", args.identity_roots.as_ref(), &[]).is_some() {
        reader.fail(BOTH_ROOTS.to_owned());
    }
    let begin = given.and_then(|Setting { name, value }| {
        let read = certificates(value.as_bytes());
        read.map_err(|error| reader.fail(format!("{name}: {error}"))).ok()
    });
    TrustAnchors::Followed { begin: begin.unwrap_or_default(), document: document.value.into() }
}

fn given_signed(args: &IdentityArgs, reader: &mut Reader<'_>) -> Option<Setting> {
    reader.lookup("identity-signed-roots", args.identity_signed_roots.as_ref(), &[])
}

const BOTH_ROOTS: &str = "--identity-roots: mutually exclusive with --identity-anchors";

fn roots(args: &IdentityArgs, reader: &mut Reader<'_>) -> Roots {
    let file_given = reader.lookup("identity-roots", args.identity_roots.as_ref(), &[]);
    let anchors = reader.lookup("identity-anchors", args.identity_anchors.as_ref(), &[]);
    match (file_given, anchors) {
        (Some(given), None) => Roots::File(given.value.into()),
        (None, Some(given)) => Roots::Text(given.value),
        (Some(given), Some(_)) => {
            reader.fail(BOTH_ROOTS.to_owned());
            Roots::File(given.value.into())
        }
        (None, None) => match reader.lookup("", None, &["IDENTITY_TRUST_ANCHORS"]) {
            Some(given) => Roots::Text(given.value),
            None => Roots::File(file(reader, "identity-roots", None)),
        },
    }
}

fn file(reader: &mut Reader<'_>, flag: &str, typed: Option<&String>) -> PathBuf {
    let given = reader.lookup(flag, typed, &[]);
    if given.is_none() {
        reader.fail(format!("--{flag}: must be given, or --identity=none"));
    }
    PathBuf::from(given.map(|given| given.value).unwrap_or_default())
}

fn backoff(
    args: &IdentityArgs,
    reader: &mut Reader<'_>,
    default: (Duration, Duration),
) -> (Duration, Duration) {
    let least = args.identity_backoff_min.as_ref();
    let least = reader.lookup("identity-backoff-min", least, &["IDENTITY_SPIRE_EXP_BACKOFF_MIN"]);
    let most = args.identity_backoff_max.as_ref();
    let most = reader.lookup("identity-backoff-max", most, &["IDENTITY_SPIRE_EXP_BACKOFF_MAX"]);
    let read = (
        reader.read(least, default.0, parse::duration),
        reader.read(most, default.1, parse::duration),
    );
    ordered(reader, "identity-backoff-min", "identity-backoff-max", read);
    read
}

fn ordered(reader: &mut Reader<'_>, least: &str, most: &str, (from, to): (Duration, Duration)) {
    if from > to {
        reader.fail(format!("--{least}: {from:?} is more than --{most}, which is {to:?}"));
    }
}
