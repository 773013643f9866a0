//! The admission of hosts in effect.

use crate::incremental::{Context, query};
use crate::query::delegation::AdmissionRules;
use policy_crds::resource::RouteAdmission;
use policy_crds::{Body, Claims, Invalid, Kind, ObjectKey, Resource};
use std::sync::Arc;

query!(AdmissionRules, Arc<RouteAdmission>, rules);

/// The name of the RouteAdmissionPolicy that counts.
pub(crate) const EFFECTIVE: &str = "default";

/// The rules of the policy in effect. Where it is absent they are the strict ones. Where it is invalid
/// they are those that its status records, and no claim is admitted that was not before.
fn rules(_: &AdmissionRules, cx: &mut Context<'_>) -> Arc<RouteAdmission> {
    let key = ObjectKey {
        kind: Kind::RouteAdmissionPolicy,
        namespace: "".into(),
        name: EFFECTIVE.into(),
    };
    match cx.object(&key).map(|object| &object.body) {
        Some(Body::Valid(Resource::RouteAdmission(rules))) => Arc::new(rules.clone()),
        Some(Body::Invalid(Invalid { claims: Claims::RouteAdmission(rules), .. })) => {
            Arc::new(rules.clone())
        }
        Some(Body::Valid(_) | Body::Invalid(_)) | None => Arc::default(),
    }
}
