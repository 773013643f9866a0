//! The bare reverse proxy as a program: see the library.

fn main() -> anyhow::Result<()> {
    policy_floor::main()
}
