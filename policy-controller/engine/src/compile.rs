//! Compiles resolved values into the policy of one port of one workload shape (docs/spec/controller.md
//! 2.13). Resources stop here: the output is the policy model alone.

mod implicit;
mod policy;
mod smi;
