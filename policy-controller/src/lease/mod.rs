//! One leader among the replicas, by a Lease of the API server.
