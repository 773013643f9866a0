//! Output of `up` besides decisions: workloads, clients, and commands to paste.

use super::calls::CallRow;
use super::client_certs::CertificateFiles;
use super::suggest::SuggestedRequest;
use crate::output::{Paint, table};
use policy_core::Protocol;
use serde::Serialize;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// Row of a pod's port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PortRow {
    /// `namespace/pod`.
    pub(crate) workload: String,
    /// Port in the manifests.
    pub(crate) port: u16,
    /// Address to connect to.
    pub(crate) address: SocketAddr,
    /// Owner of the port's policy.
    pub(crate) policy: String,
    /// Reason why no sidecar guards the port in a cluster: the policy holds here alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unguarded: Option<String>,
    /// Protocol by which connections are read.
    pub(crate) protocol: String,
    /// Its name for mesh TLS.
    pub(crate) server_name: String,
    /// Name that the application proves in its own TLS.
    pub(crate) application: String,
}

/// Row of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientRow {
    /// Its name.
    pub(crate) name: String,
    /// Source address.
    pub(crate) address: Ipv4Addr,
    /// The real address that it stands for.
    pub(crate) stands_for: IpAddr,
    /// The identity that it proves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<String>,
    /// Certificate file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// Key file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The addresses that stand for Services to it: connections there arrive with its identity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<CallRow>,
    /// A command to paste.
    pub(crate) command: String,
}

/// State at the start, as `-o json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct ReadyEvent<'a> {
    /// Always `ready`.
    pub(crate) event: &'static str,
    /// Address at which the controller serves policies.
    pub(crate) controller: SocketAddr,
    /// The root certificate.
    pub(crate) roots: String,
    /// Ports.
    pub(crate) ports: &'a [PortRow],
    /// Clients.
    pub(crate) clients: &'a [ClientRow],
}

/// Added and removed workloads and clients, as `-o json` prints them.
#[derive(Debug, Serialize)]
pub(crate) struct ChangedEvent<'a> {
    /// Always `changed`.
    pub(crate) event: &'static str,
    /// New ports.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) ports: &'a [PortRow],
    /// Removed workloads.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) gone: &'a [String],
    /// New clients.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) clients: &'a [ClientRow],
    /// New calls of clients that were there.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) calls: &'a [NewCall],
}

/// A call that a client did not have before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewCall {
    /// Name of the client.
    pub(crate) client: String,
    /// The call.
    #[serde(flatten)]
    pub(crate) call: CallRow,
}

/// A problem, as `-o json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemEvent<'a> {
    /// Always `problem`.
    pub(crate) event: &'static str,
    /// File.
    pub(crate) file: &'a str,
    /// Line, from 1.
    pub(crate) line: Option<usize>,
    /// Column, from 1.
    pub(crate) column: Option<usize>,
    /// Field.
    pub(crate) field: Option<&'a str>,
    /// `error` or `warning`.
    pub(crate) severity: &'static str,
    /// The problem.
    pub(crate) message: &'a str,
}

impl ReadyEvent<'_> {
    /// The tables for people.
    pub(crate) fn text(&self, names: &str, paint: Paint) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}\n", paint.bold(&format!("portcullis up {names}")));
        text.push_str(&ports(self.ports));
        text.push('\n');
        text.push_str(&clients(self.clients));
        if self.clients.iter().any(|client| !client.calls.is_empty()) {
            text.push('\n');
            text.push_str(&calls(self.clients));
        }
        let _ = writeln!(text, "\n{}", paint.bold("Try, in another terminal:"));
        text.push_str(&commands(self.clients, paint));
        let first = self.ports.first();
        if let Some(port) = first {
            let watch = format!(
                "{} watch --controller {} {}:{}",
                program(),
                self.controller,
                port.workload,
                port.port
            );
            let _ = writeln!(text, "  {}\n  {watch}", paint.dim("# what a port's policy is"));
        }
        let _ = writeln!(
            text,
            "\nEdit the manifests while this runs: the next decision follows them.\n{}",
            paint.bold("Decisions (Ctrl-C ends):")
        );
        text
    }
}

impl ChangedEvent<'_> {
    /// Lines for people.
    pub(crate) fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        for workload in self.gone {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {workload}", paint.notice("gone "));
        }
        for port in self.ports {
            let (workload, number, address) = (&port.workload, port.port, port.address);
            let _ = writeln!(text, "{} {workload}:{number} at {address}", paint.notice("new  "));
            text.extend(unguarded(port));
        }
        for client in self.clients {
            let _ =
                writeln!(text, "{} {} at {}", paint.notice("new  "), client.name, client.address);
            let _ = writeln!(text, "      {}", client.command);
        }
        for NewCall { client, call } in self.calls {
            let CallRow { service, port, address } = call;
            let _ = writeln!(
                text,
                "{} {service}:{port} for {client} at {address}",
                paint.notice("new  ")
            );
        }
        text
    }
}

fn ports(rows: &[PortRow]) -> String {
    let cells = rows.iter().map(|row| {
        [
            row.workload.clone(),
            row.port.to_string(),
            row.address.to_string(),
            match row.unguarded {
                Some(_) => format!("{}, here alone", row.policy),
                None => row.policy.clone(),
            },
            row.protocol.clone(),
        ]
    });
    let mut text = table(["WORKLOAD", "PORT", "ADDRESS", "POLICY", "PROTOCOL"], cells);
    text.extend(rows.iter().filter_map(unguarded));
    text
}

/// A line about a port that no sidecar guards in a cluster.
fn unguarded(row: &PortRow) -> Option<String> {
    let (workload, port, reason) = (&row.workload, row.port, row.unguarded.as_ref()?);
    Some(format!("{workload}:{port} is open to everybody in a cluster: {reason}\n"))
}

fn clients(rows: &[ClientRow]) -> String {
    let cells = rows.iter().map(|row| {
        [
            row.name.clone(),
            row.address.to_string(),
            row.stands_for.to_string(),
            if row.identity.is_some() { "mesh TLS" } else { "plaintext" }.to_owned(),
        ]
    });
    table(["CLIENT", "ADDRESS", "STANDS FOR", "SPEAKS"], cells)
}

/// The addresses that stand for Services.
fn calls(rows: &[ClientRow]) -> String {
    let cells = rows.iter().flat_map(|row| {
        row.calls.iter().map(|call| {
            [row.name.clone(), format!("{}:{}", call.service, call.port), call.address.to_string()]
        })
    });
    table(["CALLER", "SERVICE", "ADDRESS"], cells)
}

fn commands(rows: &[ClientRow], paint: Paint) -> String {
    let mut text = String::new();
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}", paint.dim(&format!("# {}", row.name)));
        let _ = writeln!(text, "  {}", row.command);
    }
    text
}

/// Input of a command to paste.
pub(crate) struct ClientCommand<'a> {
    /// Source address.
    pub(crate) from: Ipv4Addr,
    /// The client's certificate.
    pub(crate) pair: Option<&'a CertificateFiles>,
    /// Trust roots.
    pub(crate) roots: &'a Path,
    /// The port.
    pub(crate) port: &'a PortRow,
    /// Protocol by which the port reads connections.
    pub(crate) protocol: Protocol,
    /// The request.
    pub(crate) request: &'a SuggestedRequest,
    /// The address that stands for the port's Service to the client.
    pub(crate) call: Option<SocketAddr>,
}

impl ClientCommand<'_> {
    /// Returns a curl command if curl speaks the port's protocol, else one with this program's
    /// client.
    pub(crate) fn command(&self) -> String {
        let call = self.request.method == http::Method::POST
            && self.request.path.matches('/').count() == 2;
        match self.protocol {
            Protocol::Detect { .. } | Protocol::Http1 => self.curl(""),
            Protocol::Http2 if !call => self.curl(" --http2-prior-knowledge"),
            Protocol::Grpc | Protocol::Http2 => self.own("grpc", &self.request.path),
            Protocol::Tls => self.passed_through(),
            Protocol::Opaque => self.own("tcp", ""),
        }
    }

    fn curl(&self, version: &str) -> String {
        let (from, address) = (self.from, self.port.address);
        let path = quoted(&self.request.path);
        let method = match &self.request.method {
            method if *method == http::Method::GET => String::new(),
            method => format!(" -X {method}"),
        };
        if let Some(call) = self.call {
            // Its sidecar proves the identity: curl needs neither certificate nor source address.
            return format!("curl -si{version}{method} http://{call}{path}");
        }
        let Some(pair) = self.pair else {
            return format!("curl -si --interface {from}{version}{method} http://{address}{path}");
        };
        // HTTP/2 over TLS is not negotiated here: the sidecar detects it.
        let name = &self.port.server_name;
        format!(
            "curl -si --interface {from} --cacert {} --cert {} --key {} --connect-to ::{address}{method} \
             https://{name}:{}{path}",
            self.roots.display(),
            pair.certificate.display(),
            pair.key.display(),
            address.port()
        )
    }

    /// TLS for the application, which the sidecar passes through.
    fn passed_through(&self) -> String {
        let (from, address) = (self.from, self.port.address);
        let (roots, name) = (self.roots.display(), &self.port.application);
        let port = address.port();
        format!(
            "curl -si --interface {from} --cacert {roots} --connect-to ::{address} \
             https://{name}:{port}/"
        )
    }

    fn own(&self, scheme: &str, path: &str) -> String {
        let (from, address) = (self.from, self.port.address);
        let path = quoted(path);
        if let Some(call) = self.call {
            return format!("{} request {scheme}://{call}{path}", program());
        }
        let mesh = self.pair.map(|pair| {
            format!(
                " --cert {} --key {} --roots {} --server-name {}",
                pair.certificate.display(),
                pair.key.display(),
                self.roots.display(),
                self.port.server_name
            )
        });
        let mesh = mesh.unwrap_or_default();
        format!("{} request --from {from}{mesh} {scheme}://{address}{path}", program())
    }
}

/// Quotes a path for a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-~%:@,+=".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// Name by which this program was invoked.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or("portcullis".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use std::path::PathBuf;

    fn paste(
        protocol: Protocol,
        pair: Option<&CertificateFiles>,
        method: Method,
        path: &str,
    ) -> String {
        let port = PortRow {
            workload: "shop/web-0".to_owned(),
            port: 8080,
            address: "127.10.64.1:8080".parse().unwrap(),
            policy: String::new(),
            unguarded: None,
            protocol: String::new(),
            server_name: "web.example".to_owned(),
            application: "web-0.shop".to_owned(),
        };
        let request = SuggestedRequest { method, path: path.to_owned() };
        let from = Ipv4Addr::new(127, 10, 0, 2);
        let roots = Path::new("/t/ca.crt");
        let call = None;
        let paste =
            ClientCommand { from, pair, roots, port: &port, protocol, request: &request, call };
        paste.command()
    }

    #[test]
    fn plaintext_and_mesh_clients_get_curl() {
        assert_eq!(
            paste(Protocol::Http1, None, Method::POST, "/a;b"),
            "curl -si --interface 127.10.0.2 -X POST http://127.10.64.1:8080'/a;b'"
        );
        let pair = CertificateFiles {
            certificate: PathBuf::from("/t/a.crt"),
            key: PathBuf::from("/t/a.key"),
        };
        assert_eq!(
            paste(Protocol::Http1, Some(&pair), Method::GET, "/"),
            "curl -si --interface 127.10.0.2 --cacert /t/ca.crt --cert /t/a.crt --key /t/a.key \
             --connect-to ::127.10.64.1:8080 https://web.example:8080/"
        );
    }

    #[test]
    fn grpc_and_raw_ports_get_our_own_client() {
        let call = paste(Protocol::Grpc, None, Method::POST, "/a.B/C");
        assert!(
            call.ends_with("request --from 127.10.0.2 grpc://127.10.64.1:8080/a.B/C"),
            "{call}"
        );
        let raw = paste(Protocol::Opaque, None, Method::GET, "/");
        assert!(raw.ends_with("request --from 127.10.0.2 tcp://127.10.64.1:8080"), "{raw}");
    }
}
