//! `portcullis request`.

use super::block_on;
use crate::identity::files::IdentityFiles;
use crate::output::{self, Format, Paint};
use crate::request::client_response::grpc_name;
use crate::request::{
    ClientRequest, ClientResponse, Credentials, Outcome, Protocol, RequestError, RequestUrl, Tls,
    send,
};
use anyhow::{Context, bail};
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use rustls_pki_types::ServerName;
use serde::Serialize;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Send one request, with or without a mesh identity, from a chosen address
///
/// The scheme selects the protocol: http and https are HTTP/1.1, h2 is HTTP/2 with prior knowledge,
/// grpc and grpcs a unary gRPC call, tcp raw bytes that are expected back. With --identity, a folder
/// that `portcullis identity` wrote, or with --cert, --key and --roots, the connection is mutual TLS
/// with the mesh identity of that certificate; --server-name is the identity of the server, which is
/// also sent as SNI. With --direct, the connection goes to the sidecar's own port, as meshed clients
/// connect, and a transport header names the port of the URL.
///
/// Exit codes: 0 HTTP below 400, gRPC OK or bytes that came back; 1 no response (not reachable, TLS
/// failed, closed, too late); 2 wrong use; 3 refused (HTTP 403, gRPC PERMISSION_DENIED); 4 any other
/// failure that the server reports.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis request http://127.0.0.1:8080/api/list
  portcullis request -X POST -H 'x-team: a' -d '{}' http://127.10.0.3:8080/api
  portcullis request --from 127.10.0.9 tcp://127.10.0.3:9000
  portcullis request --identity cart \\
    --server-name web.shop.serviceaccount.identity.portcullis.cluster.local http://web.shop/
  portcullis request --cert web.crt --key web.key --roots ca.crt \\
    --server-name emoji.emojivoto.serviceaccount.identity.linkerd.cluster.local \\
    grpc://127.10.0.3:8080/emojivoto.v1.EmojiService/ListAll
  portcullis request --direct --cert web.crt --key web.key --roots ca.crt \\
    --server-name emoji.emojivoto.serviceaccount.identity.portcullis.cluster.local \\
    http://10.244.0.7:8080/api/list
  portcullis request -o json http://127.0.0.1:8080/ | jq .status"
)]
pub(crate) struct RequestArgs {
    /// URL: SCHEME://HOST:PORT/PATH, sent exactly as written
    url: String,

    /// Address to send from
    #[arg(long, visible_alias = "interface", value_name = "ADDRESS")]
    from: Option<IpAddr>,

    /// Connect here instead of to the host and port of the URL
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: Option<SocketAddr>,

    /// HTTP method; POST if there is data, else GET
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<Method>,

    /// Further header, `name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,

    /// Body; for gRPC the message without its length prefix, for tcp the bytes to send
    #[arg(short, long, value_name = "TEXT")]
    data: Option<String>,

    /// Folder with tls.crt, tls.key and ca.crt, as `portcullis identity` writes them
    #[arg(long, value_name = "DIR", groups = ["client", "trust"])]
    identity: Option<PathBuf>,

    /// Certificate chain of the client (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["key", "roots"], group = "client")]
    cert: Option<PathBuf>,

    /// Private key of the client (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Certificates to trust (PEM)
    #[arg(long, value_name = "FILE", group = "trust")]
    roots: Option<PathBuf>,

    /// Identity of the server, sent as SNI; the host of the URL if absent
    #[arg(long, value_name = "NAME", requires = "trust")]
    server_name: Option<String>,

    /// Connect to the sidecar's own port and name the URL's port in a transport header
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "4143",
        requires = "client"
    )]
    direct: Option<NonZeroU16>,

    /// Timeout of the whole exchange, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    timeout: f64,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The `-o json` output for a request without a response.
#[derive(Serialize)]
struct NoResponse {
    error: String,
}

/// Reads `name: value`.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write `name: value`")?;
    let name = name.trim().parse::<HeaderName>().map_err(|error| error.to_string())?;
    let value = HeaderValue::from_str(value.trim()).map_err(|error| error.to_string())?;
    Ok((name, value))
}

pub(crate) fn run(args: &RequestArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client_request = match client_request(args).await {
            Ok(client_request) => client_request,
            Err(error) => {
                eprintln!("{} {error:#}", Paint::stderr().bad("error:"));
                return Ok(ExitCode::from(2));
            }
        };
        match send(&client_request).await {
            Ok(response) => {
                output::print(args.output, &response, |response| table(response, Paint::stdout()))?;
                Ok(ExitCode::from(response.outcome.exit_code()))
            }
            Err(error) => no_response(args.output, &error),
        }
    })
}

fn no_response(format: Format, error: &RequestError) -> anyhow::Result<ExitCode> {
    match format {
        Format::Table => bail!("{error}"),
        Format::Json | Format::Yaml => {
            output::print(format, &NoResponse { error: error.to_string() }, |_| String::new())?;
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn client_request(args: &RequestArgs) -> anyhow::Result<ClientRequest> {
    let target = args.url.parse::<RequestUrl>()?;
    let address = match args.connect {
        Some(address) => address,
        None => {
            let port = args.direct.map_or(target.port, NonZeroU16::get);
            resolve(&target.host, port).await?
        }
    };
    let timeout = Duration::try_from_secs_f64(args.timeout)
        .with_context(|| format!("--timeout: `{}` is not a time", args.timeout))?;
    let mut client_request = match target.protocol {
        Protocol::Tcp => ClientRequest::tcp(address),
        Protocol::Grpc => ClientRequest::grpc(address, &target.path),
        Protocol::Http1 | Protocol::Http2 => ClientRequest::get(address, &target.path),
    };
    client_request.protocol = target.protocol;
    client_request.host.clone_from(&target.authority);
    client_request.from = args.from;
    client_request.timeout = timeout;
    client_request.tls = tls(args, &target)?;
    client_request.direct = args.direct.and_then(|_| NonZeroU16::new(target.port));
    client_request.headers = HeaderMap::new();
    for (name, value) in &args.headers {
        client_request.headers.append(name, value.clone());
    }
    if let Some(data) = &args.data {
        client_request.body = data.clone().into();
        client_request.method = Method::POST;
    }
    if let Some(method) = &args.method {
        client_request.method = method.clone();
    }
    Ok(client_request)
}

async fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let mut addresses = tokio::net::lookup_host((host, port))
        .await
        .with_context(|| format!("cannot find the address of `{host}`"))?;
    addresses.next().with_context(|| format!("`{host}` has no address"))
}

fn tls(args: &RequestArgs, target: &RequestUrl) -> anyhow::Result<Option<Tls>> {
    let Some(credentials) = credentials(args)? else {
        if target.tls {
            bail!("TLS needs --roots, the certificates to trust, or --identity");
        }
        return Ok(None);
    };
    let name = args.server_name.as_deref().unwrap_or(&target.host);
    let server_name = ServerName::try_from(name.to_owned())
        .with_context(|| format!("--server-name: `{name}` is not a name"))?;
    Ok(Some(Tls { credentials, server_name }))
}

/// The client's credentials and trust roots from the flags.
fn credentials(args: &RequestArgs) -> anyhow::Result<Option<Credentials>> {
    if let Some(folder) = &args.identity {
        let IdentityFiles { certificate, key, roots } = IdentityFiles::of(folder);
        return Ok(Some(Credentials::read(&roots, Some((&certificate, &key)))?));
    }
    let Some(roots) = &args.roots else { return Ok(None) };
    let client = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
        (None | Some(_), None | Some(_)) => None,
    };
    Ok(Some(Credentials::read(roots, client)?))
}

fn table(response: &ClientResponse, paint: Paint) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match (response.grpc_status, response.status) {
        (Some(status), _) => writeln!(text, "grpc-status {status} {}", grpc_name(status)),
        (None, Some(status)) => writeln!(text, "{} {status}", response.protocol),
        (None, None) => Ok(()),
    };
    let line = text.trim_end();
    text = match response.outcome {
        Outcome::Ok => paint.good(line),
        Outcome::Refused | Outcome::Failed => paint.bad(line),
    };
    if !text.is_empty() {
        text.push('\n');
    }
    if let Some(message) = response.grpc_message.as_deref().filter(|message| !message.is_empty()) {
        let _ = writeln!(text, "grpc-message {message}");
    }
    for (name, value) in response.headers.iter().chain(&response.trailers) {
        let _ = writeln!(text, "{}", paint.dim(&format!("{name}: {value}")));
    }
    if !response.body.is_empty() && response.grpc_status.is_none() {
        if response.status.is_some() {
            text.push('\n');
        }
        text.push_str(&response.body);
        if !response.body.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
