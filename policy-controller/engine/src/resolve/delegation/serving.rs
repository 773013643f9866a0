//! Servers that cannot answer a rule: missing and invalid ones, and those whose protocol has no such
//! requests.

use crate::incremental::Context;
use crate::query::condition::Reason;
use crate::query::delegation::{EdgeFault, NodeEffect};
use policy_crds::resource::{InboundRule, PathPrefix, ProxyProtocol};
use policy_crds::{Body, ObjectKey, Resource};

/// The effect of a rule of an object that Servers are to answer.
pub(super) fn served(
    cx: &mut Context<'_>,
    servers: Vec<ObjectKey>,
    rule: &InboundRule,
    object: Option<&ObjectKey>,
) -> NodeEffect {
    let (mut able, mut refused) = (Vec::new(), Vec::new());
    for server in servers {
        let Some((reason, why)) = unanswered(cx, &server, &rule.path) else {
            able.push(server);
            continue;
        };
        // An object in another namespace does not learn the name of the root's Server.
        let known = object.is_some_and(|object| object.namespace == server.namespace);
        let message = match known {
            true => format!("{server} {why}"),
            false => format!("the Server of the root {why}"),
        };
        let child = known.then_some(server);
        refused.push(EdgeFault { reason, message: message.into(), child, hosts: Vec::new() });
    }
    if able.is_empty() {
        return NodeEffect::Denied(refused);
    }
    NodeEffect::Serves { servers: able, refused, inherits_server: rule.inherits_server }
}

/// The reason why a Server cannot answer a path; `None` if it can.
fn unanswered(
    cx: &mut Context<'_>,
    server: &ObjectKey,
    path: &PathPrefix,
) -> Option<(Reason, &'static str)> {
    let Some(object) = cx.object(server) else {
        return Some((Reason::RefNotFound, "does not exist"));
    };
    let protocol = match &object.body {
        Body::Valid(Resource::Server(spec)) => spec.protocol,
        Body::Valid(_) | Body::Invalid(_) => return Some((Reason::RefInvalid, "is invalid")),
    };
    match protocol {
        ProxyProtocol::Opaque | ProxyProtocol::Tls => {
            Some((Reason::ProtocolMismatch, "carries no requests, by its proxyProtocol"))
        }
        // `/`, a service, or a method of one.
        ProxyProtocol::Grpc if path.segments().nth(2).is_some() => {
            Some((Reason::NotProgrammable, "answers gRPC, where a path is `/SERVICE/METHOD`"))
        }
        ProxyProtocol::Unknown
        | ProxyProtocol::Http1
        | ProxyProtocol::Http2
        | ProxyProtocol::Grpc => None,
    }
}
