//! Command-line flags; vLLM's names where vLLM has the flag.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use mock_engine::{Adapter, EngineConfig, EventsConfig, ModelSource, PdProtocol, Role, Speed, TransferConfig};

/// A simulated inference engine with a real KV cache and real KV events.
#[derive(Debug, Parser)]
#[command(name = "mock-engine", version)]
pub(crate) struct Arguments {
    /// Folder with tokenizer.json and tokenizer_config.json.
    #[arg(long)]
    model_dir: PathBuf,
    /// Names the model answers to; the first one is shown.
    #[arg(long, num_args = 1.., default_value = "mock")]
    served_model_name: Vec<String>,
    /// Adapters as NAME=PATH.
    #[arg(long, num_args = 1..)]
    lora_modules: Vec<String>,
    /// HTTP address.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// HTTP port; 0 lets the system choose (see the ready line).
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Tokens in a block.
    #[arg(long, default_value_t = 16)]
    block_size: u32,
    /// Blocks per rank, one of which is the null block.
    #[arg(long, default_value_t = 2048)]
    num_blocks: u32,
    /// Longest prompt plus answer, in tokens; by default what the cache holds.
    #[arg(long)]
    max_model_len: Option<u32>,
    /// Requests computed at once, per rank.
    #[arg(long, default_value_t = 128)]
    max_num_seqs: u32,
    /// Tokens computed in one step, per rank.
    #[arg(long, default_value_t = 8192)]
    max_num_batched_tokens: u32,
    /// Data-parallel ranks, chosen by header X-data-parallel-rank.
    #[arg(long, default_value_t = 1)]
    data_parallel_size: u32,
    /// Prompt tokens computed per second.
    #[arg(long, default_value_t = 20_000.0)]
    prefill_tokens_per_s: f64,
    /// Milliseconds of one decode step.
    #[arg(long, default_value_t = 10.0)]
    decode_ms_per_token: f64,
    /// Everything happens this many times faster.
    #[arg(long, default_value_t = 1.0)]
    speedup: f64,
    /// PUB endpoint of rank 0; rank r uses port + r, port 0 lets the system choose.
    #[arg(long, default_value = "tcp://127.0.0.1:0")]
    events_endpoint: String,
    /// Replay endpoint of rank 0; empty for none.
    #[arg(long, default_value = "tcp://127.0.0.1:0")]
    replay_endpoint: String,
    /// Topic of the events.
    #[arg(long, default_value = "kv-events")]
    topic: String,
    /// Event batches kept for replay.
    #[arg(long, default_value_t = 10_000)]
    buffer_steps: usize,
    /// Publish no events.
    #[arg(long)]
    no_events: bool,
    /// Seed of the block hash chain, as PYTHONHASHSEED would set it.
    #[arg(long, default_value = mock_engine::cache::DEFAULT_HASH_SEED)]
    hash_seed: String,
    /// Seed of the generated answers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Length of a chat answer whose request sets no limit.
    #[arg(long, default_value_t = 64)]
    natural_output_tokens: u32,
    /// Add usage to every stream.
    #[arg(long)]
    enable_force_include_usage: bool,
    /// Part in a disaggregated pool.
    #[arg(long, value_enum, default_value_t = RoleFlag::Both)]
    role: RoleFlag,
    /// How blocks are handed over.
    #[arg(long, value_enum, default_value_t = ProtocolFlag::Nixl)]
    pd_protocol: ProtocolFlag,
    /// Address of the side channel, as decode engines reach it.
    #[arg(long, default_value = "127.0.0.1")]
    side_channel_host: IpAddr,
    /// Port of the side channel (SGLang and Mooncake: bootstrap port); 0 lets the system choose.
    #[arg(long, alias = "disaggregation-bootstrap-port", default_value_t = 0)]
    side_channel_port: u16,
    /// Seconds that blocks are held for a decode engine.
    #[arg(long, default_value_t = 480.0)]
    hold_timeout_s: f64,
    /// Seconds that one side waits for the other to appear.
    #[arg(long, default_value_t = 30.0)]
    rendezvous_timeout_s: f64,
    /// Tokens transferred between engines per second.
    #[arg(long, default_value_t = 400_000.0)]
    kv_transfer_tokens_per_s: f64,
    /// Compute prompts again whose prefill engine is gone, instead of failing them.
    #[arg(long)]
    recompute_lost: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleFlag {
    Both,
    Prefill,
    Decode,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProtocolFlag {
    Nixl,
    Mooncake,
    Sglang,
    Trtllm,
}

impl Arguments {
    fn transfer(&self) -> anyhow::Result<TransferConfig> {
        let seconds = |flag: &str, value: f64| Duration::try_from_secs_f64(value).context(format!("--{flag} {value}"));
        Ok(TransferConfig {
            role: match self.role {
                RoleFlag::Both => Role::Both,
                RoleFlag::Prefill => Role::Prefill,
                RoleFlag::Decode => Role::Decode,
            },
            protocol: match self.pd_protocol {
                ProtocolFlag::Nixl => PdProtocol::Nixl,
                ProtocolFlag::Mooncake => PdProtocol::Mooncake,
                ProtocolFlag::Sglang => PdProtocol::Sglang,
                ProtocolFlag::Trtllm => PdProtocol::Trtllm,
            },
            side_host: self.side_channel_host,
            side_port: self.side_channel_port,
            hold_timeout: seconds("hold-timeout-s", self.hold_timeout_s)?,
            rendezvous_timeout: seconds("rendezvous-timeout-s", self.rendezvous_timeout_s)?,
            tokens_per_s: self.kv_transfer_tokens_per_s,
            recompute_lost: self.recompute_lost,
        })
    }
}

impl Arguments {
    /// The configuration these flags describe.
    pub(crate) fn into_config(self) -> anyhow::Result<EngineConfig> {
        let adapters = (1..)
            .zip(&self.lora_modules)
            .map(|(id, text)| {
                let (name, path) = text.split_once('=').context("--lora-modules takes NAME=PATH")?;
                Ok(Arc::new(Adapter { id, name: name.to_owned(), path: path.to_owned() }))
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let transfer = self.transfer()?;
        let events = (!self.no_events).then(|| EventsConfig {
            endpoint: self.events_endpoint,
            replay_endpoint: Some(self.replay_endpoint).filter(|endpoint| !endpoint.is_empty()),
            topic: self.topic,
            buffer_steps: self.buffer_steps,
        });
        Ok(EngineConfig {
            served_model_names: self.served_model_name,
            adapters,
            host: self.host,
            port: self.port,
            block_size: self.block_size,
            num_blocks: self.num_blocks,
            max_model_len: self.max_model_len,
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            data_parallel_size: self.data_parallel_size,
            speed: Speed {
                prefill_tokens_per_s: self.prefill_tokens_per_s,
                decode_ms_per_token: self.decode_ms_per_token,
                speedup: self.speedup,
            },
            events,
            hash_seed: self.hash_seed,
            seed: self.seed,
            natural_output_tokens: self.natural_output_tokens,
            force_include_usage: self.enable_force_include_usage,
            transfer,
            ..EngineConfig::new(ModelSource::Dir(self.model_dir))
        })
    }
}
