//! The numbers an expression may use.

use bincode::{Decode, Encode};

macro_rules! variables {
    ($($variant:ident $name:literal $doc:literal),* $(,)?) => {
        /// A number of one target, or of the prompt being routed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
        #[repr(u8)]
        pub enum Variable {
            $(#[doc = $doc] $variant,)*
        }

        impl Variable {
            /// Every variable.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in an expression.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means, for `--help` and the documentation.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }

        const COUNT: usize = [$(Variable::$variant),*].len();
    };
}

variables! {
    PromptTokens "prompt_tokens" "Tokens of the prompt.",
    PromptBlocks "prompt_blocks" "Blocks of the prompt, the last partial one included.",
    BlockSize "block_size" "Tokens per block.",
    DeviceBlocks "device_blocks" "Leading prompt blocks the target holds in device memory.",
    HostBlocks "host_blocks" "Further leading blocks in host memory.",
    DiskBlocks "disk_blocks" "Further leading blocks on disk.",
    CachedBlocks "cached_blocks" "Leading prompt blocks the target holds on any tier.",
    CreditBlocks "credit_blocks" "The held blocks weighted by the policy's tier credits and decay.",
    PrefillBlocks "prefill_blocks" "Prefill still to be done on the target with this prompt added, credit taken off, in blocks; not scaled.",
    UncachedBlocks "uncached_blocks" "Blocks of this prompt the target would have to compute.",
    QueuedPrefillBlocks "queued_prefill_blocks" "Prefill queued on the target before this prompt, in blocks.",
    DecodeBlocks "decode_blocks" "Decode blocks active on the target, this request's added.",
    ActiveRequests "active_requests" "Requests in flight on the target as this proxy and the engine together know it.",
    Running "running" "Requests running, as the engine last reported.",
    Waiting "waiting" "Requests waiting, as the engine last reported.",
    KvUsage "kv_usage" "Share of the cache in use, 0 to 1, as the engine last reported.",
    CapacityBlocks "capacity_blocks" "Blocks the target's cache can hold; 0 when unknown.",
    PrefillScale "prefill_scale" "The policy's weight of that name.",
    RequestWeight "request_weight" "The policy's weight of that name.",
    DefaultCost "default_cost" "What the default formula gives.",
}

impl Variable {
    /// The variable called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variable| variable.name() == name)
    }
}

/// A value for every variable; zero until set.
#[derive(Clone, Debug)]
pub struct Variables([f64; COUNT]);

impl Default for Variables {
    fn default() -> Self {
        Self([0.0; COUNT])
    }
}

impl Variables {
    /// Sets one value.
    pub fn set(&mut self, variable: Variable, value: f64) {
        if let Some(place) = self.0.get_mut(variable as usize) {
            *place = value;
        }
    }

    /// Reads one value.
    pub fn get(&self, variable: Variable) -> f64 {
        self.0.get(variable as usize).copied().unwrap_or(0.0)
    }
}
