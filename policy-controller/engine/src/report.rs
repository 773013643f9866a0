//! Reports about objects, in plain types: their conditions, and how far they are in force. No
//! Kubernetes type appears here.

use futures_util::future::BoxFuture;
use policy_core::ObjectRef;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The extent to which an object's current version is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Proxies that have it in force.
    pub in_force: u64,
    /// Running workloads with a proxy that depend on it, connected or not.
    pub concerned: u64,
    /// Those among them whose proxy refused the newest update of a port it contributes to.
    pub refused: u64,
}

/// The extent to which every object is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tally {
    /// By object; one that is not named contributes to nothing.
    Counted(BTreeMap<ObjectRef, Count>),
    /// It cannot be said.
    Unknown {
        /// The reason, in one word for programs.
        reason: Arc<str>,
        /// The message for people; names the replicas that did not answer.
        message: Arc<str>,
    },
}

impl Tally {
    /// It cannot be said.
    pub fn unknown(reason: &str, message: &str) -> Self {
        Self::Unknown { reason: reason.into(), message: message.into() }
    }
}

/// An object with its conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// The object.
    pub object: ObjectRef,
    /// The generation that this is about, if it has one.
    pub generation: Option<i64>,
    /// Its conditions.
    pub conditions: Vec<ConditionReport>,
    /// The extent to which it is in force; absent if this is unknown, or if there is nothing to put
    /// in force.
    pub programmed: Option<ProgrammedReport>,
}

/// The extent to which an object is in force, and the reason why not everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgrammedReport {
    /// The proxies.
    pub count: Count,
    /// `True`, `False` or `Unknown`, as in the condition Programmed.
    pub status: &'static str,
    /// The reason, for programs.
    pub reason: Arc<str>,
    /// The message, for people.
    pub message: Arc<str>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionReport {
    /// Type of the condition.
    pub kind: &'static str,
    /// Status of the condition.
    pub status: bool,
    /// Reason, for programs.
    pub reason: &'static str,
    /// Message, for people.
    pub message: Arc<str>,
    /// The parent or target that it is about; absent: the object as a whole.
    pub parent: Option<ObjectRef>,
    /// The section of the parent, where the reference names one.
    pub section: Option<Arc<str>>,
}

/// Reports about all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// The objects, in order.
    pub objects: Vec<ObjectReport>,
    /// The parts that this replica is missing, in words: parts that are not ready, remarks on them, and the
    /// reason of unknown counts; empty if nothing.
    pub missing: Vec<String>,
}

/// Tells of objects.
pub trait Overviews: fmt::Debug + Send + Sync + 'static {
    /// The objects of `namespace`, or of all namespaces where it is empty; `None` if the controller
    /// has ended.
    fn overview<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Option<Overview>>;
}
