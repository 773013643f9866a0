//! What an object would be told, were it applied: asked of a copy of the index, away from the task
//! that owns it.

mod server;
#[cfg(test)]
mod tests;

use crate::config::ControllerConfig;
use crate::incremental::{Memo, Question};
use crate::index::{Index, parents};
use crate::question::condition::{ConditionKind, Conditions, ObjectCondition, Reason};
use crate::question::route::Attached;
use crate::source::{Batch, Change};
use crate::view::{Shadowed, shadowed};
use policy_core::{ObjectRef, PathHandling, Route};
use policy_crds::resource::{IdentityRef, IdentityRequirement};
use policy_crds::{Body, Field, FieldError, Kind, Object, ObjectKey, Resource, annotation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// How long a review may take, with the wait for its turn. API servers wait five seconds, and then
/// refuse what is sound.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reviews at once: each keeps a thread busy and may copy parts of the index.
const AT_ONCE: usize = 4;

/// An object that does not exist yet is younger than every other.
const YOUNGEST: i64 = i64::MAX;

/// Asks what objects would be told.
#[derive(Clone, Debug)]
pub struct ReviewHandle {
    requests: mpsc::Sender<oneshot::Sender<Option<Snapshot>>>,
    room: Arc<Semaphore>,
}

impl ReviewHandle {
    pub(crate) fn new(requests: mpsc::Sender<oneshot::Sender<Option<Snapshot>>>) -> Self {
        Self { requests, room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// What is legal in `object` but surely not meant, as things are now. `None` where it cannot be
    /// told: objects have not been listed completely yet, or the index is too busy to be asked.
    pub async fn review(&self, object: Object) -> Option<Vec<FieldError>> {
        tokio::time::timeout(PATIENCE, self.reviewed(object)).await.ok()?
    }

    async fn reviewed(&self, object: Object) -> Option<Vec<FieldError>> {
        let turn = self.room.clone().acquire_owned().await.ok()?;
        let snapshot = self.snapshot().await?;
        // A fresh look at a large namespace takes milliseconds, for which nobody else should wait.
        let review = move || {
            // Held until it has ended, whether or not somebody still waits for it.
            let _turn = turn;
            snapshot.review(object)
        };
        tokio::task::spawn_blocking(review).await.ok()
    }

    async fn snapshot(&self) -> Option<Snapshot> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(reply).await.ok()?;
        answer.await.ok()?
    }
}

/// A copy of the index, to be asked what a change would mean.
pub(crate) struct Snapshot {
    index: Index,
    config: Arc<ControllerConfig>,
    memo: Memo,
}

impl Snapshot {
    /// The index must have been listed completely: what is missing from it is missing.
    pub(crate) fn new(index: Index, config: Arc<ControllerConfig>) -> Self {
        Self { index, config, memo: Memo::default() }
    }

    /// What the object would be told, were it applied: each with the field it is about.
    pub(crate) fn review(mut self, mut object: Object) -> Vec<FieldError> {
        let key = object.meta.key.clone();
        if object.meta.created.is_none() && self.index.object(&key).is_none() {
            object.meta.created = Some(YOUNGEST);
        }
        let object = Arc::new(object);
        let change = Change::Apply(object.clone());
        self.index.apply(&Batch {
            changes: vec![change],
            versions: BTreeMap::new(),
            ..Batch::default()
        });
        let mut findings = self.told(&key);
        let Body::Valid(resource) = &object.body else { return findings };
        if let Resource::Server(server) = resource {
            findings.extend(self.server(&key, server));
        }
        findings.extend(self.never_reached(&object));
        findings.extend(self.clients(&key, resource));
        findings
    }

    fn ask<Q: Question>(&mut self, question: &Q) -> Q::Answer {
        self.memo.ask(question, &self.index, &self.config).0
    }

    /// Conditions that say something is not as it should be.
    fn told(&mut self, key: &ObjectKey) -> Vec<FieldError> {
        let conditions = self.ask(&Conditions(key.clone()));
        let mut findings: Vec<FieldError> = Vec::new();
        for condition in conditions.iter().filter(|condition| worth_saying(condition)) {
            let finding = finding(key.kind, condition);
            // A reference that is not permitted is told by two conditions.
            if !findings.iter().any(|other| other.message == finding.message) {
                findings.push(finding);
            }
        }
        findings
    }

    /// Matches that other rules take all requests of, on every Server of the route.
    fn never_reached(&mut self, route: &Object) -> Vec<FieldError> {
        let namespace = &route.meta.key.namespace;
        let name = route.meta.key.to_ref();
        let mut everywhere: Option<BTreeMap<(usize, usize), FieldError>> = None;
        let servers: BTreeSet<ObjectKey> = parents(route)
            .iter()
            .filter_map(|parent| ObjectKey::server_of(parent, namespace))
            .collect();
        for server in servers {
            let paths = self.index.object(&server).map_or(PathHandling::Canonical, |server| {
                annotation::path_normalization(&server.meta.annotations).value
            });
            let attached = self.ask(&Attached(server));
            if !attached.routes.iter().any(|r| r.origin.object() == Some(&name)) {
                continue;
            }
            let mut here = never_reached(&attached.routes, paths, &name);
            everywhere = Some(match everywhere {
                None => here,
                Some(mut both) => {
                    both.retain(|place, _| here.remove(place).is_some());
                    both
                }
            });
        }
        everywhere.into_iter().flat_map(BTreeMap::into_values).collect()
    }

    /// ServiceAccounts of the object's own namespace that it names and that do not exist. Of other
    /// namespaces nothing is told to outsiders.
    fn clients(&mut self, key: &ObjectKey, resource: &Resource) -> Vec<FieldError> {
        let mut named: Vec<(String, &policy_crds::resource::NamespacedName)> = Vec::new();
        if let Resource::AuthorizationPolicy(policy) = resource {
            if let Some(IdentityRequirement::ServiceAccount(name)) = &policy.identity {
                named.push(("spec.requiredAuthenticationRefs".to_owned(), name));
            }
        } else if let Resource::MeshTlsAuthentication(authentication) = resource {
            for (i, reference) in authentication.identity_refs.iter().enumerate() {
                if let IdentityRef::ServiceAccount(name) = reference {
                    named.push((format!("spec.identityRefs[{i}].name"), name));
                }
            }
        }
        let own = |name: &policy_crds::resource::NamespacedName| {
            name.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
        };
        named
            .into_iter()
            .filter(|(_, name)| own(name))
            .map(|(field, name)| {
                let (kind, namespace) = (Kind::ServiceAccount, key.namespace.clone());
                (field, ObjectKey { kind, namespace, name: name.name.clone() })
            })
            .filter(|(_, account)| self.index.object(account).is_none())
            .map(|(field, account)| FieldError {
                field,
                message: format!("{account} does not exist"),
            })
            .collect()
    }
}

/// What of the route `own` is never reached, by rule and match.
fn never_reached(
    routes: &[Arc<Route>],
    paths: PathHandling,
    own: &ObjectRef,
) -> BTreeMap<(usize, usize), FieldError> {
    let told = |shadowed: Shadowed| {
        let Shadowed { route, rule, number, by } = shadowed;
        let (route, by) = (routes.get(route)?, routes.get(by)?.origin.object()?);
        if route.origin.object() != Some(own) {
            return None;
        }
        let by =
            if by == own { "an earlier rule of this route".to_owned() } else { by.to_string() };
        let field = format!("spec.rules[{rule}].matches[{number}]");
        let message = format!("never reached: {by} matches the same requests first");
        Some(((rule, number), FieldError { field, message }))
    };
    shadowed(routes, paths).into_iter().filter_map(told).collect()
}

/// Whether something is not as it should be. What breaks a rule, and annotations, are judged before.
fn worth_saying(condition: &ObjectCondition) -> bool {
    match condition.kind {
        ConditionKind::Accepted | ConditionKind::ResolvedRefs => {
            condition.reason != Reason::Invalid
                && !(condition.status && condition.message.is_empty())
        }
        ConditionKind::PrecedenceDiffers | ConditionKind::AnnotationsValid => false,
    }
}

fn finding(kind: Kind, condition: &ObjectCondition) -> FieldError {
    let message = match (&*condition.message, &condition.parent) {
        ("", Some(parent)) => format!("{} for {parent}", condition.reason.as_str()),
        ("", None) => condition.reason.as_str().to_owned(),
        (message, _) => message.to_owned(),
    };
    FieldError { field: field(kind, condition.kind).to_owned(), message }
}

/// The field that a condition of a kind is about.
fn field(kind: Kind, condition: ConditionKind) -> &'static str {
    let attached = kind.spec().reference(&[Field::Target, Field::Server, Field::Parent]);
    let resolved = match condition {
        ConditionKind::ResolvedRefs => kind.spec().reference(&[Field::Authentication]),
        ConditionKind::Accepted
        | ConditionKind::PrecedenceDiffers
        | ConditionKind::AnnotationsValid => None,
    };
    resolved.or(attached).map_or("spec", |reference| reference.path)
}
