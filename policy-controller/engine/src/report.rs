//! What is told about objects, in plain terms: what viewers are shown, and how far objects are in
//! force. No Kubernetes type appears here.

use futures_util::future::BoxFuture;
use policy_core::ObjectRef;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How far an object's current effect is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Proxies that have it in force.
    pub in_force: u64,
    /// Running workloads with a proxy that depend on it, connected or not.
    pub concerned: u64,
    /// Those among them whose proxy refused the newest update of a port it contributes to.
    pub refused: u64,
}

/// How far every object is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tally {
    /// By object; one that is not named contributes to nothing.
    Counted(BTreeMap<ObjectRef, Count>),
    /// It cannot be said.
    Unknown {
        /// Why, in one word for programs.
        reason: Arc<str>,
        /// Why, for people; names who did not answer.
        message: Arc<str>,
    },
}

impl Tally {
    /// It cannot be said.
    pub fn unknown(reason: &str, message: &str) -> Self {
        Self::Unknown { reason: reason.into(), message: message.into() }
    }
}

/// An object, and what it is told about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// Which.
    pub object: ObjectRef,
    /// The generation that this is about, if it has one.
    pub generation: Option<i64>,
    /// What it is told.
    pub conditions: Vec<ConditionReport>,
    /// How far it is in force; absent: it cannot be said, or there is nothing to put in force.
    pub programmed: Option<ProgrammedReport>,
}

/// How far an object is in force, and why not everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgrammedReport {
    /// The proxies.
    pub count: Count,
    /// `True`, `False` or `Unknown`, as in the condition Programmed.
    pub status: &'static str,
    /// Why, for programs.
    pub reason: Arc<str>,
    /// Why, for people.
    pub message: Arc<str>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionReport {
    /// What is stated.
    pub kind: &'static str,
    /// Whether it is so.
    pub status: bool,
    /// Why, for programs.
    pub reason: &'static str,
    /// Why, for people.
    pub message: Arc<str>,
    /// The parent or target that it is about; absent: the object as a whole.
    pub parent: Option<ObjectRef>,
    /// The section of the parent, where the reference names one.
    pub section: Option<Arc<str>>,
}

/// Every object there is to tell of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// The objects, in order.
    pub objects: Vec<ObjectReport>,
    /// What the replica that tells is short of, in words; empty if nothing.
    pub missing: Vec<String>,
}

/// Tells of objects.
pub trait Overviews: fmt::Debug + Send + Sync + 'static {
    /// The objects of `namespace`, or of all namespaces where it is empty; nothing if the controller
    /// has ended.
    fn overview<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Option<Overview>>;
}
