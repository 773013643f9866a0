//! The bare reverse proxy, built with the tests of this crate so that they never miss it.

fn main() -> anyhow::Result<()> {
    policy_floor::main()
}
