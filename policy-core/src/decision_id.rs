//! Ids of recorded decisions: of the pod, of its sidecar's process, of the group of decisions.

use std::fmt;
use std::num::NonZeroU64;

/// The id of a group of decisions of one sidecar: ten characters, of which four say the pod, one its
/// sidecar's process and five the group. Callers, logs and tools pass it on as text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(
    /// Fifty bits; the bit above them is set.
    NonZeroU64,
);

/// The part of a [`DecisionId`] that says the pod: 20 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodPart(u32);

/// Digits of base 32: without the letters `i`, `l`, `o` and `u`, which are read as others or spell words.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of an id.
const LENGTH: usize = 10;
const GROUP_BITS: u32 = 25;
const PROCESS_BITS: u32 = 5;
const POD_BITS: u32 = 20;
const MARK: u64 = 1 << (GROUP_BITS + PROCESS_BITS + POD_BITS);

impl PodPart {
    /// The part of a pod with this uid, as the API server writes it. Where no uid is known, the name of
    /// the workload stands in its place.
    pub fn of(uid: &str) -> Self {
        let digits = uid.chars().filter(|c| *c != '-').map(|c| c.to_digit(16));
        let digits: Option<Vec<u32>> = digits.take(HEX_DIGITS).collect();
        match digits {
            Some(digits) if digits.len() == HEX_DIGITS => {
                Self(digits.iter().fold(0, |all, digit| (all << 4) | digit))
            }
            Some(_) | None => Self(low(fnv(uid.as_bytes()), POD_BITS)),
        }
    }
}

/// Hexadecimal digits of a uid that are as many bits as a pod's part.
const HEX_DIGITS: usize = 5;

impl DecisionId {
    /// The id of a group of this number; of `process` and `group`, the lowest 5 and 25 bits count.
    pub fn new(pod: PodPart, process: u8, group: u32) -> Self {
        let process = u64::from(process) & ((1 << PROCESS_BITS) - 1);
        let group = u64::from(group) & u64::from(Self::GROUPS - 1);
        let bits = (u64::from(pod.0) << (PROCESS_BITS + GROUP_BITS)) | (process << GROUP_BITS);
        Self(NonZeroU64::new(bits | group | MARK).unwrap_or(NonZeroU64::MIN))
    }

    /// Number of ids of one process.
    pub const GROUPS: u32 = 1 << GROUP_BITS;

    /// The pod's part.
    pub fn pod(self) -> PodPart {
        PodPart(low(self.0.get() >> (PROCESS_BITS + GROUP_BITS), POD_BITS))
    }

    /// The part of the sidecar's process, which another start of it does not share.
    pub fn process(self) -> u8 {
        u8::try_from(low(self.0.get() >> GROUP_BITS, PROCESS_BITS)).unwrap_or_default()
    }

    /// Reads an id. Letters may be capitals; `i` and `l` are read as 1 and `o` as 0.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != LENGTH {
            return None;
        }
        let bits = text.bytes().try_fold(0_u64, |all, byte| {
            let byte = match byte.to_ascii_lowercase() {
                b'i' | b'l' => b'1',
                b'o' => b'0',
                other => other,
            };
            let digit = DIGITS.iter().position(|own| *own == byte)?;
            Some((all << 5) | u64::try_from(digit).ok()?)
        });
        NonZeroU64::new(bits? | MARK).map(Self)
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; LENGTH];
        let mut bits = self.0.get();
        for place in text.iter_mut().rev() {
            let digit = usize::try_from(bits & 31).unwrap_or_default();
            *place = DIGITS.get(digit).copied().unwrap_or_default();
            bits >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecisionId({self})")
    }
}

/// The lowest bits.
fn low(number: u64, bits: u32) -> u32 {
    let mask = 1_u64.checked_shl(bits).unwrap_or_default().wrapping_sub(1);
    u32::try_from(number & mask).unwrap_or_default()
}

/// The hash FNV-1a, which every version and every program computes alike.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_says_its_pod_and_process() {
        let pod = PodPart::of("9f3c4b1e-0000-4000-8000-000000000000");
        assert_eq!(pod, PodPart(0x9f3c4));
        for (process, group) in [(0, 0), (31, DecisionId::GROUPS - 1), (7, 123_457)] {
            let id = DecisionId::new(pod, process, group);
            let text = id.to_string();
            assert_eq!(text.len(), 10, "{text}");
            assert!(text.starts_with("kwy4"), "{text}");
            assert_eq!(DecisionId::parse(&text), Some(id));
            assert_eq!(DecisionId::parse(&text.to_ascii_uppercase()), Some(id));
            assert_eq!((id.pod(), id.process()), (pod, process));
        }
        let odd_and_even = [1, 2].map(|group| DecisionId::new(pod, 0, group).to_string());
        assert_eq!(odd_and_even, ["kwy4000001", "kwy4000002"]);
    }

    #[test]
    fn what_is_no_id_is_not_read() {
        for text in ["", "kwy400000", "kwy40000011", "kwy4000u01", "kwy4-00001", "kwy400000\u{e9}"]
        {
            assert_eq!(DecisionId::parse(text), None, "{text}");
        }
        assert_eq!(DecisionId::parse("kwy4oooool"), DecisionId::parse("kwy4000001"));
    }

    #[test]
    fn a_name_stands_for_a_missing_uid() {
        assert_eq!(PodPart::of("shop/web-0"), PodPart::of("shop/web-0"));
        assert_ne!(PodPart::of("shop/web-0"), PodPart::of("shop/web-1"));
        assert_eq!(PodPart::of(""), PodPart::of(""));
    }
}
