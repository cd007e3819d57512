//! Every spelling of a tier.

use kv_routing::target::Tier;

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// Accelerator memory.
    Device,
    /// Host memory.
    Host,
    /// Storage of the machine.
    Disk,
    /// Storage or memory elsewhere that the worker can read.
    External,
    /// A word this release does not know.
    Unknown,
}

impl Medium {
    /// By the engine's word; without one, old releases mean the device.
    pub fn of(word: Option<&str>) -> Self {
        let Some(word) = word else {
            return Self::Device;
        };
        let known = |words: &[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        if known(&["GPU", "DEVICE", "CUDA", "HBM", "VRAM", "NPU", "XPU", "TPU", "HPU"]) {
            Self::Device
        } else if known(&["CPU", "CPU_PINNED", "CPU_TIER1", "HOST", "DRAM", "RAM", "PINNED", "LocalCPUBackend"]) {
            Self::Host
        } else if known(&["CPU_TIER2", "DISK", "NVME", "SSD", "STORAGE", "FILE", "FS", "LocalDiskBackend"]) {
            Self::Disk
        } else if known(&["EXTERNAL", "NETWORK", "REMOTE", "SHARED", "OBJ", "OBJECT", "RemoteBackend"]) {
            Self::External
        } else {
            Self::Unknown
        }
    }

    /// By TensorRT-LLM's number.
    pub fn of_level(level: u32) -> Self {
        match level {
            0 => Self::Device,
            1 => Self::Host,
            2 => Self::Disk,
            _ => Self::Unknown,
        }
    }

    /// The tier it is priced as; external storage counts as storage.
    pub fn tier(self) -> Option<Tier> {
        match self {
            Self::Device => Some(Tier::Device),
            Self::Host => Some(Tier::Host),
            Self::Disk | Self::External => Some(Tier::Disk),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_seen_in_the_field() {
        for (word, medium) in [
            (None, Medium::Device),
            (Some("GPU"), Medium::Device),
            (Some("CPU"), Medium::Host),
            (Some("cpu"), Medium::Host),
            (Some("CPU_PINNED"), Medium::Host),
            (Some("CPU_TIER1"), Medium::Host),
            (Some("CPU_TIER2"), Medium::Disk),
            (Some("DISK"), Medium::Disk),
            (Some("STORAGE"), Medium::Disk),
            (Some("EXTERNAL"), Medium::External),
            (Some("tape"), Medium::Unknown),
        ] {
            assert_eq!(Medium::of(word), medium, "{word:?}");
        }
        assert_eq!(Medium::of_level(1).tier(), Some(Tier::Host));
        assert_eq!(Medium::of_level(9).tier(), None);
    }
}
