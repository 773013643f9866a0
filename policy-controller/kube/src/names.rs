//! Names of objects that the control plane writes, and that its RBAC rules name.

/// The Secret with the certificate of the webhook.
pub const WEBHOOK_SECRET: &str = "policy-admission-tls";

/// The configuration of the admission webhook.
pub const WEBHOOK_CONFIGURATION: &str = "portcullis-policy";

/// The configuration of the webhook for Linkerd's proxies.
pub const BESIDE_CONFIGURATION: &str = "portcullis-beside-linkerd";

/// The configuration of the injector's webhook.
pub const INJECTOR_CONFIGURATION: &str = "portcullis-injector";

/// The ConfigMap with the roots of the mesh.
pub const TRUST_ROOTS: &str = "portcullis-identity-trust-roots";

/// The Secret with the authority that the issuer makes.
pub const ISSUER_AUTHORITY: &str = "portcullis-identity-issuer";
