//! Properties that must hold of any bytes, target by target. The fuzz targets (`tests/fuzz`) assert
//! them of generated input, and a test replays their corpora. Each check says in words what is wrong.

pub mod compat;
pub mod destination;
pub mod detection;
pub mod hello;
pub mod http1;
pub mod import;
pub mod large;
pub mod manifest;
pub mod native;
pub mod reply;
pub mod sidecar;
pub mod stream;

/// The properties that the model itself has for any bytes.
pub use policy_core::testing::replay;
/// The promises of trees of InboundRoutes, of any world.
pub use policy_engine::testing::trees;

/// One property of any bytes.
pub type Check = fn(&[u8]) -> Result<(), String>;

/// Every target, with the folder of its corpus.
pub const TARGETS: [(&str, Check); 15] = [
    ("agreement", replay::agreement),
    ("compat", compat::check),
    ("destination", destination::check),
    ("detection", detection::check),
    ("hello", hello::check),
    ("http1", http1::check),
    ("import", import::check),
    ("large", large::check),
    ("manifest", manifest::check),
    ("native", native::check),
    ("reply", reply::check),
    ("sidecar", sidecar::check),
    ("stream", stream::check),
    ("target", replay::target),
    ("trees", trees::check),
];
