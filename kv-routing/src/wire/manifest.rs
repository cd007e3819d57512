//! The manifest: what is in shared data, and whether the bridge is alive.

use bincode::{Decode, Encode};

use super::codec::{self, WireError};
use super::{BridgeShare, Epoch, Generation, PoolId, UnixMillis};
use crate::block::BlockSize;
use crate::handoff::Protocol;

/// Bytes of the fixed header after the version byte: epoch, generation, heartbeat.
const HEADER_BYTES: usize = 24;

/// The part a filter reads for every request, at fixed offsets so that nothing else is decoded while it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestHeader {
    /// Epoch of the bridge that wrote it.
    pub epoch: Epoch,
    /// Changes whenever anything but a page changed.
    pub generation: Generation,
    /// Wall clock of the bridge when it wrote the manifest.
    pub heartbeat: UnixMillis,
}

/// What shared data holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Fixed header.
    pub header: ManifestHeader,
    /// Every pool.
    pub pools: Vec<PoolManifest>,
    /// Version of the policy document under [`super::keys::POLICY`]; 0 when there is none.
    pub policy_version: u64,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PoolManifest {
    /// Its number in keys.
    pub id: PoolId,
    /// Name used in configuration, metrics and explanations.
    pub name: String,
    /// Values of a request's `model` that mean the base model.
    pub models: Vec<String>,
    /// Values of a request's `model` that mean a LoRA adapter of it.
    pub adapters: Vec<String>,
    /// Tokens per block, learned from events; `None` until known.
    pub block_size: Option<u32>,
    /// The page set in force has `2^page_bits` pages.
    pub page_bits: u8,
    /// Compiled tokenizer and chat template; `None`: token-id prompts only.
    pub tokenizer: Option<TokenizerRef>,
    /// Prompts the bridge tokenizes, since the core cannot.
    pub bridge: BridgeShare,
    /// Envoy cluster of the pool's workers, for calls that name one.
    pub cluster: String,
    /// How its prefill workers hand over to decode workers, should it have both.
    pub handoff: Protocol,
    /// Envoy cluster of its prefill workers.
    pub prefill_cluster: String,
    /// Age of the heartbeat in milliseconds at which KV state begins to count as stale.
    pub stale_after_ms: u32,
    /// Milliseconds over which a stale source's credit falls to nothing; 0: it keeps its credit.
    pub stale_decay_ms: u32,
    /// Milliseconds a routed prompt counts as held by its target while events have not told yet; 0: not at all.
    pub predict_ms: u32,
    /// The same for prompts answered by a target without events.
    pub predict_without_events_ms: u32,
}

impl PoolManifest {
    /// Block size, when known and within bounds.
    pub fn block_size(&self) -> Option<BlockSize> {
        self.block_size.and_then(BlockSize::new)
    }
}

/// Where a compiled tokenizer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct TokenizerRef {
    /// Content hash.
    pub id: u64,
    /// Number of parts under [`super::keys::tokenizer`].
    pub parts: u32,
    /// Length of all parts together.
    pub bytes: u32,
}

impl Manifest {
    /// Encodes; see `README.md` for the layout.
    ///
    /// # Errors
    /// [`WireError::Encode`] when the pools are larger than a message may be.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let Self { header, pools, policy_version } = self;
        let ManifestHeader { epoch, generation, heartbeat } = header;
        let mut fixed = Vec::with_capacity(HEADER_BYTES);
        for number in [epoch.0, generation.0, heartbeat.0] {
            fixed.extend_from_slice(&number.to_le_bytes());
        }
        codec::encode(&fixed, &(pools, policy_version))
    }

    /// Decodes a whole manifest.
    ///
    /// # Errors
    /// [`WireError`] for anything [`Manifest::encode`] did not make.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let header = ManifestHeader::decode(bytes)?;
        let body = bytes.get(1 + HEADER_BYTES..).ok_or(WireError::Short(bytes.len()))?;
        let (pools, policy_version) = codec::decode(body)?;
        Ok(Self { header, pools, policy_version })
    }
}

impl ManifestHeader {
    /// Reads the fixed header only.
    ///
    /// # Errors
    /// [`WireError`] for a wrong version or too few bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let rest = codec::versioned(bytes)?;
        let number = |at: usize| {
            let field = rest.get(at..at + 8).and_then(|field| field.first_chunk::<8>());
            field.map(|field| u64::from_le_bytes(*field)).ok_or(WireError::Short(bytes.len()))
        };
        Ok(Self { epoch: Epoch(number(0)?), generation: Generation(number(8)?), heartbeat: UnixMillis(number(16)?) })
    }
}

/// Refreshes the heartbeat of an encoded manifest in place. Does nothing to bytes too short to be one.
pub fn set_heartbeat(encoded: &mut [u8], now: UnixMillis) {
    if let Some(field) = encoded.get_mut(17..25) {
        field.copy_from_slice(&now.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_header_and_heartbeat() {
        let header = ManifestHeader { epoch: Epoch(7), generation: Generation(9), heartbeat: UnixMillis(11) };
        let pool = PoolManifest {
            id: PoolId(1),
            name: "p".into(),
            models: vec!["m".into()],
            adapters: vec![],
            block_size: Some(16),
            page_bits: 4,
            tokenizer: Some(TokenizerRef { id: 3, parts: 2, bytes: 5 }),
            bridge: BridgeShare::Chats,
            cluster: "workers".into(),
            handoff: Protocol::Nixl,
            prefill_cluster: "prefill".into(),
            stale_after_ms: 3000,
            stale_decay_ms: 0,
            predict_ms: 5000,
            predict_without_events_ms: 120_000,
        };
        let manifest = Manifest { header, pools: vec![pool], policy_version: 2 };
        let mut bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        set_heartbeat(&mut bytes, UnixMillis(12));
        assert_eq!(ManifestHeader::decode(&bytes).unwrap().heartbeat, UnixMillis(12));
        bytes[0] = 9;
        assert_eq!(Manifest::decode(&bytes), Err(WireError::Version { found: 9 }));
        assert_eq!(Manifest::decode(&[crate::wire::VERSION, 2]), Err(WireError::Short(2)));
    }
}
