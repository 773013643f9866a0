//! A 64-bit hash that is stable across machines and versions.

/// FNV-1a. Not secret and not collision-proof: what it names is compared in full wherever a
/// collision could matter.
pub(crate) struct StableHash(u64);

impl StableHash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Returns the hash, mixed so that every input bit reaches every output bit.
    pub(crate) fn finish(&self) -> u64 {
        let mut value = self.0;
        value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        value ^ (value >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut hash = StableHash::new();
        hash.write(bytes);
        hash.finish()
    }

    #[test]
    fn it_never_changes() {
        // Sent on the wire and compared between versions.
        let mut hash = StableHash::new();
        hash.write(b"foobar");
        assert_eq!(hash.0, 0x8594_4171_f739_67e8, "the published FNV-1a test vector");
        assert_ne!(of(b"a"), of(b"b"));
        assert_ne!(of(b""), of(b"\0"));
    }
}
