//! Checks that a configuration can be served at all.

use super::EngineConfig;

const LONGEST_DEFAULT_CONTEXT: u64 = 262_144;

/// A configuration that cannot be served; the text names the flag.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A number that must not be zero or negative.
    #[error("--{0} must be greater than zero")]
    NotPositive(&'static str),
    /// No name to serve under.
    #[error("--served-model-name needs at least one name")]
    NoName,
    /// Blocks above what the hash encoding covers.
    #[error("--block-size {0} is above 4096")]
    BlockTooLarge(u32),
    /// The cache cannot hold one request of the longest length.
    #[error(
        "--max-model-len {wanted} does not fit the KV cache of {capacity} tokens: raise --num-blocks or lower --max-model-len"
    )]
    ContextTooLong {
        /// Configured length.
        wanted: u32,
        /// Tokens the cache holds.
        capacity: u64,
    },
}

impl EngineConfig {
    /// Checks the configuration and returns the longest prompt plus answer, in tokens.
    ///
    /// # Errors
    /// When a value cannot be served; the text names the flag.
    pub fn checked_max_model_len(&self) -> Result<u32, ConfigError> {
        let counts = [
            ("block-size", self.block_size),
            ("max-num-seqs", self.max_num_seqs),
            ("max-num-batched-tokens", self.max_num_batched_tokens),
            ("data-parallel-size", self.data_parallel_size),
            ("natural-output-tokens", self.natural_output_tokens),
            // One block is the null block.
            ("num-blocks", self.num_blocks.saturating_sub(1)),
        ];
        if let Some((flag, _)) = counts.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::NotPositive(flag));
        }
        let speeds = [
            ("prefill-tokens-per-s", self.speed.prefill_tokens_per_s > 0.0),
            ("decode-ms-per-token", self.speed.decode_ms_per_token >= 0.0),
            ("speedup", self.speed.speedup > 0.0),
            ("kv-transfer-tokens-per-s", self.transfer.tokens_per_s > 0.0),
        ];
        if let Some((flag, _)) = speeds.iter().find(|(_, fine)| !fine) {
            return Err(ConfigError::NotPositive(flag));
        }
        if self.served_model_names.is_empty() {
            return Err(ConfigError::NoName);
        }
        if self.block_size > 4096 {
            return Err(ConfigError::BlockTooLarge(self.block_size));
        }
        let capacity = u64::from(self.num_blocks - 1) * u64::from(self.block_size);
        match self.max_model_len {
            Some(wanted) if u64::from(wanted) > capacity => Err(ConfigError::ContextTooLong { wanted, capacity }),
            Some(wanted) => Ok(wanted),
            None => Ok(capacity.min(LONGEST_DEFAULT_CONTEXT) as u32),
        }
    }
}
