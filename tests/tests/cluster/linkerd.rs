//! Assertions of the tests of Linkerd's policy controller, made of this controller on a real API
//! server: the status that it writes, and what it sends to clients of Linkerd's API. Each test has the
//! name that Linkerd gives to its test of the same promise.

mod expected;
mod external_workloads;
mod pods;
mod status;
mod world;
