//! The conditions of groups and services, of what binds them to Servers, and of classes.

use super::binding::{BindingOutcome, is_binding, is_class, outcome};
use super::describe::named_by;
use crate::incremental::Context;
use crate::query::condition::Reason;
use crate::query::grant::RefFault;
use crate::query::requests::{ClassSelectionOf, GroupSummaryOf, IncludeFault};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};

/// The outcome of `Accepted`: accepted with a remark, or refused.
pub(crate) type Acceptance = Result<String, (Reason, String)>;

/// The reference errors of a group or a binding.
pub(crate) fn faults(cx: &mut Context<'_>, object: &Object) -> Option<Vec<RefFault>> {
    let key = &object.meta.key;
    let faults = match &object.body {
        Body::Valid(Resource::HttpRouteGroup(_)) => {
            cx.query(&GroupSummaryOf(key.clone())).faults.clone()
        }
        Body::Valid(Resource::HttpRouteBinding(_) | Resource::GrpcServiceBinding(_)) => {
            named_by(cx, key).faults
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    let fault = |one: &IncludeFault| RefFault { reason: one.reason, message: one.message.clone() };
    Some(faults.iter().map(fault).collect())
}

/// If a group can be used.
pub(crate) fn group_acceptance(cx: &mut Context<'_>, key: &ObjectKey) -> Acceptance {
    let summary = cx.query(&GroupSummaryOf(key.clone()));
    broken(&summary.faults, "nothing is granted on its routes")
}

fn broken(faults: &[IncludeFault], effect: &str) -> Acceptance {
    match faults.first() {
        Some(first) => Err((first.reason, format!("{effect}: {}", first.message))),
        None => Ok(String::new()),
    }
}

/// If a binding whose Server exists takes effect there.
pub(crate) fn binding_acceptance(cx: &mut Context<'_>, binding: &Object) -> Acceptance {
    match outcome(cx, binding) {
        // Its own condition says so.
        Some(BindingOutcome::Effective(own)) if !own.is_valid => Ok(String::new()),
        Some(BindingOutcome::Effective(own)) => {
            broken(&own.faults, "it selects nothing, and its routes are denied")?;
            Ok(match own.lost.as_slice() {
                [] => String::new(),
                lost => {
                    let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
                    format!("others hold {}, which it leaves closed", lost.join(", "))
                }
            })
        }
        Some(BindingOutcome::Lost(_)) => {
            let message = "InboundRoutes hold every hostname of it, or in another namespace a host \
                           below it";
            Err((Reason::HostAlreadyClaimed, message.to_owned()))
        }
        Some(BindingOutcome::Refused { reason, message }) => Err((reason, message)),
        // The Server is invalid, which its own condition says.
        None => Ok(String::new()),
    }
}

/// If a class selects a route.
pub(crate) fn class_acceptance(cx: &mut Context<'_>, class: &ObjectKey) -> Acceptance {
    let selection = cx.query(&ClassSelectionOf(class.clone()));
    let skipped = selection.inexpressible.as_ref();
    let skipped =
        skipped.map(|(path, reason)| format!("{path} is not selected: {}", reason.as_str()));
    if !selection.servers.is_empty() {
        return Ok(skipped.unwrap_or_default());
    }
    let message = match (skipped, class.kind) {
        (Some(skipped), _) => skipped,
        (None, Kind::GrpcServiceClass) => {
            "no method that it selects is bound to a Server of the namespace".to_owned()
        }
        (None, _) => "no route that it selects is bound to its Server".to_owned(),
    };
    Err((Reason::NoRoutesSelected, message))
}

/// If a policy takes effect on requests that a binding or class stands for; `None` for other targets.
pub(crate) fn target_acceptance(cx: &mut Context<'_>, target: &Object) -> Option<Acceptance> {
    let key = &target.meta.key;
    let named = |message: String| match message.is_empty() {
        true => message,
        false => format!("{key}: {message}"),
    };
    if is_binding(key.kind) {
        let refused = binding_acceptance(cx, target).err();
        Some(Ok(named(refused.map(|(_, message)| message).unwrap_or_default())))
    } else if is_class(key.kind) {
        let found = class_acceptance(cx, key);
        Some(found.map(named).map_err(|(reason, message)| (reason, named(message))))
    } else {
        None
    }
}
