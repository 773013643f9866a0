//! Arguments of `portcullis why`.

use super::super::request::header;
use crate::cluster::controller::PodFlags;
use crate::inventory::InventoryFlags;
use crate::output::WideFormat;
use crate::why::WhyClient;
use clap::Args;
use http::{HeaderName, HeaderValue, Method};
use policy_core::DecisionId;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Say why a request or connection is refused or allowed, and what would allow it
///
/// The first line has the first cause, with the object, file and line that set it. Then the way of the
/// decision: the owner of the port, the route and what lost against it, each grant, nearest miss first,
/// with what it asks for beside what the client has, and grants without effect. At the end the least
/// change that would allow it: new objects for the identity of the client, or for its address where it
/// proves none, compiled and decided again, with everything that they newly allow. Causes outside of policy come first where they are the cause: no
/// sidecar, ports that go around it, NetworkPolicies. Without METHOD and PATH it is about the connection
/// itself.
///
/// With the ID of a decision, which a refused caller or a log has, with --last or with --log it is about
/// what was decided: each decision is found in its sidecar's record or in the log, and its question is asked
/// again. Where the answer is another one now, the first line says so.
///
/// Without --filename, reads the cluster of the current context, and asks a sidecar of each answer what it
/// has in force, through a port-forward: where that differs from what the objects say, it is the first
/// line. It needs the rights to `create` and `get` pods/portforward; without them, what is in force is not
/// known. What may not be listed is named, and the answer is then not known.
///
/// Exit codes: 0 answered, 1 there is no such workload or decision or something failed, 2 wrong use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis why --from sa/shop/cart --to deploy/web:8080 GET /api/orders
  portcullis why --from 10.1.2.3 --to pod/web-0:8080          # the connection itself
  portcullis why -n shop kwy4d0a1b2                           # a refusal that a caller was given
  portcullis why -n shop --last 5 --to deploy/web
  portcullis why -f manifests --log sidecar.log
  portcullis why -f examples/emojivoto --from sa/emojivoto/voting --to emojivoto/web-0:8080 GET /api
  portcullis why -f manifests --from sa/shop/web --to shop/emoji-0:8080 --grpc a.v1.Emoji/List
  portcullis why -n shop --from sa/shop/cart --to svc/web:80 -H 'x-tenant: a' --host web.shop GET /
  portcullis why -o json --from sa/shop/cart --to deploy/web:8080 GET / | jq '.answers[].causes[0]'"
)]
pub(crate) struct WhyArgs {
    /// Client: sa/NAMESPACE/NAME, a workload such as deploy/NAME, an identity, whole or short, or an address
    /// for a client without mesh TLS
    #[arg(long, value_name = "CLIENT", required_unless_present_any = ["subject", "last", "log"])]
    pub(super) from: Option<WhyClient>,

    /// Address of a client with an identity; by default one inside the cluster
    #[arg(long, value_name = "ADDRESS")]
    pub(super) address: Option<IpAddr>,

    /// Port of a workload, by number or name: pod/NAME:PORT, deploy/NAME:PORT and the like, svc/NAME:PORT with a
    /// port of the Service or of its pods, or NAMESPACE/POD:PORT; of --last also without the port
    #[arg(long, value_name = "WORKLOAD:PORT", required_unless_present_any = ["subject", "last", "log"])]
    pub(super) to: Option<String>,

    /// Method of the request, or the id of a decision
    #[arg(value_name = "METHOD|ID")]
    pub(super) subject: Option<WhySubject>,

    /// Path of the request, with its query
    #[arg(requires = "subject")]
    pub(super) path: Option<String>,

    /// The latest decisions that the sidecars of a workload recorded, or without --to of all pods of the
    /// namespace; with --log the most frequent kinds of refusals
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["subject", "from", "grpc"], value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(super) last: Option<u16>,

    /// The refusals in a log of a sidecar, `-` for standard input: of its decisions, or an access log, as
    /// text or JSON; 20 kinds of refusals, the most frequent first
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "from", "grpc"])]
    pub(super) log: Option<PathBuf>,

    /// The admin port of one sidecar, which is read instead of those of pods
    #[arg(long, value_name = "ADDR", conflicts_with = "objects_only")]
    pub(super) admin_address: Option<SocketAddr>,

    /// Ask no sidecar what it has in force
    #[arg(long)]
    pub(super) objects_only: bool,

    /// Call of gRPC instead of METHOD and PATH
    #[arg(long, value_name = "SERVICE/METHOD", conflicts_with = "subject")]
    pub(super) grpc: Option<String>,

    /// Header of the request, `name: value`; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = header)]
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,

    /// Host of the request; by default the name of the workload
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,

    /// Send the request by HTTP/2, as for gRPC
    #[arg(long)]
    pub(super) http2: bool,

    #[command(flatten)]
    pub(super) inventory: InventoryFlags,

    #[command(flatten)]
    pub(super) controller: PodFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: WideFormat,
}

/// The first word behind the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WhySubject {
    /// The id of a decision.
    Id(DecisionId),
    /// The method of a request.
    Method(Method),
}

impl FromStr for WhySubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Methods are capitals: MKCALENDAR has as many letters as an id.
        let is_method = text.bytes().all(|b| b.is_ascii_uppercase());
        match DecisionId::parse(text).filter(|_| !is_method) {
            Some(id) => Ok(Self::Id(id)),
            None => text
                .parse()
                .map(Self::Method)
                .map_err(|_| format!("`{text}` is neither a method nor the id of a decision")),
        }
    }
}
