//! Helpers that the tests of this crate share with those of its libraries.

pub(crate) use policy_engine::testing::objects;
pub(crate) use policy_kube::testing::refusing_client;
