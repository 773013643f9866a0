//! GrpcServices from compiled `.proto` files.

mod choice;
mod descriptor;
mod schema;
mod services;
#[cfg(test)]
mod tests;

pub(crate) use choice::GrpcChoice;
pub(crate) use services::grpc_services;
