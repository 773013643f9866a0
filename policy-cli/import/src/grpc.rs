//! GrpcServices from compiled `.proto` files.

mod choice;
mod descriptor;
mod schema;
mod services;
#[cfg(test)]
mod tests;

pub use choice::GrpcChoice;
pub use services::grpc_services;
