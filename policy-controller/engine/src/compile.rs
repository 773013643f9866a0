//! Joins what was resolved into the policy of one port of one workload shape (controller-semantics
//! 2.13). Resources stop here: what comes out is the policy model alone.

mod implicit;
mod policy;
